"""What is answered about runs and their steps."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from recoup.model.answers.answer import Answer


class UnreadableEvent(Answer, frozen=True, kw_only=True):
    seq: int
    """0: its place is not known."""
    type: str
    reason: str


class RunSummary(Answer, frozen=True, kw_only=True):
    run_id: str
    workflow: str
    status: str
    delivery: int
    submitted_at: str
    updated_at: str
    ended_at: str | None
    reason: str
    seq: Annotated[int, Meta(description="Of its last event.")]
    failure_class: str | None
    worker: Annotated[str | None, Meta(description="Who drives it, or did last: `workerId`.")]
    step_count: int
    unreadable: UnreadableEvent | None = None


class RunPage(Answer, frozen=True, kw_only=True):
    items: list[RunSummary]
    next_cursor: str | None


class Recovery(Answer, frozen=True, kw_only=True):
    action: str
    step_id: str | None
    updated_at: str


class LiveControl(Answer, frozen=True, kw_only=True):
    paused: bool
    takeover: bool
    recovery: Recovery | None


class AdviceItem(Answer, frozen=True, kw_only=True):
    """One thing to do next, and the command that does it, ready to paste."""

    text: str
    command: str | None


class RunDocument(Answer, frozen=True, kw_only=True):
    run_id: str
    workflow: str
    status: str
    exit_code: int | None
    reason: str
    failure_class: str | None
    failure_kind: str | None
    retryable: bool
    delivery: int
    known_good_prefix_length: int
    frontier: dict[str, Any] | None
    step_count: int
    interrupted: bool
    machine_trouble: bool = False
    """It stopped for trouble of the machine, such as a full disk, and has spent nothing for it."""
    submitted_at: str
    updated_at: str | None
    worked_s: float
    """How long drivers have worked on it, up to `updatedAt`."""
    waited_for_person_s: float
    """How long it has waited for a person: at gates, after escalations, while paused."""
    waiting_for_person_since: str | None
    """Null: it waits for none now."""
    epoch: int
    hard_resets: int
    retries: int
    takeovers: int
    plan_digest: str
    plan_source: str | None
    policy_digest: str
    parent_run_id: str | None
    waiting_until: str | None
    escalation_id: str | None
    inputs: dict[str, str | None]
    waiting_for: str | None
    live_control: LiveControl
    unreadable: UnreadableEvent | None = None
    """The first event that cannot be decoded: what is said of the run ends before it."""
    advice: list[AdviceItem]
    """What to do next, the most useful first."""


class StepDocument(Answer, frozen=True, kw_only=True, omit_defaults=True):
    step_id: str
    step_index: int
    kind: str
    phase: str
    args_digest: str | None
    pre_state: str | None
    verdict: str
    evidence: list[str]
    outputs: dict[str, Any]
    attempts: int
    checkpoint: str | None
    invalidation_reason: str | None
    reused_from: str | None = None
    outcome_known: bool = True
    """False: an attempt of a `repeat: never` step failed, and its outcome is unknown."""


class LedgerDocument(Answer, frozen=True, kw_only=True):
    run_id: str
    status: str
    known_good_prefix_length: int
    frontier: dict[str, Any] | None
    steps: list[StepDocument]


class Attempt(Answer, frozen=True, kw_only=True):
    run_id: str
    step_index: int
    step_id: str
    attempt: int
    delivery: int
    state: str
    verdict: str | None
    failure_kind: str | None
    failure_class: str | None
    failure_signature: str | None
    diff_hash: str | None
    strategy: str | None
    started_at: str
    ended_at: str | None
    phase: str


class AttemptList(Answer, frozen=True, kw_only=True):
    items: list[Attempt]
    next_cursor: str | None


class EventLine(Answer, frozen=True, kw_only=True):
    stream: str
    run_id: str | None
    seq: int
    at: str
    type: str
    payload: dict[str, Any]


class EventPage(Answer, frozen=True, kw_only=True):
    items: list[EventLine]
    next_cursor: str | None


class LogSection(Answer, frozen=True, kw_only=True):
    """What one attempt printed: its end, and where all of it stands in the log of the step."""

    offset: Annotated[
        int, Meta(description="Of the section, in bytes of the log: `after` for the rest of it.")
    ]
    size: Annotated[int, Meta(description="Of the section, in bytes.")]
    text: Annotated[str, Meta(description="Its end, 64,000 bytes at most.")]


class AttemptDetail(Attempt, frozen=True, kw_only=True):
    """Everything that is known about one attempt."""

    duration_ms: int | None
    exit_code: int | None
    summary: str | None
    facts: Annotated[dict[str, Any] | None, Meta(description="What it was classified by, if it failed.")]
    changed_files: list[str]
    changed_files_count: int
    evidence: list[str]
    events: list[EventLine]
    events_left_out: int
    log: Annotated[LogSection | None, Meta(description="null: nothing is kept where the gateway runs.")]


class Log(Answer, frozen=True, kw_only=True):
    step_id: str
    step_index: int
    offset: int
    next_offset: int
    log: str


class Submitted(Answer, frozen=True, kw_only=True):
    run_id: str
    queue: str
    duplicate: bool
    note: str | None
    differs: Annotated[
        tuple[str, ...],
        Meta(
            description="Of a duplicate: `plan`, `inputs`, if they are not those of the run that has the key."
        ),
    ] = ()
