"""The state of a run and of its steps, as folded from events."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from recoup.model.events import AskedStep, CheckResult
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.mode import Health
from recoup.model.plan import Plan
from recoup.model.target import Fingerprint, HealMode
from recoup.model.workspace import Baseline, Snapshot


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    BLOCKED = "blocked"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DEAD_LETTER = "dead_letter"
    ESCALATED = "escalated"

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.DEAD_LETTER})


class Verdict(StrEnum):
    """What the kernel concludes about a step."""

    PASSED = "passed"
    FAILED = "failed"
    UNVERIFIED = "unverified"
    RECOVERED = "recovered"
    INVALIDATED = "invalidated"
    NOT_RUN = "not_run"


class Mark(msgspec.Struct, frozen=True):
    """What two failed attempts are compared by."""

    signature: str
    diff_hash: str | None
    output_hash: str | None
    tolerance_level: int


class OpenAttempt(msgspec.Struct):
    """An attempt that was started and has not ended in the ledger."""

    attempt: int
    delivery: int
    workspace: int | None
    inline: bool
    started_at: Instant
    keeper: ProcessIdentity | None = None
    phase: str = "main"
    """main | rebuild | rescue | always."""
    session_id: str | None = None
    """The agent's session, as far as it is known before the attempt has ended."""

    @property
    def launched(self) -> bool:
        return self.inline or self.keeper is not None


class GivenUp(msgspec.Struct, frozen=True):
    """Every attempt of a step has failed, in this delivery; what follows once its handlers have run."""

    reason: str
    cls: FailureClass
    kind: FailureKind | None
    redeliver: bool


class Base(msgspec.Struct, frozen=True):
    """What an operator left in the workspace while the run stood before this step: where the step begins."""

    index: int
    snapshot: Snapshot
    in_checkpoint: bool = False
    """The `always` of the step before came after the operator: the checkpoint of that step holds their change too."""


class Recovery(msgspec.Struct, frozen=True):
    """What an operator asked for last."""

    action: str
    step_id: str | None
    updated_at: str


class StepRecord(msgspec.Struct):
    """One step of a run. Written by the fold only."""

    step_id: str
    index: int
    kind: str
    verdict: Verdict = Verdict.NOT_RUN
    phase: str = "main"
    skipped: bool = False
    args_digest: str | None = None
    pre_state: str | None = None
    """The tree that the workspace held when the step began."""
    pre_fingerprint: str | None = None
    """What it began from outside of a workspace: the page, or what its checks said."""
    evidence: tuple[str, ...] = ()
    outputs: dict[str, Any] = {}
    secret_outputs: tuple[str, ...] = ()
    private_outputs: tuple[str, ...] | None = None
    """Outputs whose originals are in the private store. None: recorded by a version that kept no originals."""
    attempts: int = 0
    """The highest attempt number that was used up."""
    attempts_in_delivery: int = 0
    unknown_failures: int = 0
    marks: tuple[Mark, ...] = ()
    prechecks: tuple[CheckResult, ...] | None = None
    checkpoint: Snapshot | None = None
    open: OpenAttempt | None = None
    failure_class: FailureClass | None = None
    failure_kind: FailureKind | None = None
    failure_signature: str | None = None
    failure_summary: str | None = None
    outcome_unknown: bool = False
    """It must not be repeated, its last attempt failed, and its outcome is unknown."""
    last_command: str = ""
    """What an agent did last, in its own words."""
    session_id: str | None = None
    """The agent's session, for an attempt that is to go on there."""
    diff_hash: str | None = None
    changed_files: tuple[str, ...] = ()
    invalidation_reason: str | None = None
    strategy: str | None = None
    """The strategy that the next attempt is to use."""
    healing_since: Instant | None = None
    """When that was decided: the next attempt waits `delay_ms` from here."""
    delay_ms: int = 0
    given_up: GivenUp | None = None
    rescue_tried: bool = False
    reused_from: str | None = None
    """The run in which it was proven."""
    page: Fingerprint | None = None
    """What the run's page was when the step had been done in the browser."""
    to_settle: bool = False
    """It was done, must not be done twice, and was invalidated: it may not begin before an operator has settled it."""
    lost: str = ""
    """Why nobody knows whether it was done: events of the run were lost. "" when an operator has settled it."""
    asks: AskedStep | None = None
    """It was done in linked runs before this one began: a person says whether that counts."""

    @property
    def is_done_elsewhere(self) -> bool:
        """All that is known of it was done in linked runs."""
        return self.asks is not None and not self.attempts and not self.lost


class Unreadable(msgspec.Struct, frozen=True):
    """The first event of a run that cannot be decoded. What is known of the run ends before it."""

    seq: int
    type: str
    reason: str


class RunState(msgspec.Struct):
    """A run. Written by the fold only."""

    run_id: str
    workflow: str
    plan: Plan
    plan_digest: str
    plan_redacted: bool
    policy_digest: str
    submitted_at: Instant
    inputs: dict[str, str | None] = {}
    private_inputs: tuple[str, ...] = ()
    """Inputs whose originals are in the private store."""
    plan_source: str | None = None
    parent_run_id: str | None = None
    reuse_from: str | None = None
    """The run whose proven steps need not be performed again."""
    own_folder: bool = False
    """Its steps work in a folder of its own."""
    from_step: str | None = None
    queue: str | None = None
    """Where workers look for it. None: only people drive it."""
    priority: int = 0
    needs: tuple[str, ...] = ()
    not_before_us: int = 0
    status: RunStatus = RunStatus.QUEUED
    seq: int = 0
    updated_at: Instant | None = None
    delivery: int = 0
    started_at: Instant | None = None
    active_s: float = 0
    """How long drivers have worked on it, up to `active_since`."""
    active_since: Instant | None = None
    waited_s: float = 0
    """How long it has waited for a person, up to `waiting_since`."""
    waiting_since: Instant | None = None
    """Since when it waits for one: a gate, an escalation, a pause."""
    epoch: int = 0
    owner: ProcessIdentity | None = None
    baseline: Baseline | None = None
    workspace: int | None = None
    """The workspace that the pointer names."""
    trial_workspace: int | None = None
    """A restored workspace in which the failing step is tried; becomes `workspace` when that step passes."""
    restore_pending: bool = False
    """A hard reset was decided, or steps were reused, and the workspace not restored yet."""
    rebuild_pending: list[int] = []
    """Steps to be performed again in the restored workspace before work goes on."""
    steps: list[StepRecord] = []
    prefix_length: int = 0
    """The leading steps that are known to be good."""
    resets: int = 0
    retries: int = 0
    heals: int = 0
    """Targets for which another element was taken."""
    heal: HealMode | None = None
    """What the run was told for all its steps."""
    takeovers: int = 0
    interrupted: bool = False
    in_trouble: bool = False
    """Interrupted because the machine of its driver was in trouble."""
    troubles: int = 0
    """How often that happened since a step last passed."""
    reason: str = ""
    failure_class: FailureClass | None = None
    failure_kind: FailureKind | None = None
    retryable: bool = False
    waiting_until: str | None = None
    escalation_id: str | None = None
    escalated_step: int | None = None
    paused: bool = False
    takeover: bool = False
    handed_over: str | None = None
    """The tree that an operator found in the workspace they took over."""
    base: Base | None = None
    recovery: Recovery | None = None
    waiting_for: str | None = None
    """time | operator | approval | driver."""
    gate_reached: int | None = None
    """The gate at which an operator was asked, for as long as nothing before it has changed."""
    page_question: tuple[str, ...] = ()
    """Finished steps that would have to be performed again to restore a lost page: an operator was asked."""
    page_repeats: tuple[str, ...] = ()
    """Those of them that an operator let be performed again, until a step finishes on the page."""
    page_as_is: bool = False
    """An operator said to continue on the page without them, until a step finishes on the page."""
    also_settled: tuple[str, ...] = ()
    """Steps that the answer to the escalation settles too."""
    invalidations: int = 0
    """How often a step that was known to be good was not any more: what came after it stands on something else."""
    always_pending: list[int] = []
    """Steps that have ended and whose `always` has not."""
    unreadable: Unreadable | None = None
    """Only in states that are shown: the event before which this state ends."""

    @property
    def begun(self) -> bool:
        """A delivery that could not even begin leaves it as it was submitted."""
        return self.started_at is not None

    @property
    def workspace_in_use(self) -> int | None:
        """Where work goes on: a restored one on trial, or the one that the pointer names."""
        return self.trial_workspace if self.trial_workspace is not None else self.workspace


class StepState(msgspec.Struct, frozen=True, kw_only=True):
    """All that `decide` may know: bounded, whatever the run's length."""

    attempt: int
    """The number of the attempt that failed."""
    attempts_in_delivery: int
    """Including that one."""
    earlier: tuple[Mark, ...] = ()
    """The marks of the attempts before it, oldest first; at most `no_progress_window`."""
    unknown_failures: int = 0
    """Including this one, when it is of class unknown."""
    resets: int = 0
    retries: int = 0
    active_s: float = 0
    active_since: Instant | None = None
    can_hard_reset: bool = False
    may_repeat: bool = True
    retry_tokens: float | None = None


class WorkflowState(msgspec.Struct, frozen=True):
    """What the runs of one workflow share; folded from its own stream."""

    tokens_spent: float = 0.0
    """How far the retry tokens are below their maximum."""
    seq: int = 0
    health: Health = Health()
