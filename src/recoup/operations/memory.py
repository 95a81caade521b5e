"""What workflows have learned, for people who look at it: its versions, what differs between them, and a person's word.

All of it is read from the ledger, the whole stream of a workflow's targets at once. A word is appended where that
stream ended when it was looked through: what others told meanwhile is looked at first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from recoup.errors import Conflict, LedgerBusy, NotFound, UsageError
from recoup.kernel.breaker import failed_ratio
from recoup.kernel.memory import TargetMemory, snapshot_before
from recoup.model.events import Event, MemoryRollback, MemorySnapshot
from recoup.model.ids import targets_stream, workflow_stream
from recoup.model.memory import COMPONENTS, Entry, State, VersionInfo
from recoup.model.mode import Health
from recoup.model.policy import Policy
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.model.target import element_words
from recoup.ports import Clock, Ledger, Redactor
from recoup.streams import append_if, pages

if TYPE_CHECKING:
    from recoup.app import App

EVENTS_MAX: Final = 200_000
"""Of a stream that are read, the last ones."""
_TRIES_MAX: Final = 50
"""Runs append to the stream, too."""
_BUSY_HINT: Final = "Try again: runs are adding to it."


class Change(msgspec.Struct, frozen=True):
    """What one version has and another has not, or has otherwise."""

    kind: str
    """added | removed | changed."""
    step_id: str
    element: str
    origin: str
    successes: int
    failures: int


class Learnt(msgspec.Struct, frozen=True):
    """All that is known of what a workflow has learned."""

    workflow: str
    memory: TargetMemory
    snapshots: tuple[Event, ...]
    health: Health
    seq: int
    """Where the stream ended."""

    def versions(self) -> list[VersionInfo]:
        """Newest first."""
        if not self.snapshots:
            return []
        payloads = [event.payload for event in self.snapshots]
        rates = [one.success_rate_before for one in payloads if isinstance(one, MemorySnapshot)]
        after = [*rates[1:], _rate(self.health.lesson.since if self.health.lesson else "")]
        made = [self._info(event, rate) for event, rate in zip(self.snapshots, after, strict=True)]
        return made[::-1]

    def _info(self, event: Event, rate_after: float | None) -> VersionInfo:
        payload = event.payload
        assert isinstance(payload, MemorySnapshot)
        return VersionInfo(
            version_id=payload.version,
            created_at=event.at.iso(),
            workflow_id=self.workflow,
            success_rate_before=payload.success_rate_before,
            success_rate_after=rate_after,
            components_versioned=tuple(sorted(COMPONENTS)),
            entries=payload.entries,
            up_to=event.seq - 1,
            digest=payload.digest,
            current=payload.version == self.memory.version_name,
        )

    def at(self, version: str | None) -> State:
        """What was known at a version; None: what is known now."""
        if version is None:
            return self.memory.state
        found = self.memory.version(version)
        if found is None:
            known = ", ".join(one.version_id for one in self.versions()[:10]) or "none"
            raise NotFound(
                f"{self.workflow} has no version {version!r}",
                hint=f"Known: {known}. List them: recoup memory versions {self.workflow}",
            )
        return found

    def diff(self, old: str | None, new: str | None) -> list[Change]:
        return changes(self.at(old), self.at(new))

    def before(self) -> str:
        """The version that undoes the last lessons."""
        names = [one.version_id for one in self.versions()]
        if self.memory.learned_since and self.memory.version_name:
            return self.memory.version_name
        older = (
            names[names.index(self.memory.version_name) + 1 :] if self.memory.version_name in names else []
        )
        if not older:
            raise NotFound(
                f"{self.workflow} has nothing to go back to",
                hint=f"See what there is: recoup memory versions {self.workflow}",
            )
        return older[0]


async def learnt(app: App, workflow: str) -> Learnt:
    return await _memories(app).of(workflow)


async def known_now(app: App, workflow: str) -> list[Change]:
    """Which element was taken for which step's target, and how that went."""
    return changes(State(), (await learnt(app, workflow)).memory.state)


async def versions(app: App, workflow: str) -> list[VersionInfo]:
    """Newest first, as the ledger tells; with what is wrong with those that are kept on this machine."""
    found = (await learnt(app, workflow)).versions()
    troubles = await app.recall.troubles(workflow)
    return [
        msgspec.structs.replace(one, trouble=troubles.get(one.version_id) or troubles.get("", ""))
        for one in found
    ]


async def diff(app: App, workflow: str, old: str, new: str | None) -> list[Change]:
    """What was learned between two versions; `new` None: until now."""
    return (await learnt(app, workflow)).diff(old, new)


async def snapshot(app: App, workflow: str, actor: str, reason: str) -> str:
    """Keeps what is known now as a version, and returns its name."""
    made = await _memories(app).snapshot(workflow, await app.policy(), actor, reason)
    await app.chores.run()
    return made


async def rollback(
    app: App,
    workflow: str,
    version: str | None,
    actor: str,
    reason: str,
    approval_ref: str | None = None,
    beside: tuple[StreamAppend, ...] = (),
) -> MemoryRollback:
    """Takes back what was learned after a version; None: the last lessons. What is `beside` it is written with it, or
    neither is."""
    back = await _memories(app).rollback(workflow, version, actor, reason, approval_ref, beside)
    await app.chores.run()
    return back


def _memories(app: App) -> Memories:
    return Memories(app.ledger, app.redactor, app.world.clock)


class Memories:
    """The lessons in one ledger."""

    def __init__(self, ledger: Ledger, redactor: Redactor, clock: Clock) -> None:
        self._ledger = ledger
        self._redactor = redactor
        self._clock = clock

    async def of(self, workflow: str) -> Learnt:
        stream = targets_stream(workflow)
        memory, snapshots = TargetMemory(), []
        after = max(0, await self._ledger.head(stream) - EVENTS_MAX)
        async for page in pages(self._ledger.read, stream, after):
            for event in page:
                memory.add(event.payload)
                if isinstance(event.payload, MemorySnapshot):
                    snapshots.append(event)
            after = page[-1].seq
        health = (await self._ledger.workflow_state(workflow)).health
        kept = tuple(
            one for one in snapshots if memory.version(getattr(one.payload, "version", "")) is not None
        )
        return Learnt(workflow, memory, kept, health, after)

    async def snapshot(self, workflow: str, policy: Policy, actor: str, reason: str) -> str:
        async def attempt() -> str:
            learnt = await self.of(workflow)
            made = snapshot_before(learnt.memory, learnt.health, policy)
            why = f"{reason} ({actor})" if reason else actor
            await self._tell(learnt, msgspec.structs.replace(made, reason=why))
            return made.version

        return await append_if(attempt, _busy(workflow), hint=_BUSY_HINT, tries_max=_TRIES_MAX)

    async def rollback(
        self,
        workflow: str,
        version: str | None,
        actor: str,
        reason: str,
        approval_ref: str | None = None,
        beside: tuple[StreamAppend, ...] = (),
    ) -> MemoryRollback:
        """What is `beside` it is written with it, or neither is. Raises UsageError when somebody made or went back to a
        version meanwhile: who wants the last lessons undone means those that he could see."""
        learnt = await self.of(workflow)
        wanted = version or learnt.before()
        for _ in range(_TRIES_MAX):
            back = _back(learnt, wanted, actor, reason, approval_ref)
            try:
                await self._tell(learnt, back, beside)
            except Conflict:
                before, learnt = learnt, await self.of(workflow)
                if learnt.seq == before.seq:  # so it is what is beside it that somebody else has told
                    raise
                _must_be_of_the_same_version(learnt, before)
            else:
                return back
        raise LedgerBusy(_busy(workflow), hint=_BUSY_HINT)

    async def _tell(
        self,
        learnt: Learnt,
        payload: MemorySnapshot | MemoryRollback,
        beside: tuple[StreamAppend, ...] = (),
    ) -> None:
        draft = Draft(payload.TYPE, self._redactor.seal(payload), payload)
        streams = (
            StreamAppend(targets_stream(learnt.workflow), (draft,), learnt.seq),
            StreamAppend(workflow_stream(learnt.workflow), (draft,)),
            *beside,
        )
        await self._ledger.append(Append(at=self._clock.now(), streams=streams))


def _back(learnt: Learnt, wanted: str, actor: str, reason: str, approval_ref: str | None) -> MemoryRollback:
    learnt.at(wanted)
    workflow, memory, lesson = learnt.workflow, learnt.memory, learnt.health.lesson
    if wanted == memory.version_name and not memory.learned_since:
        raise UsageError(
            f"{workflow} is at {wanted}: nothing was learned since",
            hint=f"Go further back with --to: recoup memory versions {workflow}",
        )
    return MemoryRollback(
        from_version=memory.version_name,
        to_version=wanted,
        reason=reason,
        failed_ratio=round(failed_ratio(lesson.since), 4) if lesson else None,
        failed_ratio_before=round(failed_ratio(lesson.before), 4) if lesson else None,
        by=actor,
        approval_ref=approval_ref,
    )


def _must_be_of_the_same_version(learnt: Learnt, before: Learnt) -> None:
    was, now = before.memory.version_name, learnt.memory.version_name
    if was != now:
        raise UsageError(
            f"{learnt.workflow} came from {was or 'no version'} to {now} meanwhile: nothing was taken back",
            hint=f"Look at what is known now, then decide: recoup memory versions {learnt.workflow}",
        )


def _busy(workflow: str) -> str:
    return f"what {workflow} learns changes all the time: nothing was told"


def changes(old: State, new: State) -> list[Change]:
    """In the order of steps, then of elements."""
    made = []
    for place in {**old.entries, **new.entries}:
        was, now = old.entries.get(place), new.entries.get(place)
        if was is None and now is not None:
            made.append(_change("added", now))
        elif now is None and was is not None:
            made.append(_change("removed", was))
        elif now is not None and was != now:
            made.append(_change("changed", now))
    return sorted(made, key=lambda one: (one.step_id, one.element, one.kind))


def _change(kind: str, entry: Entry) -> Change:
    return Change(
        kind, entry.step_id, element_words(entry.element), entry.origin, entry.successes, entry.failures
    )


def _rate(results: str) -> float | None:
    return round(1 - failed_ratio(results), 4) if results else None
