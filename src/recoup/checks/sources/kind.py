"""What a source of outputs answers about itself. Plan reader and inspector ask it, and know none by its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from recoup.model.outcome import Scene
from recoup.model.plan import AnyOutput

if TYPE_CHECKING:
    from recoup.checks.sources.source_shape import SourceShape

S = TypeVar("S", bound=AnyOutput)


class OutputSource(ABC, Generic[S]):
    """One way to find an output."""

    key: ClassVar[str]
    """The key in a plan that makes an output one of these. Empty: the one that is meant where no key says otherwise."""
    how: ClassVar[str] = ""
    """How a plan says what to take, for people."""
    is_declared: ClassVar[bool] = False
    """The step itself gives the value, by the name of the output: nothing has to be looked for."""

    @cached_property
    def shape(self) -> type[SourceShape]:
        return self.make_shape()

    @abstractmethod
    def make_shape(self) -> type[SourceShape]:
        """Asked once, and only where a plan is read: it loads what drivers of runs do without."""

    def reads_printed(self, data: Mapping[str, Any]) -> bool:
        """It looks in what the attempt printed, as it is written."""
        del data
        return False

    @abstractmethod
    def find(self, output: S, scene: Scene) -> Any:
        """The value. Raises Absent when it is not there, and NotAsked when that cannot be said."""


AnySource = OutputSource[Any]
