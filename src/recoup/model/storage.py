"""What is handed to the ledger and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from recoup.model.events import Payload, decode_payload
from recoup.model.failure import FailureClass
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.mode import Refusal
from recoup.model.redacted import Redacted
from recoup.model.run import RunStatus, WorkflowState
from recoup.model.run_filter import FilterKind, RunFilterField


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


Place = tuple[int, str]
"""Of a run in lists: when it was submitted, and its id."""
NEWEST: Final = (2**63 - 1, "")
"""The place before the newest run, in the order of lists."""
OLDEST_US: Final = -(2**63)
"""No stored time lies before it, not even a damaged one."""


class RunRow(msgspec.Struct, frozen=True):
    """The cached fold of a run, for lists. Each field is a column of the query `rows_of_runs`, in this order."""

    run_id: str
    workflow: str
    status: str
    delivery: int
    submitted_at_us: int
    updated_at_us: int
    reason: str
    seq: int
    failure_class: str | None = None
    """Of the delivery that failed last; None again as soon as another one begins."""
    worker: str | None = None
    """Who drives it, or did last. None: nobody has, or they did not say."""
    step_count: int = 0
    ended_at_us: int | None = None
    """None: it is not over, or will be delivered once more."""

    @property
    def place(self) -> Place:
        return self.submitted_at_us, self.run_id


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are meant: those for which all that is said here holds. Nothing said: every run.

    To add a filter, add its field here; options, parameters, tools and the form of the console follow. Names and
    choices are compared with the column of that name in the table `runs`; one that `RunRow` lacks is added there and to
    the query `rows_of_runs` of each database.
    """

    workflow: Annotated[
        str | None,
        RunFilterField(name="workflow", label="Workflow", help="Only runs of this workflow."),
    ] = None
    statuses: Annotated[
        tuple[str, ...],
        RunFilterField(
            name="status",
            column="status",
            choices=RunStatus,
            help="Only runs with this status; repeatable.",
            about="One of these; repeatable.",
        ),
    ] = ()
    failure_class: Annotated[
        str | None,
        RunFilterField(
            name="class",
            parameter="failureClass",
            choices=FailureClass,
            label="Failure class",
            help="Only runs that failed like this.",
        ),
    ] = None
    worker: Annotated[
        str | None,
        RunFilterField(
            name="worker",
            label="Worker",
            help="Only runs that this one drives, or drove last: recoup workers.",
            metavar="WORKER",
            about="Who drives it, or did last: `workerId`.",
        ),
    ] = None
    since_us: Annotated[
        int,
        RunFilterField(
            name="since",
            kind=FilterKind.MOMENT,
            label="Submitted since",
            help="Only runs submitted within this time: 90s, 15m, 2h, 7d.",
            metavar="DURATION",
            about="Submitted then or later.",
            placeholder="24h, or 2026-11-16T08:00",
        ),
    ] = 0
    until_us: Annotated[
        int | None,
        RunFilterField(
            name="until",
            kind=FilterKind.MOMENT,
            label="Until",
            about="Submitted before.",
            placeholder="2026-11-16T18:00",
        ),
    ] = None
    text: Annotated[
        str,
        RunFilterField(
            name="text",
            kind=FilterKind.WORDS,
            label="Text",
            help="Only runs in whose id, workflow or reason this stands.",
            about="Stands in the id, the workflow or the reason; A to Z in either case. With it a page may hold "
            "fewer runs than asked for, or none, and have a `nextCursor`: so many were looked through.",
            placeholder="id, workflow, reason",
        ),
    ] = ""


EVERY_RUN: Final = RunFilter()
LOOKED_THROUGH_MAX: Final = 5_000
"""Runs, for one page of a list or one count, where no index knows which ones are meant."""
COUNTED_MAX: Final = 10_000


class RunPage(msgspec.Struct, frozen=True):
    """Some of the runs that are meant, newest first."""

    rows: tuple[RunRow, ...]
    behind: Place | None
    """Where to go on; None: there are no more. Where a text is looked for, or two things that no index knows together,
    at most LOOKED_THROUGH_MAX runs are looked through for a page: it may hold few, or none, and others follow."""


class RunCount(msgspec.Struct, frozen=True):
    count: int
    capped: bool
    """There are more, or there may be: so many were counted, or looked through."""


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
    trouble: str = ""
    """Why its machine cannot drive runs now: it takes nothing until a probe write works."""
    clock_ahead_s: float = 0.0
    """Its machine's wall clock, compared with the database's."""
    waiting_pages: tuple[str, ...] = ()
    """The runs that wait for a person and whose browser it keeps open."""


class SeenWorker(msgspec.Struct, frozen=True):
    worker: WorkerRow
    silent_s: float
    """Since it said so."""
    unreadable: bool = False
    """Nothing is known of it but its id."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Commits that the database had acknowledged and does not have any more."""

    id: str
    evidence: str
    """acknowledged: an event is missing | failover: the server is on another timeline, and may have lost some."""
    detail: str
    runs: int
    """How many runs were not over then."""
    noticed_at: str
    stream: str | None = None
    seq: int | None = None
    """The event that was acknowledged."""
    found_seq: int | None = None
    """Where its stream ended when that was noticed."""


class Suspicion(msgspec.Struct, frozen=True):
    """A loss may have taken events of a run."""

    loss: Loss
    age_s: float
    """Since it was noticed."""


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
    phase: str = "main"
    """main | rebuild | rescue | always."""


class CheckpointRow(msgspec.Struct, frozen=True):
    run_id: str
    step_index: int
    step_id: str
    attempt: int
    tree: str
    manifest: str
    stored_at_us: int
    valid: bool


class HealRow(msgspec.Struct, frozen=True):
    """A target was healed in an attempt."""

    run_id: str
    step_index: int
    attempt: int
    healed_at_us: int


BUCKETS_MAX: Final = 500
ENDS_COUNTED_MAX: Final = 100_000
"""Runs that ended in one way, in one history."""
MOMENTS_COUNTED_MAX: Final = 20_000
"""Heals, and recoveries, in one history."""


class Span(msgspec.Struct, frozen=True):
    """A stretch of time in equal parts; the last one may reach beyond its end."""

    since_us: int
    until_us: int
    bucket_us: int

    def __post_init__(self) -> None:
        if self.bucket_us < 1 or self.until_us <= self.since_us:
            raise ValueError("a span has a beginning, a later end, and parts of some length")
        if self.buckets > BUCKETS_MAX:
            raise ValueError(f"{self.buckets} parts are more than {BUCKETS_MAX}")

    @property
    def buckets(self) -> int:
        return -((self.since_us - self.until_us) // self.bucket_us)


class Bucket(msgspec.Struct, frozen=True):
    """What happened in one part of a span."""

    start_us: int
    ended: dict[str, int] = {}
    """Runs that ended, by status, as far as there are any."""
    heals: int = 0
    recoveries: int = 0
    """Steps that passed after an attempt had failed."""
    recovery_p50_s: float | None = None
    """From that failure (the first since it passed last) to the success."""
    recovery_p95_s: float | None = None


class History(msgspec.Struct, frozen=True):
    buckets: tuple[Bucket, ...]
    whole_since_us: int
    """Before that not all was counted: there was too much."""
