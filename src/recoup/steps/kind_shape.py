"""The keys of a kind of step as people write them, and the words for what is wrong with them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Set
from typing import Any, ClassVar

from recoup.model.plan import Action, Repeat, Step
from recoup.shapes.plan_written import Written
from recoup.shapes.shape import Shape
from recoup.shapes.wording import Detail, Finding


class KindShape(Shape):
    """The own keys of one kind: in handlers with those that all work has, in steps with those of all steps."""

    phrase: ClassVar[str] = ""
    """What such a step does: "runs a command"."""
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys that only this kind has, and what to say where one stands in a step of another kind."""
    means: ClassVar[Set[str]] = frozenset()
    """Keys beside which nobody has to be told that the step says nothing to do: they have words of their own."""

    @abstractmethod
    def action(self) -> Action:
        """What is to be done."""

    def usual_repeat(self) -> Repeat:
        """Where the plan does not say."""
        return Repeat.SAFE

    def completed(self, step: Step) -> Step:
        """The step with what only steps of this kind say."""
        return step

    @classmethod
    def in_steps(cls) -> type[KindShape]:
        """The keys in a step, where it has more than a handler."""
        return cls

    @classmethod
    def shapes(cls) -> Mapping[str, type[Shape]]:
        """The shapes inside, by the key or the branch under which each stands."""
        return {}

    @classmethod
    def words(cls, detail: Detail, shape: type[Shape]) -> str | None:
        """What to say about a mistake. None: the usual words will do."""
        del detail, shape
        return None

    @classmethod
    def commands(cls, data: Mapping[str, Any]) -> Mapping[tuple[str, ...], Any]:
        """The commands in a step as it is written, each under the way to it: a script, or a list of words."""
        del data
        return {}

    @classmethod
    def broken_rules(cls, plan: Written) -> Iterator[Finding]:
        """What must hold of such steps beyond their shape, in a plan that has one."""
        del plan
        return iter(())
