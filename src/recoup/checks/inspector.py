"""Looks at the world for checks and outputs. Reads raw text in memory: what it says about a check is redacted here, the
outputs by their reader."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from recoup.checks.files import exists, text_of
from recoup.checks.kind import Absent, NotAsked, Surroundings, TooLarge
from recoup.checks.registry import check_kind
from recoup.checks.sources.registry import source_of
from recoup.model.events import CheckResult
from recoup.model.outcome import Collected, Examined, Scene
from recoup.model.plan import Check, Output
from recoup.ports import Keeper, Lifeline, Pages, Redactor

_WORDS_MAX: Final = 300
_UNREADABLE: Final = (OSError, ValueError, RecursionError)
"""What files that others wrote may raise."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")


class WorldInspector:
    """Asks every check and every source of an output by its kind."""

    def __init__(self, keeper: Keeper, redactor: Redactor, pages: Pages | None = None) -> None:
        self._keeper = keeper
        self._redactor = redactor
        self._pages = pages

    async def examine(
        self, checks: Sequence[Check], scene: Scene, lifeline: Lifeline, stop: asyncio.Event
    ) -> Examined:
        around = Surroundings(scene, self._keeper, self._pages, lifeline, stop)
        return Examined(tuple([await self._check(check, around) for check in checks]))

    async def collect(self, outputs: dict[str, Output], scene: Scene) -> Collected:
        sources = {name: source_of(output) for name, output in outputs.items()}
        declared = [name for name, source in sources.items() if source.is_declared]
        try:
            found: dict[str, Any] = dict(_output_file(scene))
            found |= scene.outcome.outputs if scene.outcome else {}
            found |= {
                name: source.find(outputs[name], scene)
                for name, source in sources.items()
                if not source.is_declared
            }
            missing = [name for name in declared if name not in found]
            size = len(msgspec.json.encode(found))
        except (Absent, NotAsked) as absent:
            return Collected(problem=self._cut(str(absent)), too_large=isinstance(absent, TooLarge))
        except _UNREADABLE as error:
            return Collected(problem=self._cut(f"the outputs cannot be read: {error}"))
        if size > scene.policy.outputs_bytes_max:
            limit = scene.policy.outputs_bytes_max
            words = f"the outputs take {size} bytes, over outputs_bytes_max ({limit})"
            return Collected(problem=words, too_large=True)
        if missing:
            return Collected(problem=f"the step did not write {', '.join(missing)} into RECOUP_OUTPUT")
        secret = {name for name, spec in outputs.items() if spec.secret}
        return Collected(
            plain={name: value for name, value in found.items() if name not in secret},
            secret={name: _as_text(value) for name, value in found.items() if name in secret},
        )

    async def _check(self, check: Check, around: Surroundings) -> CheckResult:
        kind = check_kind(check)
        held: bool | None = True
        try:
            detail = await kind.examine(check, around)
        except NotAsked as unknown:
            held, detail = None, str(unknown)
        except Absent as absent:
            held, detail = False, str(absent)
        except _UNREADABLE as error:
            held, detail = None, f"it cannot be looked at: {error}"
        return CheckResult(self._cut(kind.words(check)), held, self._cut(detail))

    def redacting(self, redactor: Redactor) -> WorldInspector:
        return WorldInspector(self._keeper, redactor, self._pages)

    def _cut(self, words: str) -> str:
        """Redacted first: a cut through a secret would let its beginning pass."""
        text = self._redactor.redact(words).text
        return text if len(text) <= _WORDS_MAX else text[: _WORDS_MAX - 3] + "..."


def _output_file(scene: Scene) -> dict[str, str]:
    """`name=value` lines; a value of several lines is written `name<<END`, lines, `END`."""
    if scene.output_file is None:
        return {}
    path = Path(scene.output_file)
    if path.is_file() and path.stat().st_size > scene.policy.outputs_bytes_max:
        raise TooLarge(
            f"RECOUP_OUTPUT holds more than outputs_bytes_max ({scene.policy.outputs_bytes_max} bytes)"
        )
    if not exists(str(path.parent), path.name):
        return {}
    return _named_values(text_of(str(path.parent), path.name, "RECOUP_OUTPUT").split("\n"))


def _named_values(lines: list[str]) -> dict[str, str]:
    lines = [line.removesuffix("\r") for line in lines]
    values: dict[str, str] = {}
    rest = iter(enumerate(lines, 1))
    for number, line in rest:
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        head, heredoc, end = line.partition("<<")
        if heredoc and (not equals or len(head) < len(name)):
            name, value = head, _until(end, rest, number)
        elif not equals:
            raise Absent(f"RECOUP_OUTPUT line {number} is not name=value")
        if not _NAME.fullmatch(name.strip()):
            raise Absent(f"RECOUP_OUTPUT line {number}: {name.strip()!r} is not a name")
        values[name.strip()] = value
    return values


def _until(end: str, rest: Any, started: int) -> str:
    taken: list[str] = []
    for _, line in rest:
        if line == end.strip():
            return "\n".join(taken)
        taken.append(line)
    raise Absent(f"RECOUP_OUTPUT line {started}: no line {end.strip()!r} ends the value")


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
