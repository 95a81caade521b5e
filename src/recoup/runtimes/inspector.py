"""Looks at the world for checks and outputs. Reads raw text in memory: what it says about a check is redacted here, the
outputs by their reader."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from recoup.files.beneath import LeavesFolder, exists_beneath, read_beneath
from recoup.files.named import DatabaseInUse, NotRegular
from recoup.kernel.canonical import canonical_json
from recoup.model.events import CheckResult
from recoup.model.ids import ProcessIdentity
from recoup.model.outcome import Collected, Examined, Scene
from recoup.model.plan import (
    PAGE_CHECKS,
    Check,
    DeclaredOutput,
    DiffCheck,
    ExitCheck,
    FileCheck,
    JsonCheck,
    JsonOutput,
    Output,
    OutputCheck,
    PageCheck,
    PageTextCheck,
    RegexOutput,
    RegionCheck,
    ResponseCheck,
    RunCheck,
    StreamName,
    TargetCheck,
    TextMatch,
    TitleCheck,
    UrlCheck,
    ValueCheck,
)
from recoup.model.process import Ended, EndedBy, ProcessSpec
from recoup.model.target import target_words
from recoup.ports import Keeper, Lifeline, Pages, Redactor
from recoup.runtimes.capture import Capture
from recoup.runtimes.shell import shell_argv
from recoup.runtimes.taking import took_too_much

_FILE_BYTES_MAX = 16 << 20
_WORDS_MAX = 300
_NO_ANSWER = 126
"""From here on a shell's exit code says that the command could not be run, or was killed."""
_SAID_BYTES = 256 << 10
_UNREADABLE = (OSError, ValueError, RecursionError)
"""What files that others wrote may raise."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_PATH_PART = re.compile(r"\[(\d{1,6})\]|([^.\[\]]+)")


class _Absent(Exception):
    """What a check or an output looks for is not there; the text says why."""


class _TooLarge(_Absent):
    """It is there, but nobody looks at so much."""


class _NotAsked(Exception):
    """The check did not come to an end, so nothing is known."""


class WorldInspector:
    """Files, JSON, printed text, changes, and commands through the keeper."""

    def __init__(self, keeper: Keeper, redactor: Redactor, pages: Pages | None = None) -> None:
        self._keeper = keeper
        self._redactor = redactor
        self._pages = pages

    async def examine(
        self, checks: Sequence[Check], scene: Scene, lifeline: Lifeline, stop: asyncio.Event
    ) -> Examined:
        return Examined(tuple([await self._check(check, scene, lifeline, stop) for check in checks]))

    async def collect(self, outputs: dict[str, Output], scene: Scene) -> Collected:
        try:
            found: dict[str, Any] = dict(_output_file(scene))
            found |= scene.outcome.outputs if scene.outcome else {}
            found |= {name: _output(spec, scene) for name, spec in outputs.items() if not _declared(spec)}
            missing = [name for name, spec in outputs.items() if _declared(spec) and name not in found]
            size = len(msgspec.json.encode(found))
        except (_Absent, _NotAsked) as absent:
            return Collected(problem=self._cut(str(absent)), too_large=isinstance(absent, _TooLarge))
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

    async def _check(
        self, check: Check, scene: Scene, lifeline: Lifeline, stop: asyncio.Event
    ) -> CheckResult:
        held: bool | None = True
        try:
            if isinstance(check, RunCheck):
                detail = await self._run(check, scene, lifeline, stop)
            elif isinstance(check, PAGE_CHECKS):
                held, detail = await self._on_the_page(check, scene)
            else:
                detail = _look(check, scene)
        except _NotAsked as unknown:
            held, detail = None, str(unknown)
        except _Absent as absent:
            held, detail = False, str(absent)
        except _UNREADABLE as error:
            held, detail = None, f"it cannot be looked at: {error}"
        return CheckResult(self._cut(describe(check)), held, self._cut(detail))

    async def _on_the_page(self, check: PageCheck, scene: Scene) -> tuple[bool | None, str]:
        if self._pages is None:
            raise _NotAsked("there is no browser here")
        # A page shows what it will show within seconds: a command may take minutes.
        wait_s = min(scene.check_timeout_s, scene.policy.page_check_s)
        scene = msgspec.structs.replace(scene, check_timeout_s=wait_s)
        return await self._pages.examine(scene.run_id, check, scene)

    def redacting(self, redactor: Redactor) -> WorldInspector:
        return WorldInspector(self._keeper, redactor, self._pages)

    def _cut(self, words: str) -> str:
        """Redacted first: a cut through a secret would let its beginning pass."""
        text = self._redactor.redact(words).text
        return text if len(text) <= _WORDS_MAX else text[: _WORDS_MAX - 3] + "..."

    async def _run(self, check: RunCheck, scene: Scene, lifeline: Lifeline, stop: asyncio.Event) -> str:
        said = Capture(_SAID_BYTES)
        ended = await self._keeper.keep(
            ProcessSpec(
                argv=shell_argv(check.command),
                cwd=scene.cwd,
                env=scene.env,
                wall_timeout_s=scene.check_timeout_s,
                idle_timeout_s=None,
                grace_s=1,
                processes_max=scene.policy.step_processes_max,
                memory_max_bytes=scene.policy.step_memory_max_bytes,
            ),
            before_exec=_at_once,
            lifeline=lifeline,
            output=lambda _stream, chunk: said.feed(chunk),
            stop=stop,
        )
        if ended.ended_by is EndedBy.EXIT and ended.exit_code == 0:
            return "exit 0"
        words = f"{_how(ended, scene.check_timeout_s)}: {_last_line(said)}"
        if ended.ended_by is EndedBy.EXIT and ended.exit_code is not None and ended.exit_code < _NO_ANSWER:
            raise _Absent(words)
        raise _NotAsked(words)


def describe(check: Check) -> str:
    """A check in a few words, as in the plan."""
    match check:
        case ExitCheck(codes=codes):
            return f"exit: {', '.join(map(str, codes))}"
        case FileCheck(path=path, absent=absent):
            return f"file: {path}{' absent' if absent else ''}"
        case OutputCheck(stream=stream, match=match):
            return f"{stream}: {_wanted(match)}"
        case JsonCheck(file=file, path=path):
            return f"json: {file} {path}"
        case RunCheck(command=command):
            return f"run: {command if isinstance(command, str) else ' '.join(command)}"
        case DiffCheck(want=want):
            return f"diff: {want}"
        case UrlCheck(pattern=pattern):
            return f"url: {pattern}"
        case TitleCheck(match=match):
            return f"title: {_wanted(match)}"
        case PageTextCheck(match=match, absent=absent):
            return f"{'no text' if absent else 'text'}: {_wanted(match)}"
        case TargetCheck(target=target, state=state, count=count):
            return f"{state if count is None else f'{count} of'}: {target_words(target)}"
        case ValueCheck(target=target):
            return f"value: {target_words(target)}"
        case ResponseCheck(pattern=pattern):
            return f"response: {pattern}"
        case RegionCheck(target=target):
            return f"region: {target_words(target) if target else 'what is in view'}"


def _wanted(match: TextMatch) -> str:
    return match.text if match.text is not None else f"/{match.regex}/"


def _look(check: Check, scene: Scene) -> str:
    match check:
        case ExitCheck():
            return _exit(check, scene)
        case FileCheck():
            return _file(check, scene)
        case OutputCheck():
            return _printed(check, scene)
        case JsonCheck():
            return _json(check, scene)
        case DiffCheck():
            return _diff(check, scene)
        case _:
            raise AssertionError(f"{describe(check)}: this one is asked elsewhere")


def _exit(check: ExitCheck, scene: Scene) -> str:
    code = scene.outcome.exit_code if scene.outcome else None
    if code not in check.codes:
        raise _Absent(f"exit code was {code}")
    return f"exit code {code}"


def _file(check: FileCheck, scene: Scene) -> str:
    if check.absent:
        if _exists(scene.cwd, check.path) or Path(scene.cwd, check.path).is_symlink():
            raise _Absent(f"{check.path} is there")
        return "absent"
    if not _exists(scene.cwd, check.path):
        raise _Absent(f"{check.path} does not exist")
    if check.contains is None:
        return "exists"
    text, is_whole = _beginning_of(scene.cwd, check.path)
    try:
        return _found(check.contains, text, check.path)
    except _Absent as absent:
        if is_whole:
            raise
        raise _NotAsked(f"{absent} in its first {_FILE_BYTES_MAX} bytes; the rest was not read") from None


def _printed(check: OutputCheck, scene: Scene) -> str:
    assert scene.outcome is not None, "printed text belongs to an attempt"
    captured = scene.outcome.stdout if check.stream is StreamName.STDOUT else scene.outcome.stderr
    return _found(check.match, captured.text(), check.stream.value)


def _json(check: JsonCheck, scene: Scene) -> str:
    value = _json_value(scene.cwd, check.file, check.path)
    if check.equals is not msgspec.UNSET and not _equal(value, check.equals):
        raise _Absent(f"{check.path} is {_short(value)}, wanted {_short(check.equals)}")
    return f"{check.path} is {_short(value)}"


def _equal(one: Any, other: Any) -> bool:
    """As JSON values: the order of keys and the spelling of numbers do not matter, true is not 1."""
    try:
        return canonical_json(one) == canonical_json(other)
    except ValueError:
        return type(one) is type(other) and bool(one == other)  # numbers that canonical JSON has no form for


def _diff(check: DiffCheck, scene: Scene) -> str:
    if scene.changed_files is None:
        raise _Absent("there is no workspace, so nothing is known about changes")
    count = len(scene.changed_files)
    if check.want == "empty" and count:
        raise _Absent(f"{count} files changed, among them {scene.changed_files[0]}")
    if check.want == "nonempty" and not count:
        raise _Absent("nothing changed")
    strays = [name for name in scene.changed_files if check.paths and not _matches_any(name, check.paths)]
    if strays:
        raise _Absent(f"{strays[0]} changed, which no pattern in `paths` allows")
    return f"{count} files changed"


def _matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _found(match: TextMatch, text: str, where: str) -> str:
    if match.text is not None:
        if match.text not in text:
            raise _Absent(f"{where} does not contain {_short(match.text)}")
        return "found"
    hit = _search(match.regex or "", text)
    if hit is None:
        raise _Absent(f"{where} does not match /{match.regex}/")
    return f"matched {_short(hit.group(0))}"


def _search(pattern: str, text: str) -> Any:
    """RE2: linear in the text, whatever the pattern."""
    import re2

    return re2.search(pattern, text)


def _exists(folder: str, name: str) -> bool:
    try:
        return exists_beneath(folder, name)
    except LeavesFolder as link:
        raise _left(name, link) from None


def _left(name: str, link: LeavesFolder) -> _Absent:
    return _Absent(f"{name} was not looked at: {link.strerror}")


def _text_of(folder: str, name: str, shown: str | None = None) -> str:
    text, is_whole = _beginning_of(folder, name, shown)
    if not is_whole:
        raise _NotAsked(f"{shown or name} is longer than {_FILE_BYTES_MAX} bytes")
    return text


def _beginning_of(folder: str, name: str, shown: str | None = None) -> tuple[str, bool]:
    """And whether that is all. Only of a regular file: opening a pipe would wait for ever."""
    shown = shown or name
    try:
        read = read_beneath(folder, name, _FILE_BYTES_MAX + 1)
    except LeavesFolder as link:
        raise _left(shown, link) from None
    except FileNotFoundError:
        raise _Absent(f"{shown} does not exist") from None
    except (IsADirectoryError, NotRegular):
        raise _Absent(f"{shown} is not a regular file") from None
    except DatabaseInUse as database:
        raise _Absent(f"{shown} was not read: {database.strerror}") from None
    except OSError as error:
        raise _NotAsked(f"{shown} cannot be read: {error.strerror}") from None
    return read[:_FILE_BYTES_MAX].decode("utf-8", "replace"), len(read) <= _FILE_BYTES_MAX


def _json_value(folder: str, name: str, where: str) -> Any:
    try:
        value = json.loads(_text_of(folder, name))
    except ValueError as error:
        raise _Absent(f"{name} is not JSON: {error}") from None
    for index, key in _PATH_PART.findall(where):
        value = _member(value, index, key, where)
    return value


def _member(value: Any, index: str, key: str, where: str) -> Any:
    if index and isinstance(value, list) and int(index) < len(value):
        return value[int(index)]
    if key and isinstance(value, dict) and key in value:
        return value[key]
    if key.isdigit() and isinstance(value, list) and int(key) < len(value):
        return value[int(key)]
    raise _Absent(f"there is no {where}")


def _declared(spec: Output) -> bool:
    return isinstance(spec, DeclaredOutput)


def _output(spec: Output, scene: Scene) -> Any:
    if isinstance(spec, JsonOutput):
        return _json_value(scene.cwd, spec.file, spec.path)
    assert isinstance(spec, RegexOutput)
    hit = _search(spec.regex, _regex_text(spec, scene))
    if hit is None:
        raise _Absent(f"{spec.file or spec.stream.value} does not match /{spec.regex}/")
    return hit.group(1) if hit.re.groups else hit.group(0)


def _regex_text(spec: RegexOutput, scene: Scene) -> str:
    if spec.file is not None:
        return _text_of(scene.cwd, spec.file)
    if scene.outcome is None:
        raise _Absent("what the attempt printed is lost")
    return (scene.outcome.stdout if spec.stream is StreamName.STDOUT else scene.outcome.stderr).text()


def _output_file(scene: Scene) -> dict[str, str]:
    """`name=value` lines; a value of several lines is written `name<<END`, lines, `END`."""
    if scene.output_file is None:
        return {}
    path = Path(scene.output_file)
    if path.is_file() and path.stat().st_size > scene.policy.outputs_bytes_max:
        raise _TooLarge(
            f"RECOUP_OUTPUT holds more than outputs_bytes_max ({scene.policy.outputs_bytes_max} bytes)"
        )
    if not _exists(str(path.parent), path.name):
        return {}
    return _named_values(_text_of(str(path.parent), path.name, "RECOUP_OUTPUT").split("\n"))


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
            raise _Absent(f"RECOUP_OUTPUT line {number} is not name=value")
        if not _NAME.fullmatch(name.strip()):
            raise _Absent(f"RECOUP_OUTPUT line {number}: {name.strip()!r} is not a name")
        values[name.strip()] = value
    return values


def _until(end: str, rest: Any, started: int) -> str:
    taken: list[str] = []
    for _, line in rest:
        if line == end.strip():
            return "\n".join(taken)
        taken.append(line)
    raise _Absent(f"RECOUP_OUTPUT line {started}: no line {end.strip()!r} ends the value")


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _how(ended: Ended, timeout_s: float) -> str:
    if ended.ended_by is EndedBy.WALL_TIMEOUT:
        return f"took over {timeout_s:g} s"
    if ended.ended_by is EndedBy.EXIT:
        return f"exit code {ended.exit_code}"
    return took_too_much(ended) or ended.ended_by.value


def _last_line(said: Capture) -> str:
    lines = said.captured().text().strip().splitlines()
    return lines[-1] if lines else "printed nothing"


async def _at_once(_keeper: ProcessIdentity) -> None:
    """A check changes nothing that must be recorded before it begins."""
