"""The state of a run and of its steps, as folded from events: values that never change, one for each concern."""

from __future__ import annotations

from collections.abc import Mapping
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
from recoup.model.vector import Vector
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


class OpenAttempt(msgspec.Struct, frozen=True):
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


class Beginning(msgspec.Struct, frozen=True):
    """What the step began from."""

    args_digest: str | None = None
    pre_state: str | None = None
    """The tree that the workspace held when the step began."""
    pre_fingerprint: str | None = None
    """What it began from outside of a workspace: the page, or what its checks said."""
    prechecks: tuple[CheckResult, ...] | None = None


class StepResults(msgspec.Struct, frozen=True):
    """What the step left."""

    evidence: tuple[str, ...] = ()
    outputs: Mapping[str, Any] = {}
    secret_outputs: tuple[str, ...] = ()
    private_outputs: tuple[str, ...] | None = None
    """Outputs whose originals are in the private store. None: recorded by a version that kept no originals."""
    diff_hash: str | None = None
    changed_files: tuple[str, ...] = ()
    checkpoint: Snapshot | None = None
    page: Fingerprint | None = None
    """What the run's page was when the step had been done in the browser."""


class SpentAttempts(msgspec.Struct, frozen=True):
    """What the step has used of its attempts, and how those ended that failed."""

    attempts: int = 0
    """The highest attempt number that was used up."""
    attempts_in_delivery: int = 0
    unknown_failures: int = 0
    marks: tuple[Mark, ...] = ()


class StepFailure(msgspec.Struct, frozen=True):
    """How its last attempt failed. Empty once it has passed."""

    cls: FailureClass | None = None
    kind: FailureKind | None = None
    signature: str | None = None
    summary: str | None = None


class StepRecovery(msgspec.Struct, frozen=True):
    """What was decided after its last failure."""

    strategy: str | None = None
    """The strategy that the next attempt is to use."""
    since: Instant | None = None
    """When that was decided: the next attempt waits `delay_ms` from here."""
    delay_ms: int = 0
    given_up: GivenUp | None = None
    rescue_tried: bool = False


class AgentTrace(msgspec.Struct, frozen=True):
    """What is known of the step's agent."""

    last_command: str = ""
    """What it did last, in its own words."""
    session_id: str | None = None
    """Its session, for an attempt that continues there."""


class Doubt(msgspec.Struct, frozen=True):
    """Why it is unknown whether the step was done, or whether it may be done."""

    outcome_unknown: bool = False
    """It must not be repeated, its last attempt failed, and its outcome is unknown."""
    to_settle: bool = False
    """It was done, must not be done twice, and was invalidated: it may not begin before an operator has settled it."""
    lost: str = ""
    """Why nobody knows whether it was done: events of the run were lost. "" when an operator has settled it."""
    asks: AskedStep | None = None
    """It was done in linked runs before this one began: a person says whether that counts."""


class StepRecord(msgspec.Struct, frozen=True):
    """One step of a run."""

    step_id: str
    index: int
    kind: str
    verdict: Verdict = Verdict.NOT_RUN
    phase: str = "main"
    skipped: bool = False
    invalidation_reason: str | None = None
    reused_from: str | None = None
    """The run in which it was proven."""
    open: OpenAttempt | None = None
    beginning: Beginning = Beginning()
    results: StepResults = StepResults()
    spent: SpentAttempts = SpentAttempts()
    failure: StepFailure = StepFailure()
    recovery: StepRecovery = StepRecovery()
    agent: AgentTrace = AgentTrace()
    doubt: Doubt = Doubt()

    @property
    def is_done_elsewhere(self) -> bool:
        """All that is known of it was done in linked runs."""
        return self.doubt.asks is not None and not self.spent.attempts and not self.doubt.lost


class Unreadable(msgspec.Struct, frozen=True):
    """The first event of a run that cannot be decoded. What is known of the run ends before it."""

    seq: int
    type: str
    reason: str


class Submission(msgspec.Struct, frozen=True):
    """What the run was submitted with, besides its plan."""

    at: Instant
    plan_digest: str
    plan_redacted: bool
    policy_digest: str
    inputs: Mapping[str, str | None] = {}
    private_inputs: tuple[str, ...] = ()
    """Inputs whose originals are in the private store."""
    plan_source: str | None = None
    own_folder: bool = False
    """Its steps work in a folder of its own."""
    heal: HealMode | None = None
    """For all its steps."""


class Lineage(msgspec.Struct, frozen=True):
    """The runs that it continues."""

    parent_run_id: str | None = None
    reuse_from: str | None = None
    """The run whose proven steps need not be performed again."""
    from_step: str | None = None


class Queueing(msgspec.Struct, frozen=True):
    """How workers find it."""

    queue: str | None = None
    """Where workers look for it. None: only people drive it."""
    priority: int = 0
    needs: tuple[str, ...] = ()
    not_before_us: int = 0


class Clocks(msgspec.Struct, frozen=True):
    """Where the time of a run went, up to its last event."""

    updated_at: Instant | None = None
    active_s: float = 0
    """How long drivers have worked on it, up to `active_since`."""
    active_since: Instant | None = None
    waited_s: float = 0
    """How long it has waited for a person, up to `waiting_since`."""
    waiting_since: Instant | None = None
    """Since when it waits for one: a gate, an escalation, a pause."""


class DriverState(msgspec.Struct, frozen=True):
    """Who drives the run, and for which time."""

    delivery: int = 0
    started_at: Instant | None = None
    epoch: int = 0
    owner: ProcessIdentity | None = None
    takeovers: int = 0
    interrupted: bool = False
    in_trouble: bool = False
    """Interrupted because the machine of its driver was in trouble."""
    troubles: int = 0
    """How often that happened since a step last passed."""


class RunFailure(msgspec.Struct, frozen=True):
    """Why it failed or was escalated."""

    cls: FailureClass | None = None
    kind: FailureKind | None = None
    retryable: bool = False


class RunWorkspaces(msgspec.Struct, frozen=True):
    """Where its steps work, and what becomes of that next."""

    baseline: Baseline | None = None
    current: int | None = None
    """The workspace that the pointer names."""
    trial: int | None = None
    """A restored workspace in which the failing step is tried; becomes `current` when that step passes."""
    restore_pending: bool = False
    """A hard reset was decided, or steps were reused, and the workspace not restored yet."""
    base: Base | None = None
    handed_over: str | None = None
    """The tree that an operator found in the workspace they took over."""

    @property
    def in_use(self) -> int | None:
        """Where work continues: a restored one on trial, or the one that the pointer names."""
        return self.trial if self.trial is not None else self.current


class RunProgress(msgspec.Struct, frozen=True):
    """How far the run is, and what must be done before its next step."""

    prefix_length: int = 0
    """The leading steps that are known to be good."""
    rebuild_pending: tuple[int, ...] = ()
    """Steps to be performed again in the restored workspace before work goes on."""
    always_pending: tuple[int, ...] = ()
    """Steps that have ended and whose `always` has not."""
    gate_reached: int | None = None
    """The gate at which an operator was asked, for as long as nothing before it has changed."""
    invalidations: int = 0
    """How often a step that was known to be good was not any more: what came after it stands on something else."""


class RecoveryCounts(msgspec.Struct, frozen=True):
    """How often the run was recovered."""

    resets: int = 0
    retries: int = 0
    heals: int = 0
    """Targets for which another element was taken."""


class RunHold(msgspec.Struct, frozen=True):
    """What keeps the run from going on."""

    paused: bool = False
    takeover: bool = False
    waiting_for: str | None = None
    """time | operator | approval | driver."""
    waiting_until: str | None = None


class RunEscalation(msgspec.Struct, frozen=True):
    """The question to a person that is open."""

    id: str | None = None
    step_index: int | None = None
    also_settled: tuple[str, ...] = ()
    """Steps that the answer settles too."""


class PageConsent(msgspec.Struct, frozen=True):
    """What an operator was asked and said about a lost page."""

    question: tuple[str, ...] = ()
    """Finished steps that would have to be performed again to restore it."""
    repeats: tuple[str, ...] = ()
    """Those of them that an operator let be performed again, until a step finishes on the page."""
    as_is: bool = False
    """An operator said to continue on the page without them, until a step finishes on the page."""


class RunState(msgspec.Struct, frozen=True):
    """A run after its event `seq`."""

    run_id: str
    workflow: str
    plan: Plan
    submission: Submission
    lineage: Lineage = Lineage()
    queueing: Queueing = Queueing()
    seq: int = 0
    status: RunStatus = RunStatus.QUEUED
    reason: str = ""
    failure: RunFailure = RunFailure()
    driver: DriverState = DriverState()
    clocks: Clocks = Clocks()
    workspaces: RunWorkspaces = RunWorkspaces()
    progress: RunProgress = RunProgress()
    counts: RecoveryCounts = RecoveryCounts()
    hold: RunHold = RunHold()
    escalation: RunEscalation = RunEscalation()
    page: PageConsent = PageConsent()
    recovery: Recovery | None = None
    steps: Vector[StepRecord] = Vector()
    unreadable: Unreadable | None = None
    """Only in states that are shown: the event before which this state ends."""

    @property
    def begun(self) -> bool:
        """A delivery that could not even begin leaves it as it was submitted."""
        return self.driver.started_at is not None


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
