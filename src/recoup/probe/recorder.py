"""The probe's pen: facts are put into their envelope, appended under the lease, folded, and only then shown.

Many resources may have something to say at once: what came while an append was under way is written by the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from recoup.kernel.probe_fold import advance_probe
from recoup.model.events import Event, ProbeEscalated, ProbePayload, decode_payload
from recoup.model.ids import Lease, probe_stream
from recoup.model.instant import Instant
from recoup.model.probe import ProbeState
from recoup.model.storage import Append, ControlAck, Draft, Escalation, StreamAppend
from recoup.probe.world import ProbeWorld

FACTS_AT_ONCE_MAX = 2_000
NEW = "new"
"""As a correlation id: what follows has to do with nothing that was before."""


@dataclass(slots=True)
class _Wanted:
    facts: Sequence[ProbePayload]
    acks: Sequence[ControlAck]
    stored: asyncio.Future[None]


class ProbeRecorder:
    """The only way a probe changes what is known of it."""

    def __init__(self, world: ProbeWorld, state: ProbeState, lease: Lease) -> None:
        self._world = world
        self._stream = probe_stream(state.probe_id)
        self._waiting: list[_Wanted] = []
        self._writing: asyncio.Task[None] | None = None
        self._watching: list[Callable[[], None]] = []
        self.state = state
        self.lease = lease

    async def record(self, *facts: ProbePayload, acks: Sequence[ControlAck] = ()) -> None:
        """Together, in this order, or not at all. Each follows from the one before it, where it does not say from
        which. Raises LedgerError; LeaseLost when somebody else is this probe now."""
        wanted = _Wanted(facts, acks, asyncio.get_running_loop().create_future())
        self._waiting.append(wanted)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        # Not cancelled with the caller: what was begun may be stored, and the next fact must follow it.
        await asyncio.shield(wanted.stored)

    def watch(self, grown: Callable[[], None]) -> None:
        """From now on it is called when something was recorded. It must not block."""
        self._watching.append(grown)

    def event_id(self, seq: int) -> str:
        return f"{self.state.probe_id}:{seq}"

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await self._write_some()
        finally:
            self._writing = None

    async def _write_some(self) -> None:
        together, facts = [], 0
        while self._waiting and facts < FACTS_AT_ONCE_MAX:
            together.append(self._waiting.pop(0))
            facts += len(together[-1].facts)
        try:
            await self._append(together)
        except BaseException as error:
            for wanted in together:
                _settle(wanted.stored, error)
            if not isinstance(error, Exception):
                raise
        else:
            for wanted in together:
                _settle(wanted.stored, None)

    async def _append(self, together: Sequence[_Wanted]) -> None:
        now, seq = self._world.clock.now(), self.state.seq
        drafts: list[Draft] = []
        for wanted in together:
            before: ProbePayload | None = None
            for fact in wanted.facts:
                whole = before = self._enveloped(fact, seq + len(drafts) + 1, now, before)
                stored = self._world.redactor.seal(whole)
                drafts.append(Draft(fact.TYPE, stored, decode_payload(fact.TYPE, stored.data)))
        await self._world.ledger.append(
            Append(
                at=now,
                streams=(StreamAppend(self._stream, tuple(drafts), seq),) if drafts else (),
                lease=self.lease,
                acks=tuple(ack for wanted in together for ack in wanted.acks),
                escalations=tuple(self._escalations(drafts)),
            )
        )
        for draft in drafts:
            self._advance(draft, now)
        for grown in self._watching:
            grown()

    def _enveloped(
        self, fact: ProbePayload, seq: int, now: Instant, before: ProbePayload | None
    ) -> ProbePayload:
        known = self.state.resources.get(fact.resource_id)
        event_id = self.event_id(seq)
        caused_by = fact.causation_id or (
            before.event_id if before else known.last_event_id if known else None
        )
        about = before.correlation_id if before else known.correlation_id if known else ""
        if fact.correlation_id == NEW:
            about = event_id
        return replace(
            fact,
            event_id=event_id,
            lease_epoch=self.lease.epoch,
            monotonic_seq=seq,
            timestamp_unix=now.wall_us / 1e6,
            correlation_id=about or event_id,
            causation_id=caused_by,
        )

    def _advance(self, draft: Draft, now: Instant) -> None:
        seq, fact = self.state.seq + 1, draft.fact()
        advance_probe(self.state, fact, now, seq)
        self._world.seen(Event(self._stream, seq, now, draft.type, fact, draft.payload.data))

    def _escalations(self, drafts: Sequence[Draft]) -> list[Escalation]:
        return [
            Escalation(fact.escalation_id, self._stream, fact.reason, draft.payload)
            for draft in drafts
            if isinstance(fact := draft.fact(), ProbeEscalated)
        ]


def _settle(stored: asyncio.Future[None], error: BaseException | None) -> None:
    if stored.done():
        return
    if error is None:
        stored.set_result(None)
    else:
        stored.set_exception(error)
