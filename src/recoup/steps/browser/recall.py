"""What a workflow has learned, for one driver: the last version at hand, and what the ledger said since."""

from __future__ import annotations

from typing import NamedTuple

from recoup.kernel.healing import KnownTargets
from recoup.kernel.memory import VERSIONS_MAX, TargetMemory, digest_of
from recoup.model.events import Event, MemoryRollback, MemorySnapshot
from recoup.model.ids import targets_stream
from recoup.model.memory import Kept
from recoup.model.policy import Policy
from recoup.ports import Clock, Ledger, Recalls
from recoup.streams import pages

EVENTS_MAX = 10_000
"""Of the stream of a workflow's targets that a driver reads, the last ones after the version that it begins with."""
PAGE = 1_000


class Recalled(NamedTuple):
    known: KnownTargets
    memory: TargetMemory
    trouble: str = ""
    """What was damaged of what was at hand, in words."""


async def recall(ledger: Ledger, recalls: Recalls, workflow: str, clock: Clock, policy: Policy) -> Recalled:
    kept, trouble = await _at_hand(ledger, recalls, workflow)
    memory = TargetMemory(kept.state, version=kept.version) if kept else TargetMemory()
    known, passed = KnownTargets(base=kept.found if kept else None), dict[str, Kept]()
    stream = targets_stream(workflow)
    after = max(kept.up_to + 1 if kept else 0, await ledger.head(stream) - EVENTS_MAX)
    async for page in pages(ledger.read, stream, after, PAGE):
        for event in page:
            await _prepare(recalls, workflow, event, memory, known, passed)
            known.add(event.payload, event.at)
            memory.add(event.payload)
    if memory.version_name:
        counts = passed.get(memory.version_name)
        if counts is not None or kept is None or kept.version != memory.version_name:
            now, keep = clock.now(), policy.max_versions_to_keep
            await recalls.follow(workflow, memory.version_name, counts, now, keep)
    return Recalled(known, memory, trouble)


async def _at_hand(ledger: Ledger, recalls: Recalls, workflow: str) -> tuple[Kept | None, str]:
    """The ledger must tell of it: what is of another ledger is forgotten."""
    kept, trouble = await recalls.last(workflow)
    if kept is None:
        return None, trouble
    told = await ledger.read(targets_stream(workflow), kept.up_to, 1)
    payload = told[0].payload if told else None
    if isinstance(payload, MemorySnapshot) and (payload.version, payload.digest) == (
        kept.version,
        digest_of(kept.state),
    ):
        return kept, trouble
    await recalls.forget(workflow)
    return None, ""


async def _prepare(
    recalls: Recalls,
    workflow: str,
    event: Event,
    memory: TargetMemory,
    known: KnownTargets,
    passed: dict[str, Kept],
) -> None:
    """Before the event is taken in: a version to be stored, or one to be gone back to that was not read."""
    payload = event.payload
    if isinstance(payload, MemorySnapshot) and payload.digest == digest_of(memory.state):
        passed[payload.version] = Kept(
            version=payload.version, up_to=event.seq - 1, state=memory.state, found=known.found
        )
        if len(passed) > VERSIONS_MAX:
            del passed[next(iter(passed))]
    if isinstance(payload, MemoryRollback) and memory.version(payload.to_version) is None:
        stored = await recalls.version(workflow, payload.to_version)
        if stored is not None:
            memory.know(payload.to_version, stored)
