"""What performs the steps of each kind, made when its first step comes: most runs need one, and each takes time to
load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from recoup.ports import Runtime
from recoup.runtimes.deferred import DeferredRuntime
from recoup.steps.kind import Site
from recoup.steps.registry import BUILT_IN, kind_named


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
