"""What is answered about workflows: modes, what they have learned, heals, and other policies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from recoup.model.answers.answer import Answer, PlainAnswer
from recoup.model.answers.runs import UnreadableEvent


class FailureCounters(Answer, frozen=True, kw_only=True):
    """What the limits of a workflow are compared with."""

    step_streak: int
    failures_in_window: int
    failures_in_count: int
    results_counted: int
    clean_results: int
    probes: int


class LastFailure(Answer, frozen=True, kw_only=True):
    at: str
    run_id: str
    step_id: str
    failure_kind: str | None


class ModeDocument(Answer, frozen=True, kw_only=True):
    workflow: str
    mode: str
    since: str | None
    until: str | None
    reason: str
    causes: Annotated[
        list[int], Meta(description="Sequences of the events in the workflow's stream that led to it.")
    ]
    forced: bool
    half_open: bool
    counters: Annotated[
        FailureCounters,
        Meta(description="What the limits are compared with now. A quarantine starts most of them at 0."),
    ]
    counters_at_change: Annotated[
        dict[str, int] | None,
        Meta(
            description="The same when the mode began; null: it never changed, or an older version did not say."
        ),
    ] = None
    last_failure: LastFailure | None
    confidence_floor: float
    margin_min: float
    tolerance_level_max: int
    learning_enabled: bool
    unreadable: UnreadableEvent | None = None


class ModeList(Answer, frozen=True, kw_only=True):
    items: list[ModeDocument]
    next_cursor: str | None


class Version(PlainAnswer, frozen=True, kw_only=True):
    """Named as `recoup memory versions --json` names them."""

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


class VersionList(Answer, frozen=True, kw_only=True):
    items: list[Version]
    next_cursor: str | None


class Snapshot(Answer, frozen=True, kw_only=True):
    version: str


class Rollback(Answer, frozen=True, kw_only=True):
    from_version: str
    to_version: str
    reason: str
    failed_ratio: float | None
    failed_ratio_before: float | None
    by: str
    approval_ref: str | None


class MemoryChange(PlainAnswer, frozen=True, kw_only=True):
    """Named as `recoup memory diff --json` names it."""

    kind: Literal["added", "removed", "changed"]
    step_id: str
    element: str
    origin: str
    successes: int
    failures: int


class MemoryDiff(Answer, frozen=True, kw_only=True):
    items: list[MemoryChange]
    next_cursor: str | None


class HealDocument(Answer, frozen=True, kw_only=True):
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


class HealList(Answer, frozen=True, kw_only=True):
    items: list[HealDocument]
    next_cursor: str | None


class HealAccepted(Answer, frozen=True, kw_only=True):
    heal: HealDocument
    patch: Annotated[str, Meta(description="What the plan should say now; the gateway changes no plan.")]
    problem: Annotated[str, Meta(description="Why there is no patch.")]


class PolicyDocument(Answer, frozen=True, kw_only=True):
    digest: str
    source: str | None
    policy: dict[str, Any]
