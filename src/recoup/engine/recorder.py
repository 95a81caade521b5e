"""The driver's pen: facts are sealed, appended under the lease, folded, and only then shown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from recoup.engine.breaking import judging, stored_draft
from recoup.engine.world import Job, World
from recoup.kernel.breaker import ends_a_step
from recoup.kernel.fold import advance
from recoup.kernel.policies import policy_digest
from recoup.model.events import (
    AttemptStarted,
    Escalated,
    Event,
    Payload,
    WorkflowStepResult,
)
from recoup.model.ids import Lease, run_stream, workflow_stream
from recoup.model.instant import Instant
from recoup.model.mode import Refusal
from recoup.model.policy import Policy
from recoup.model.run import RunState
from recoup.model.storage import (
    Append,
    Appended,
    ControlAck,
    Draft,
    Escalation,
    Judging,
    PolicyBody,
    StreamAppend,
)
from recoup.steps.hooks import Beside


class Recorder:
    """The only place that holds the current state of a driver's run, and the only way to another one."""

    def __init__(self, world: World, job: Job, state: RunState, lease: Lease) -> None:
        self._world = world
        self._job = job
        self._policies: dict[str, PolicyBody] = {}
        self._digests: dict[int, tuple[Policy, str]] = {}
        self._judges: dict[tuple[int, bool, bool], Judging] = {}
        self._turn = asyncio.Lock()
        self.state = state
        self.lease = lease
        self.released = False
        self.claimed_by: str | None = None
        """The run that withheld the last tail: it has begun what must not be repeated."""
        self.refusal: Refusal | None = None
        """Why the workflow's mode withheld the last tail."""

    async def record(
        self,
        *facts: Payload,
        results: Sequence[WorkflowStepResult] = (),
        beside: Sequence[Beside] = (),
        tail: Sequence[Payload] = (),
        acks: Sequence[ControlAck] = (),
        release: bool = False,
        at: Instant | None = None,
    ) -> bool:
        """All of it in one transaction, or nothing. True: the tail was appended too."""
        await self._turn.acquire()  # `async with` costs twice as much
        try:
            parts = self._beside(results, beside)
            return await self._record(
                facts, results, parts, tail, acks, release, at or self._world.clock.now()
            )
        finally:
            self._turn.release()

    def extend(self, deadline_boot_s: float) -> None:
        """The lease was renewed."""
        self.lease = msgspec.structs.replace(self.lease, deadline_boot_s=deadline_boot_s)

    def digest_of(self, policy: Policy) -> str:
        """The policy's digest; its body goes with the next append, so that no event names an unknown one."""
        known = self._digests.get(id(policy))
        if known is None:
            known = (policy, policy_digest(policy))
            self._digests[id(policy)] = known
            if known[1] != self.state.submission.policy_digest:  # which was stored with the submission
                self._policies[known[1]] = PolicyBody(known[1], self._world.redactor.seal(policy))
        return known[1]

    async def _record(
        self,
        facts: Sequence[Payload],
        results: Sequence[WorkflowStepResult],
        beside: Sequence[StreamAppend],
        tail: Sequence[Payload],
        acks: Sequence[ControlAck],
        release: bool,
        now: Instant,
    ) -> bool:
        stream = run_stream(self._job.run_id)
        # A pause that was accepted while the tail was being made: no attempt begins any more.
        drafts, tail_drafts = self._drafts(facts), () if self.state.hold.paused else self._drafts(tail)
        streams = [StreamAppend(stream, drafts, self.state.seq)] if drafts else []
        streams += beside
        judge = self._judging(results, tail) if results or tail_drafts else None
        bodies = tuple(self._policies.values())
        appended = await self._world.ledger.append(
            Append(
                at=now,
                streams=tuple(streams),
                lease=self.lease,
                acks=tuple(acks),
                policies=bodies,
                escalations=tuple([self._escalation(fact) for fact in facts if isinstance(fact, Escalated)]),
                tail=(StreamAppend(stream, tail_drafts, self.state.seq + len(drafts)),)
                if tail_drafts
                else (),
                judging=judge,
                release=release,
            )
        )
        for body in bodies:  # and no other: a digest may have been asked for meanwhile
            self._policies.pop(body.digest, None)
        self.released |= release
        self.claimed_by, self.refusal = appended.claimed_by, appended.refusal
        stored = drafts + tail_drafts if appended.tail_appended else drafts
        for seq, draft in enumerate(stored, self.state.seq + 1):
            fact = draft.fact()
            self.state = advance(self.state, fact, now, seq)
            self._job.watcher.event(Event(stream, seq, now, draft.type, fact, draft.payload.data))
        if appended.added:
            self._show_added(appended, len(drafts) + sum(len(part.drafts) for part in beside), now)
        return appended.tail_appended and bool(tail_drafts)

    def _beside(self, results: Sequence[WorkflowStepResult], beside: Sequence[Beside]) -> list[StreamAppend]:
        """What belongs to other streams than the run's, in the same transaction."""
        workflow = workflow_stream(self.state.workflow)
        own = [payload for part in beside if part.stream == workflow for payload in part.payloads]
        others = [
            StreamAppend(part.stream, self._drafts(part.payloads))
            for part in beside
            if part.stream != workflow
        ]
        if not own and not results:
            return others
        # Structure alone: what is stored is what was meant, and nobody here folds it.
        told = [Draft(one.TYPE, self._world.redactor.seal(one), one) for one in (*own, *results)]
        return [StreamAppend(workflow, tuple(told)), *others]

    def _judging(self, results: Sequence[WorkflowStepResult], tail: Sequence[Payload]) -> Judging:
        policy = self._job.policy
        probes = not (tail and isinstance(tail[0], AttemptStarted) and tail[0].phase == "always")
        about = (id(policy), any(map(ends_a_step, results)), probes)
        if about not in self._judges:
            self._judges[about] = judging(
                *(self._world.redactor, self.state.workflow, self._job.run_id, policy),
                ended=about[1],
                probes=probes,
                digest=self.digest_of(policy),
            )
        return self._judges[about]

    def _show_added(self, appended: Appended, before: int, now: Instant) -> None:
        """What the workflow came to in the same transaction."""
        drafts = [draft for part in appended.added for draft in part.drafts]
        for place, draft in zip(appended.positions[before:], drafts, strict=False):
            event = Event(place.stream, place.seq, now, draft.type, draft.fact(), draft.payload.data)
            self._job.watcher.event(event)

    def _drafts(self, facts: Sequence[Payload]) -> tuple[Draft, ...]:
        return tuple([stored_draft(self._world.redactor, fact) for fact in facts])

    def _escalation(self, fact: Escalated) -> Escalation:
        return Escalation(
            fact.escalation_id,
            run_stream(self._job.run_id),
            self._world.redactor.redact(fact.reason).text,
            self._world.redactor.seal(fact),
        )
