"""Checks that other packages bring, and what stands in for one whose package is not here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from recoup.checks import function_child
from recoup.checks.command import end_words, keep
from recoup.checks.kind import Absent, CheckKind, NotAsked, Shapes, Surroundings
from recoup.checks.spots import Fill, Spot
from recoup.model.plan import CustomCheck
from recoup.model.process import EndedBy

__all__ = ["Absent", "AbsentCheck", "CustomKind", "FunctionCheck", "NotAsked", "Surroundings"]


class CustomKind(CheckKind[CustomCheck]):
    """A check of which its key and JSON arguments are stored, so that every process can read it back without the
    package. References are filled in everywhere in the arguments."""

    key: str
    """The key in a plan that makes a check one of this kind."""
    keys: str
    """What people write, a `CustomShape`, as `module:class`: loaded when a plan has such a check."""
    world: ClassVar[bool] = False
    """It looks at the world and at nothing that the attempt said: it may be asked before the first attempt, and after
    one whose outcome is unknown."""

    def __init__(self) -> None:
        self.any_json = (self.key,)

    def make_shapes(self) -> Shapes:
        from recoup.checks.custom_shape import shapes_of

        return shapes_of(self)

    def check(self, arguments: dict[str, Any]) -> CustomCheck:
        return CustomCheck(self.key, arguments, self.package, self.world)

    def words(self, check: CustomCheck) -> str:
        return f"{check.kind}: {msgspec.json.encode(check.arguments).decode()}"

    def filled(self, check: CustomCheck, fill: Fill) -> CustomCheck:
        return msgspec.structs.replace(check, arguments=fill(check.arguments, Spot.VALUE))


class FunctionCheck(CustomKind):
    """Calls a function of its package, in a process of its own and within the time for checks.

    The function is given the arguments by name, where no other user can read them. The check holds when it returns,
    with what it returns as words; it does not hold when it raises AssertionError. Any other exception says nothing.
    """

    target: str
    """The function, as `module:function`."""

    async def examine(self, check: CustomCheck, around: Surroundings) -> str:
        call = msgspec.json.encode({"target": self.target, "arguments": check.arguments})
        ended, printed = await keep(around, _argv(), call)
        answer = _answer_in(printed.captured().text())
        if ended.ended_by is not EndedBy.EXIT or answer is None:
            raise NotAsked(end_words(ended, printed, around.scene.check_timeout_s))
        if answer.held is None:
            raise NotAsked(answer.words)
        if not answer.held:
            raise Absent(answer.words)
        return answer.words


class _Answer(msgspec.Struct, frozen=True):
    held: bool | None
    words: str


_MARK: Final = function_child.MARK


def _argv() -> tuple[str, ...]:
    """`-P`: nothing in the step's folder may take the place of a module."""
    return (sys.executable, "-P", str(Path(function_child.__file__)))


def _answer_in(printed: str) -> _Answer | None:
    lines = [line for line in printed.splitlines() if line.startswith(_MARK)]
    try:
        return msgspec.json.decode(lines[-1].removeprefix(_MARK), type=_Answer) if lines else None
    except msgspec.DecodeError:
        return None


class AbsentCheck(CustomKind):
    """In the place of a kind that cannot be loaded: its runs can be read, and its steps fail with what to install."""

    def __init__(self, key: str, why: str) -> None:
        from recoup.checks.registry import capability

        self.key = key
        self.needs = frozenset({capability(key)})
        self._why = why
        super().__init__()

    def make_shapes(self) -> Shapes:
        return Shapes({})

    def missing(self, check: CustomCheck) -> str:
        return f"{self._why}: pip install {check.package}" if check.package else self._why

    async def examine(self, check: CustomCheck, around: Surroundings) -> str:
        del around
        raise NotAsked(self.missing(check))
