"""What workflows have learned, at hand: the versions on this machine follow the ledger, which is the truth.

Whatever goes wrong here costs time and nothing else: the ledger tells all of it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from recoup.errors import LearningError, VersionDamaged
from recoup.model.instant import Instant
from recoup.model.memory import COMPONENTS, Kept, Screen, State, WhichScreen
from recoup.model.target import Element

if TYPE_CHECKING:
    from recoup.learning.index import Index
    from recoup.learning.store import VersionedStore
    from recoup.learning.vectors import Vectoriser
    from recoup.learning.versions import Loaded

INDEXES_MAX = 100
"""Workflows whose vectors are kept in mind."""
WORKFLOW_WAIT_S = 2.0
"""For another process that writes: a run does not wait long for what it can do without."""
ALIKE_MIN = 0.5
"""Less alike than that, an element that was learned for another target says nothing about this one."""


class Recall:
    """`sentences` is the folder of a model by which what was learned is compared; None: by its letters."""

    def __init__(self, base: Path, sentences: Path | None = None) -> None:
        self._base = base
        self._sentences = sentences
        self._indexes: dict[str, Index] = {}
        self._warnings: list[str] = []

    def warnings(self) -> list[str]:
        """What people should know, said once."""
        said, self._warnings = self._warnings, []
        return said

    @cached_property
    def _store(self) -> VersionedStore:
        """Made when something is to be remembered: most runs learn nothing."""
        from recoup.learning.store import VersionedStore

        return VersionedStore(self._base, wait_s=WORKFLOW_WAIT_S)

    @cached_property
    def _vectors(self) -> Vectoriser:
        from recoup.learning.sentences import vectoriser

        return vectoriser(self._sentences, self._warnings.append)

    async def last(self, workflow: str) -> tuple[Kept | None, str]:
        if self._sentences is not None:
            await asyncio.to_thread(lambda: self._vectors)  # a model takes a while to load
        try:
            loaded = await asyncio.to_thread(self._store.current, workflow)
            if loaded is None:
                return None, ""
            kept, index = await asyncio.to_thread(_kept, loaded)
        except VersionDamaged as error:
            return None, error.message
        except LearningError:
            return None, ""
        self._mind(workflow, index)
        return kept, "; ".join(loaded.trouble)

    async def troubles(self, workflow: str) -> dict[str, str]:
        """By version: why what is kept of it on this machine cannot be used. It can be made again from the ledger."""
        try:
            versions = await asyncio.to_thread(self._store.list_versions, workflow)
        except LearningError as error:
            return {"": error.message}
        return {one.version_id: one.trouble for one in versions if one.trouble}

    async def version(self, workflow: str, version: str) -> State | None:
        try:
            return _state(await asyncio.to_thread(self._store.load, workflow, version))
        except LearningError:
            return None

    async def follow(self, workflow: str, version: str, kept: Kept | None, now: Instant, keep: int) -> None:
        """A version that cannot be stored now is stored by the next run, and read from the ledger until then."""
        try:
            await asyncio.to_thread(self._follow, workflow, version, kept, now, keep)
        except LearningError:
            return

    async def forget(self, workflow: str) -> None:
        self._indexes.pop(workflow, None)
        try:
            await asyncio.to_thread(self._store.discard, workflow)
        except LearningError:
            return

    def which(self, known: Mapping[str, Screen], seen: Screen) -> WhichScreen | None:
        from recoup.learning.screens import which

        return which(known, seen)

    def proposed(self, workflow: str, state: State, element: Element) -> tuple[Element, ...]:
        from recoup.learning.proposals import index_of, proposed

        learned = {entry.identity: entry.element for entry in state.entries.values()}
        if not learned:
            return ()
        index = index_of(state, self._indexes.get(workflow), self._vectors)
        self._mind(workflow, index)
        near = [one for one in proposed(index, element, vectors=self._vectors) if one.likeness >= ALIKE_MIN]
        return tuple(learned[one.label] for one in near if one.label in learned)

    def _mind(self, workflow: str, index: Index) -> None:
        """On the event loop, like all that is kept in mind: several runs may begin at once."""
        self._indexes[workflow] = index
        if len(self._indexes) > INDEXES_MAX:
            del self._indexes[next(iter(self._indexes))]

    def _follow(self, workflow: str, version: str, kept: Kept | None, now: Instant, keep: int) -> None:
        there = {info.version_id: info for info in self._store.list_versions(workflow)}
        known = there.get(version)
        if known is not None and known.trouble and kept is not None:
            self._store.discard(workflow, version)
            known = None
        if known is None and kept is not None:
            parts = _parts(kept, self._vectors)
            self._store.snapshot_version(workflow, parts, up_to=kept.up_to, now=now, version=version)
            self._store.cleanup_old_versions(workflow, keep)
        elif known is not None and not known.current:
            self._store.rollback_to_previous(workflow, version)


def _kept(loaded: Loaded) -> tuple[Kept, Index]:
    from recoup.learning.codec import decode_found
    from recoup.learning.index import index_from

    state = _state(loaded)  # first: it says which parts are missing
    found = decode_found(loaded.components["targets"])
    kept = Kept(version=loaded.info.version_id, up_to=loaded.info.up_to, state=state, found=found)
    return kept, index_from(loaded.components["index"])


def _parts(kept: Kept, vectors: Vectoriser) -> dict[str, bytes]:
    from recoup.learning.codec import encode_found, encode_memory
    from recoup.learning.proposals import index_of
    from recoup.learning.screens import KnownScreens

    return {
        "memory": encode_memory(kept.state),
        "targets": encode_found(kept.found),
        "index": index_of(kept.state, vectors=vectors).to_bytes(),
        "prototypes": KnownScreens(kept.state.screens).to_bytes(),
    }


def _state(loaded: Loaded) -> State:
    from recoup.learning.codec import decode_memory
    from recoup.learning.screens import KnownScreens

    missing = set(COMPONENTS) - set(loaded.components)
    if missing:
        raise VersionDamaged(f"{loaded.info.version_id} has no {', '.join(sorted(missing))}")
    memory = decode_memory(loaded.components["memory"])
    screens = KnownScreens.from_bytes(loaded.components["prototypes"]).screens
    return State(memory.entries, memory.forbidden, screens)
