"""What performs the steps of each kind, and what they keep.

Made when its first step comes: most runs need one, and each takes time to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

from recoup.ports import Runtime
from recoup.runtimes.deferred import DeferredRuntime
from recoup.steps.hooks import StatefulKind
from recoup.steps.kind import Site
from recoup.steps.registry import BUILT_IN, all_kinds, kind_named


class StepRuntimes(Mapping[str, Runtime]):
    """By the key of the kind."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._made = cache(self._make)

    def __getitem__(self, key: str) -> Runtime:
        return self._made(key)

    def __iter__(self) -> Iterator[str]:
        return iter(BUILT_IN)

    def __len__(self) -> int:
        return len(BUILT_IN)

    def _make(self, key: str) -> Runtime:
        kind = kind_named(key)
        if kind.loads_at_once:
            return kind.runtime(self._site)
        return DeferredRuntime(lambda: kind.runtime(self._site))


class StepStates(Mapping[str, Callable[[], StatefulKind]]):
    """Of the kinds whose steps keep something, by their keys."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._made = cache(self._make)

    def __getitem__(self, key: str) -> Callable[[], StatefulKind]:
        if not kind_named(key).keeps_state:
            raise KeyError(key)
        return partial(self._made, key)

    def __iter__(self) -> Iterator[str]:
        return (kind.key for kind in all_kinds() if kind.keeps_state)

    def __len__(self) -> int:
        return len([*self])

    def _make(self, key: str) -> StatefulKind:
        return kind_named(key).state(self._site)
