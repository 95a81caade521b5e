"""What a kind of check answers about itself. Plan reader, engine and edges ask the kind, and know none by its name."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from recoup.checks.spots import Fill, Spot
from recoup.model.outcome import PageQuestion, Scene
from recoup.model.plan import AnyCheck
from recoup.ports import Keeper, Lifeline, Pages

if TYPE_CHECKING:
    from recoup.checks.check_shape import CheckShape
    from recoup.shapes.plan_written import Written
    from recoup.shapes.shape import Shape
    from recoup.shapes.wording import Finding

C = TypeVar("C", bound=AnyCheck)


class Absent(Exception):
    """What a check or an output looks for is not there; the text says why."""


class TooLarge(Absent):
    """It is there, but nobody looks at so much."""


class NotAsked(Exception):
    """The check did not come to an end, so nothing is known."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a check may look at, and with what."""

    scene: Scene
    keeper: Keeper
    pages: Pages | None
    lifeline: Lifeline
    stop: asyncio.Event


@dataclass(frozen=True)
class Shapes:
    """How people write checks of one kind."""

    by_key: Mapping[str, type[CheckShape]]
    """The whole mapping under `expect`, by its main key."""
    parts: Mapping[str, type[Shape]] = field(default_factory=dict)
    """The shapes inside, by the key or the branch under which each stands."""


class CheckKind(ABC, Generic[C]):
    """One kind of check. What is not said here is so for most kinds."""

    package: str = ""
    """The distribution that brings it. Empty: this one."""
    needs: frozenset[str] = frozenset()
    """Capabilities that a worker must have to examine it."""
    looks_at_page: ClassVar[bool] = False
    """It looks at the page of the run's browser."""
    needs_process: ClassVar[bool] = False
    """It looks at the exit code of the attempt, or at what it printed."""
    needs_changes: ClassVar[bool] = False
    """It looks at what the attempt changed in the workspace, which takes a while to find out."""

    any_json: tuple[str, ...] = ()
    """The keys under which any JSON value may stand: null is one."""
    scripts: ClassVar[tuple[str, ...]] = ()
    """The keys under which a text is a bash script."""
    spots: Mapping[str, Spot] = {}
    """The keys, at any depth, under which no secret may stand."""

    # As it is written

    @cached_property
    def shapes(self) -> Shapes:
        return self.make_shapes()

    @abstractmethod
    def make_shapes(self) -> Shapes:
        """Asked once, and only where a plan is read: it loads what drivers of runs do without."""

    def broken_rules(self, plan: Written) -> Iterator[Finding]:
        """What must hold of such checks beyond their shape, in a plan that has one."""
        del plan
        return iter(())

    # As it is stored

    @abstractmethod
    def words(self, check: C) -> str:
        """The check in a few words, as in the plan."""

    @abstractmethod
    def filled(self, check: C, fill: Fill) -> C:
        """The check with every text in which a reference may stand passed through `fill`."""

    def script(self, check: C) -> tuple[str, str] | None:
        """The bash script that it runs, and the key under which it stands."""
        del check
        return None

    # As it is examined

    def exit_codes(self, check: C) -> tuple[int, ...]:
        """Those that mean success. Not empty: the check is about nothing else, and the engine compares them itself."""
        del check
        return ()

    @abstractmethod
    async def examine(self, check: C, around: Surroundings) -> str:
        """Returns words when it holds. Raises Absent when it does not, and NotAsked when nothing is known."""

    def question(self, check: C) -> PageQuestion | None:
        """Where it looks at the page: what it must see there."""
        del check
        return None

    def missing(self, check: C) -> str | None:
        """Why it cannot be examined here, and what to install."""
        del check
        return None

    def proves_work(self, check: C) -> bool:
        """It looks at what was done, not at what was said."""
        return check.asks_world or self.needs_changes


AnyKind = CheckKind[Any]
