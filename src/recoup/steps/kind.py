"""What a kind of step answers about itself. Plan reader, engine and edges ask the kind, and know none by its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from recoup.kernel.references import TemplateError, references
from recoup.kernel.template import Scope
from recoup.model.outcome import Order
from recoup.model.plan import Action
from recoup.ports import Keeper, Pages, Recalls, Runtime

if TYPE_CHECKING:
    from recoup.runtimes.step_log import StepLog
    from recoup.steps.hooks import StatefulKind
    from recoup.steps.kind_shape import KindShape

A = TypeVar("A", bound=Action)
Way = tuple[str, ...]
"""The keys that lead from a step, as it is written, to one of its values."""
Data = Mapping[str, Any]
"""A step or a handler as it is written."""


@dataclass(frozen=True, slots=True)
class Values:
    """What the references of one step stand for."""

    scope: Scope
    recorded: Callable[[], Scope]
    """The same as records show it: for texts that are shown and never executed."""
    secret: frozenset[str]
    """The references whose values nobody may see."""

    def refuse_secrets(self, *texts: str) -> None:
        """For texts that others can read, such as the arguments of a process. Raises TemplateError."""
        for text in texts:
            for reference in references(text):
                if reference.name in self.secret:
                    raise TemplateError(
                        f"{reference.name} is a secret and must not stand here: pass it through `env`"
                    )


@dataclass(frozen=True, slots=True)
class Site:
    """What a process offers to the runtimes of its kinds."""

    keeper: Keeper
    open_log: Callable[[Order], StepLog]
    tool_server: Callable[[], tuple[str, ...] | None]
    """The words that start the MCP server for agents inside a step. None: it cannot be started here."""
    browser: Runtime
    pages: Pages
    recalls: Recalls


class StepKind(ABC, Generic[A]):
    """One kind of step. What is not said here is so for most kinds."""

    key: str
    """The key in a plan that makes a step one of this kind."""
    package: str = ""
    """The distribution that brings it. Empty: this one."""
    keys: str
    """Its `KindShape`, as `module:class`: loaded when a plan has such a step."""
    is_work: ClassVar[bool] = True
    """Recoup does something, which may fail and be done again. False: a person is asked."""
    exits: ClassVar[bool] = True
    """An attempt ends with an exit code, which says whether it went well."""
    has_page: ClassVar[bool] = False
    """It works on the page of the run's browser, so that later checks can look at that."""
    keeps_state: bool = False
    """Its steps keep something outside the ledger between the attempts of a run."""
    loads_at_once: bool = False
    """Its runtime takes no time to load."""
    all_text: ClassVar[bool] = False
    """Its action holds nothing but texts."""
    names_its_outputs: ClassVar[bool] = False
    """The names that it writes into RECOUP_OUTPUT can be read in the step itself."""
    needs: frozenset[str] = frozenset()
    """Capabilities that a worker must have to perform it."""
    extra: ClassVar[str] = ""
    """The optional dependency without which it cannot be performed."""
    after_extra: ClassVar[str] = ""
    """The command that follows the installation of the extra."""
    stand_in: ClassVar[Data] = {"run": ":"}
    """Work that takes the place of such a step where only what comes after it is looked at."""

    filled: tuple[Way, ...] = ()
    """Where references are filled in."""
    literal: ClassVar[tuple[Way, ...]] = ()
    """Where a reference would stay as it is written, and mislead."""
    scripts: ClassVar[tuple[Way, ...]] = ()
    """Where a text is a bash script."""
    any_json: tuple[Way, ...] = ()
    """Where a mapping holds JSON values of any kind: null is one, and a key is no place for a reference."""
    filled_words: tuple[str, ...] = ()
    """The keys that people are told where a reference stands in the wrong place."""

    @cached_property
    def shape(self) -> type[KindShape]:
        shape: type[KindShape] = resolve_name(self.keys)
        return shape

    # As it is written

    def filled_in(self, data: Data) -> tuple[Way, ...]:
        """Where references are filled in, in this step."""
        del data
        return self.filled

    def left_literal(self, data: Data) -> tuple[Way, ...]:
        """Where they are not, although one might think so."""
        del data
        return self.literal

    def open_to_others(self, data: Data) -> Mapping[Way, str]:
        """Where no secret may stand, and what to do instead."""
        del data
        return {}

    def is_never_repeated(self, data: Data) -> bool:
        """It is not performed again when its outcome is unknown, as long as the plan does not say."""
        del data
        return False

    def written_at(self, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
        """Where a part of the action stands in the step as it is written."""
        return (self.key, *path)

    # As it is performed

    @abstractmethod
    def texts(self, action: A) -> tuple[str, ...]:
        """Every text in which a reference may stand."""

    @abstractmethod
    def fill(self, action: A, values: Values) -> tuple[A, dict[str, str]]:
        """The action with its references filled in, and more environment for it. Raises TemplateError."""

    @abstractmethod
    def instructions(self, action: A) -> str:
        """What the step does, in the plan's words."""

    def runtime(self, site: Site) -> Runtime:
        """What performs it, where `is_work`."""
        del site
        raise AssertionError(f"nothing performs {self.key} steps: {type(self).__name__} has no runtime")

    def state(self, site: Site) -> StatefulKind:
        """What its steps keep, where `keeps_state`."""
        del site
        raise AssertionError(f"{self.key} steps keep nothing: {type(self).__name__} has no state")

    # For `recoup check`

    def summary(self, action: A) -> str:
        """What it does, where that is not read off the plan at once."""
        del action
        return ""

    def script(self, action: A) -> str | None:
        """The bash script that it runs."""
        del action
        return None

    def programs(self, action: A) -> tuple[str, ...]:
        """Programs that must be on the PATH."""
        del action
        return ()

    def missing(self, action: A, folder: Path) -> Iterator[str]:
        """What it names and is not in the folder in which it begins, in words."""
        del action, folder
        return iter(())
