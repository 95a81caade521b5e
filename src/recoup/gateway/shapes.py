"""What stands in requests and answers, for whoever reads the OpenAPI document. Requests are held to it; answers are
made by the kernel, and a test holds them to it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from recoup.operations.control import ControlAnswerName, ControlName, answering_kinds, beyond_words


def _number(value: Any) -> Any:
    """Neither `true`, which would be 1, nor text."""
    if isinstance(value, bool | str):
        raise ValueError("a number is needed")
    return value


NUMERIC: Final = BeforeValidator(_number)
"""In every field of a request that is a number."""
Reason = Annotated[
    str, Field(min_length=1, max_length=1_000, pattern=r"\S", description="Why; it is recorded.")
]
Name = Annotated[str, Field(min_length=1, max_length=200)]
StepName = Annotated[str, Field(min_length=1, max_length=200)]


class Shape(BaseModel):
    """Unknown keys are an error; names are in camelCase."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


# Requests


class RunRequest(Shape):
    """A plan (one of `plan`, `planPath`, or none with `reuse`) and how it is to be run. A plan is code: whoever may
    submit one may run any command that the workers may."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"planPath": "/srv/plans/invoices.yaml", "inputs": {"customer": "acme"}}]
        }
    )
    plan: (
        Annotated[str, Field(max_length=1_000_000, description="The text of a plan, YAML or JSON.")] | None
    ) = None
    plan_path: (
        Annotated[str, Field(max_length=4_000, description="A plan file where the gateway runs.")] | None
    ) = None
    inputs: Annotated[dict[str, str], Field(max_length=200)] = {}
    queue: Name = "default"
    priority: Annotated[int, Field(ge=-1000, le=1000), NUMERIC] = 0
    needs: Annotated[list[Name], Field(max_length=50)] = []
    delay_s: Annotated[
        float, Field(ge=0, le=31_536_000, description="Not before so many seconds from now."), NUMERIC
    ] = 0
    dedup_key: Name | None = None
    reuse: Annotated[Name, Field(description="Do not repeat what is proven in this run.")] | None = None
    from_step: (
        Annotated[StepName, Field(description="With `reuse`: perform everything from here on.")] | None
    ) = None
    heal: Literal["off", "report", "apply"] | None = None
    reason: Reason | None = None


class ControlRequest(Shape):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"action": "resume_from_step", "stepId": "build", "reason": "operator recovery"}]
        }
    )
    action: ControlName
    reason: Reason
    step_id: StepName | None = None
    as_: ControlAnswerName | None = Field(
        None, alias="as", description=f"For {' and '.join(answering_kinds())}."
    )
    force: Annotated[bool, Field(strict=True, description=f"{beyond_words()}, too.")] = False


class ModeRequest(Shape):
    mode: Literal["running", "degraded", "quarantined", "paused"]
    reason: Reason
    for_s: Annotated[float, Field(gt=0, le=31_536_000, description="How long it lasts."), NUMERIC] | None = (
        None
    )


class SnapshotRequest(Shape):
    reason: Reason


class RollbackRequest(Shape):
    reason: Reason
    version: Annotated[Name, Field(description="Without it, the last lessons are undone.")] | None = None


class AcceptRequest(Shape):
    reason: Reason | None = None
    attempt: Annotated[int, Field(ge=1, le=1_000_000), NUMERIC] | None = None


class RejectRequest(Shape):
    reason: Reason
    attempt: Annotated[int, Field(ge=1, le=1_000_000), NUMERIC] | None = None


class SignIn(Shape):
    token: Annotated[str, Field(min_length=1, max_length=500)]


# Answers


class ProblemPart(Shape):
    where: str
    message: str
    line: int | None = None


class ProblemAnswer(Shape):
    """RFC 9457, and what to do next."""

    type: str
    title: str
    status: int
    detail: str
    hint: str
    instance: str
    problems: list[ProblemPart]


class Health(Shape):
    status: Literal["ok"]
    version: str


class Me(Shape):
    token_id: str
    name: str
    role: str


class SignedIn(Shape):
    """The cookie is in the headers; `csrf` goes into the header `X-CSRF-Token` of every change."""

    role: str
    name: str
    csrf: str


class SignedOut(Shape):
    ended: bool


class UnreadableEvent(Shape):
    seq: int
    """0: its place is not known."""
    type: str
    reason: str


class RunSummary(Shape):
    run_id: str
    workflow: str
    status: str
    delivery: int
    submitted_at: str
    updated_at: str
    ended_at: str | None
    reason: str
    seq: Annotated[int, Field(description="Of its last event.")]
    failure_class: str | None
    worker: Annotated[str | None, Field(description="Who drives it, or did last: `workerId`.")]
    step_count: int
    unreadable: UnreadableEvent | None = None


class RunPage(Shape):
    items: list[RunSummary]
    next_cursor: str | None


class Recovery(Shape):
    action: str
    step_id: str | None
    updated_at: str


class LiveControl(Shape):
    paused: bool
    takeover: bool
    recovery: Recovery | None


class RunDocument(Shape):
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


class StepDocument(Shape):
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


class LedgerDocument(Shape):
    run_id: str
    status: str
    known_good_prefix_length: int
    frontier: dict[str, Any] | None
    steps: list[StepDocument]


class Attempt(Shape):
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


class AttemptList(Shape):
    items: list[Attempt]
    next_cursor: str | None


class EventLine(Shape):
    stream: str
    run_id: str | None
    seq: int
    at: str
    type: str
    payload: dict[str, Any]


class EventPage(Shape):
    items: list[EventLine]
    next_cursor: str | None


class Log(Shape):
    step_id: str
    step_index: int
    offset: int
    next_offset: int
    log: str


class Submitted(Shape):
    run_id: str
    queue: str
    duplicate: bool
    note: str | None
    differs: Annotated[
        list[str],
        Field(
            description="Of a duplicate: `plan`, `inputs`, if they are not those of the run that has the key."
        ),
    ] = []


class Controlled(Shape):
    control_id: str
    action: str
    outcome: Annotated[str | None, Field(description="null: its driver has not answered yet.")]
    epoch: int | None
    detail: str
    run: RunDocument


class ModeDocument(Shape):
    workflow: str
    mode: str
    since: str | None
    until: str | None
    reason: str
    causes: Annotated[
        list[int], Field(description="Sequences of the events in the workflow's stream that led to it.")
    ]
    forced: bool
    half_open: bool
    counters: Annotated[
        dict[str, Any],
        Field(description="What the limits are compared with now. A quarantine starts most of them at 0."),
    ]
    counters_at_change: Annotated[
        dict[str, Any] | None,
        Field(
            description="The same when the mode began; null: it never changed, or an older version did not say."
        ),
    ] = None
    last_failure: dict[str, Any] | None
    confidence_floor: float
    margin_min: float
    tolerance_level_max: int
    learning_enabled: bool
    unreadable: UnreadableEvent | None = None


class ModeList(Shape):
    items: list[ModeDocument]
    next_cursor: str | None


class Version(BaseModel):
    """Named as `recoup memory versions --json` names them."""

    model_config = ConfigDict(extra="forbid")
    version_id: str
    workflow_id: str
    created_at: str
    success_rate_before: float | None
    success_rate_after: float | None
    components_versioned: list[str]
    entries: int | None
    up_to: int
    digest: str
    current: bool
    trouble: str


class VersionList(Shape):
    items: list[Version]
    next_cursor: str | None


class Snapshot(Shape):
    version: str


class Rollback(Shape):
    from_version: str
    to_version: str
    reason: str
    failed_ratio: float | None
    failed_ratio_before: float | None
    by: str
    approval_ref: str | None


class HealDocument(Shape):
    heal: str
    workflow: str
    run_id: str
    step_id: str
    attempt: int | None
    at: str
    state: str
    by: str | None
    reason: str | None
    decided_at: str | None
    target: str
    taken: str | None
    verified: bool
    confidence: float
    margin: float
    found_by: str
    target_digest: str | None
    identity: str | None
    evidence: list[str]


class HealList(Shape):
    items: list[HealDocument]
    next_cursor: str | None


class HealAccepted(Shape):
    heal: HealDocument
    patch: Annotated[str, Field(description="What the plan should say now; the gateway changes no plan.")]
    problem: Annotated[str, Field(description="Why there is no patch.")]


class PolicyDocument(Shape):
    digest: str
    source: str | None
    policy: dict[str, Any]


class QueueDocument(Shape):
    queues: list[dict[str, Any]]
    dead_letters: list[dict[str, Any]]
    more_dead_letters: bool


class WorkerList(Shape):
    items: list[dict[str, Any]]
    next_cursor: str | None


class AuditDocument(Shape):
    intact: bool
    files: int
    lines: int
    events: int
    gaps: list[dict[str, Any]]
    gaps_count: int
    first_break: dict[str, Any] | None
    ledger: dict[str, Any] | None
