"""What other packages bring, found by their entry points. They are looked for only when something is named that Recoup
does not have itself, and loaded only when they are used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
STEPS: Final = "recoup.steps"
CHECKS: Final = "recoup.checks"
AGENTS: Final = "recoup.agents"
NOTIFIERS: Final = "recoup.notifiers"
_WHY_CHARS_MAX: Final = 300


class PluginBroken(Exception):
    """A plugin that is installed and cannot be used, in words."""


@dataclass(frozen=True)
class Plugin:
    """One thing that a package brings, by the name under which people use it."""

    group: str
    name: str
    packages: tuple[str, ...]
    """More than one: they bring the same, and none of them is used."""
    _entry: EntryPoint = field(repr=False)

    @property
    def package(self) -> str:
        return self.packages[0]

    def load(self, wanted: type[Any]) -> Any:
        """The object, which must be one of these. Raises PluginBroken."""
        if len(self.packages) > 1:
            both = " and ".join(self.packages)
            raise PluginBroken(f"{both} both bring `{self.name}`: uninstall one of them")
        loaded = self.guarded(self._entry.load)
        if not isinstance(loaded, wanted):
            raise PluginBroken(self._words(f"{self._entry.value} is no {wanted.__name__}"))
        return loaded

    def guarded(self, use: Callable[[], T]) -> T:
        """What comes of a first use of what it brings. Raises PluginBroken, whatever goes wrong."""
        try:
            return use()
        except Exception as error:
            raise PluginBroken(self._words(f"{type(error).__name__}: {error}")) from error

    def _words(self, why: str) -> str:
        short = " ".join(why.split())[:_WHY_CHARS_MAX]
        return f"the plugin {self.package}, which brings `{self.name}`, cannot be loaded: {short}"


async def guarded_call(use: Callable[[], Awaitable[T]], *expected: type[Exception]) -> T:
    """What a package does whenever it is used. Raises what is expected of it, and PluginBroken for anything else."""
    try:
        return await use()
    except expected:
        raise
    except Exception as error:
        raise PluginBroken(f"{type(error).__name__}: {error}"[:_WHY_CHARS_MAX]) from error


@cache
def plugins(group: str) -> Mapping[str, Plugin]:
    """Those of the packages that are installed for this interpreter, by name."""
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, []).append(entry)
    return {name: _plugin(group, name, entries) for name, entries in sorted(found.items())}


def _plugin(group: str, name: str, entries: list[EntryPoint]) -> Plugin:
    packages = sorted({entry.dist.name if entry.dist is not None else "?" for entry in entries})
    return Plugin(group, name, tuple(packages), entries[0])
