"""What is handed to the ledger and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from recoup.model.events import Payload, decode_payload
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.mode import Refusal
from recoup.model.redacted import Redacted
from recoup.model.run import WorkflowState


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A fact that is not in the ledger yet."""

    type: str
    payload: Redacted
    decoded: Payload | None = None
    """The payload as it will be read back, where the writer has it already."""

    def fact(self) -> Payload:
        return self.decoded if self.decoded is not None else decode_payload(self.type, self.payload.data)


class StreamAppend(msgspec.Struct, frozen=True, gc=False):
    """Facts for one stream, in order. With `expected_seq` only if the stream still ends there."""

    stream: str
    drafts: tuple[Draft, ...]
    expected_seq: int | None = None


class PolicyBody(msgspec.Struct, frozen=True):
    digest: str
    body: Redacted


class Escalation(msgspec.Struct, frozen=True):
    """One row of the outbox: a decision that waits for a person. The id makes it happen once."""

    id: str
    stream: str
    reason: str
    body: Redacted


class EscalationRow(msgspec.Struct, frozen=True):
    """One entry of the inbox: an escalation and how far it is."""

    number: int
    """In the order in which they came."""
    id: str
    stream: str
    """Where its event stands: of a run, of a probe here (`probe:`) or of one elsewhere (`reported:`)."""
    reason: str
    body: Redacted
    state: str
    """open | acknowledged | assigned | resolved."""
    assignee: str | None
    raised_at_us: int


class ControlAck(msgspec.Struct, frozen=True):
    """A control was dealt with, by this epoch."""

    control_id: str
    outcome: str
    epoch: int


class Ruled(msgspec.Struct, frozen=True, gc=False):
    """What a judge says: facts for the workflow's stream, and why nothing may begin, if nothing may."""

    drafts: tuple[Draft, ...] = ()
    refusal: Refusal | None = None


class Judging(msgspec.Struct, frozen=True, gc=False):
    """A pure function that the transaction asks, so that all who share the ledger are judged one after the other."""

    workflow: str
    judge: Callable[[WorkflowState, bool, Instant], Ruled]
    """From the workflow's state with the streams' facts, whether the tail would be appended, and the time of it all."""


class Append(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that happens in one transaction, or not at all."""

    at: Instant
    streams: tuple[StreamAppend, ...]
    lease: Lease | None = None
    """Refused (LeaseLost) unless this epoch is still the run's current one."""
    acks: tuple[ControlAck, ...] = ()
    policies: tuple[PolicyBody, ...] = ()
    escalations: tuple[Escalation, ...] = ()
    tail: tuple[StreamAppend, ...] = ()
    """Appended too, unless a control waits for the lease's run, or it begins what another run of the family has claimed
    (`AttemptStarted.once`): the transaction itself looks."""
    judging: Judging | None = None
    """Its drafts are appended after the streams; with a refusal the tail is not."""
    release: bool = False
    """Give the lease back in the same transaction."""


class Position(msgspec.Struct, frozen=True, gc=False):
    """Where a draft came to stand."""

    stream: str
    seq: int
    type: str


class Head(msgspec.Struct, frozen=True, gc=False):
    """The last event of a stream: its sequence, and when it was."""

    stream: str
    seq: int
    at: Instant


class Appended(msgspec.Struct, frozen=True, gc=False):
    positions: tuple[Position, ...]
    tail_appended: bool
    claimed_by: str | None = None
    """The other run whose claim withheld the tail."""
    refusal: Refusal | None = None
    """Why the judge withheld it."""
    added: tuple[StreamAppend, ...] = ()
    """What the judge added between the streams and the tail."""


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """One event as it came among those of all streams."""

    number: int
    """Grows with every event of any stream."""
    stream: str
    seq: int
    at: Instant
    type: str
    payload: Redacted


class LeaseRow(msgspec.Struct, frozen=True):
    """Who drives a run, or did last."""

    run_id: str
    epoch: int
    owner: ProcessIdentity | None
    """None: released."""
    renewed_at: Instant
    ttl_s: float


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's wish. The id makes a repeated message harmless."""

    id: str
    run_id: str
    action: str
    reason: str
    actor: str
    at: Instant
    step_id: str | None = None
    argument: str | None = None
    outcome: str | None = None
    """None: not dealt with yet."""
    epoch: int | None = None


NEWEST: Final = (2**63 - 1, "")
"""The place before the newest run, in the order of lists."""


class RunRow(msgspec.Struct, frozen=True):
    """The cached fold of a run, for lists."""

    run_id: str
    workflow: str
    status: str
    delivery: int
    submitted_at_us: int
    updated_at_us: int
    reason: str
    seq: int


class Wanting(msgspec.Struct, frozen=True):
    """A run of a queue that wants a driver."""

    run_id: str
    workflow: str
    queue: str
    priority: int
    needs: tuple[str, ...]
    due_us: int
    """On the wall clock; 0: at once."""
    submitted_at_us: int


class HeldRun(msgspec.Struct, frozen=True):
    """One that somebody drives, or did until they were lost."""

    run: Wanting
    lease: LeaseRow
    left_s: float
    """Of the lease; 0: it ran out."""


class Crowd(msgspec.Struct, frozen=True):
    """How many runs of one workflow, or of one queue, may be driven at once."""

    of: str
    """workflow | queue."""
    name: str
    runs_max: int


class EndedRun(msgspec.Struct, frozen=True):
    """One that may be forgotten."""

    run_id: str
    events: int


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A worker as it described itself last."""

    worker_id: str
    identity: ProcessIdentity
    queues: tuple[str, ...]
    capabilities: tuple[str, ...]
    concurrency: int
    version: str
    started_at: Instant
    runs: tuple[str, ...] = ()
    """The runs that it drives."""
    draining: bool = False


class SeenWorker(msgspec.Struct, frozen=True):
    worker: WorkerRow
    silent_s: float
    """Since it said so."""


class AttemptRow(msgspec.Struct, frozen=True):
    run_id: str
    step_index: int
    step_id: str
    attempt: int
    delivery: int
    state: str
    """started | launched | finished | failed."""
    verdict: str | None
    failure_kind: str | None
    failure_class: str | None
    failure_signature: str | None
    diff_hash: str | None
    strategy: str | None
    started_at_us: int
    ended_at_us: int | None


class CheckpointRow(msgspec.Struct, frozen=True):
    run_id: str
    step_index: int
    step_id: str
    attempt: int
    tree: str
    manifest: str
    stored_at_us: int
    valid: bool
