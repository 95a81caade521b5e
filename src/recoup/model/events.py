"""Past-tense facts, as stored. Names and fields are public: they change only by addition.

Every payload of a step carries seed fields that may not exist yet (the class of an attempt that has only started);
those are present and null.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import msgspec

from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ident import Ident
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.memory import Screen
from recoup.model.mode import Mode
from recoup.model.plan import Plan
from recoup.model.probe import Action, Health, Phase
from recoup.model.target import Candidate, Element, Fingerprint, HealMode
from recoup.model.workspace import Baseline, Missing, Snapshot


class Event(msgspec.Struct, frozen=True, gc=False):
    """One fact at its place in its stream."""

    stream: str
    seq: int
    at: Instant
    type: str
    payload: Payload
    raw: bytes
    """The payload exactly as stored (JSON)."""

    def line(self) -> dict[str, Any]:
        """The public form: `recoup events --json`, server-sent events, audit."""
        return event_line(self.stream, self.seq, self.at, self.type, self.raw, self.unreadable)

    @property
    def unreadable(self) -> str | None:
        """Why its payload cannot be decoded; None: it can."""
        return self.payload.reason if isinstance(self.payload, UnreadablePayload) else None


def event_line(
    stream: str, seq: int, at: Instant, event_type: str, raw: bytes, unreadable: str | None = None
) -> dict[str, Any]:
    """The public form of an event. One that cannot be decoded has no payload and says why."""
    run_id = stream.removeprefix("run:") if stream.startswith("run:") else None
    line = {"stream": stream, "runId": run_id, "seq": seq, "at": at.iso(), "type": event_type}
    if unreadable is not None:
        return {**line, "payload": None, "unreadable": unreadable}
    return {**line, "payload": msgspec.Raw(raw)}


def why_unreadable(raw: bytes) -> str | None:
    """Why stored bytes cannot stand in a line of JSON; None: they can."""
    try:
        raw.decode()
        _check_json(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None


_check_json = msgspec.json.Decoder(msgspec.Raw).decode


class Payload(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """What all payloads share: a name in storage."""

    TYPE: ClassVar[str] = ""


class StepPayload(Payload, frozen=True, kw_only=True):
    """The fields every event about a step carries."""

    step_id: Ident
    step_index: int
    attempt: int | None
    failure_class: FailureClass | None = None
    failure_kind: FailureKind | None = None
    failure_signature: Ident | None = None
    diff_hash: Ident | None = None
    strategy: Ident | None = None
    reason: str | None = None
    policy_digest: Ident | None = None


# Runs


class RunSubmitted(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.run.submitted"
    workflow: Ident
    plan_digest: Ident
    plan: Plan
    plan_redacted: bool
    """Redaction changed the plan below: the plan to run is in the private store only."""
    inputs: dict[str, str | None]
    private_inputs: tuple[Ident, ...] = ()
    """Inputs that redaction may have changed above, secret ones aside: their originals are in the private store."""
    policy_digest: Ident
    plan_source: str | None = None
    parent_run_id: Ident | None = None
    reuse_from: Ident | None = None
    """The run whose proven steps need not be performed again."""
    from_step: Ident | None = None
    """From here on every step is performed, whatever was proven."""
    queue: Ident | None = None
    """Where workers look for it. None: only people drive it."""
    priority: int = 0
    """Higher first."""
    needs: tuple[Ident, ...] = ()
    """What a worker must be capable of, sorted."""
    not_before_us: int = 0
    """On the wall clock."""
    heal: HealMode | None = None
    """What the run was told for all its steps."""
    dedup_key: str | None = None
    submitted_by: str | None = None
    """Who, where that is known: the name of a token through the gateway, a user of the machine on the command line."""
    submit_reason: str | None = None
    approval_ref: Ident | None = None
    own_folder: bool = False
    """The plan came as text: without a workspace its steps work in a folder of this run's, not in `plan.folder`."""


class SubmissionKeyTaken(Payload, frozen=True, kw_only=True):
    """In a stream of its own, in the transaction of the submission: with this key there is one run."""

    TYPE: ClassVar[str] = "task.submission.key_taken"
    run_id: Ident


class RunStarted(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.run.started"
    delivery: int
    epoch: int
    owner: ProcessIdentity
    policy_digest: Ident
    baseline: Baseline | None = None
    workspace: int | None = None
    worker: Ident | None = None
    """The name of the process that drives it, as workers are listed."""


class RunWaiting(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.run.waiting"
    reason: str
    until: Ident | None = None
    step_id: Ident | None = None
    waiting_for: Ident = "driver"
    """time | operator | approval | driver."""


class RunBlocked(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.run.blocked"
    reason: str
    until: Ident | None = None


class RunResumed(Payload, frozen=True, kw_only=True):
    """The run goes on: by a new driver, in a new delivery, or after a wait."""

    TYPE: ClassVar[str] = "task.run.resumed"
    delivery: int
    epoch: int
    owner: ProcessIdentity
    reason: str
    workspace: int | None = None
    worker: Ident | None = None


class RunTakenOver(Payload, frozen=True, kw_only=True):
    """The driver was lost; another one holds the run now."""

    TYPE: ClassVar[str] = "task.run.taken_over"
    epoch: int
    previous_epoch: int
    previous_owner: ProcessIdentity | None
    reason: str


class RunInterrupted(Payload, frozen=True, kw_only=True):
    """The driver was told to stop (Ctrl-C, draining), or its machine is in trouble; the run can be resumed in place."""

    TYPE: ClassVar[str] = "task.run.interrupted"
    reason: str
    epoch: int
    machine_trouble: bool = False
    """A full disk, a lack of memory: not the fault of the run, which spends nothing for it."""


class RunEventsLost(Payload, frozen=True, kw_only=True):
    """The database lost events that it had acknowledged, perhaps some of this run. A step that must not be repeated and
    has not passed may have been done: it waits for a person."""

    TYPE: ClassVar[str] = "task.run.events_lost"
    loss_id: Ident
    evidence: str
    """acknowledged | failover."""
    reason: str
    acknowledged_seq: int | None = None
    """The last event of this run that is known to have been acknowledged."""
    found_seq: int | None = None
    """The last event of it that the database had."""


class RunSucceeded(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.run.succeeded"
    known_good_prefix_length: int
    reason: str


class RunFailed(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.run.failed"
    reason: str
    failure_class: FailureClass | None
    failure_kind: FailureKind | None
    retryable: bool
    delivery: int
    step_id: Ident | None = None
    step_index: int | None = None


class RunDeadLettered(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.run.dead_lettered"
    reason: str
    failure_class: FailureClass | None
    failure_kind: FailureKind | None
    delivery: int
    step_id: Ident | None = None
    step_index: int | None = None


class RunCancelled(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.run.cancelled"
    reason: str
    actor: str


class Escalated(Payload, frozen=True, kw_only=True):
    """The decision is a person's now."""

    TYPE: ClassVar[str] = "Escalated"
    escalation_id: Ident
    reason: str
    hint: str
    step_id: Ident | None = None
    step_index: int | None = None
    attempt: int | None = None
    failure_class: FailureClass | None = None
    failure_kind: FailureKind | None = None
    page_steps: tuple[Ident, ...] = ()
    """The question is whether these finished steps are performed again to restore a lost page. Settled as `done`, the
    run continues on the page as it is."""
    also_steps: tuple[Ident, ...] = ()
    """Further steps that the same answer settles."""


# Attempts


class CheckResult(msgspec.Struct, frozen=True, rename="camel"):
    """One postcondition as it was found."""

    check: str
    held: bool | None
    """None: it could not be asked in time, so nothing is known."""
    detail: str = ""


class EarlierDeed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A step that must not be repeated, as a linked run has performed it."""

    run_id: Ident
    start: Ident = ""
    """The start that claimed it there: another one is another deed. "": none did."""
    args_digest: Ident | None = None
    """Null: it was done with the arguments that the step has now."""
    is_known: bool = True
    """False: it may have been done; its outcome is not known."""


class AskedStep(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A step that may not begin before a person has said whether what linked runs did counts."""

    step_id: Ident
    step_index: int
    reason: str
    """Why it cannot be reused."""
    deeds: tuple[EarlierDeed, ...]
    outputs: dict[str, Any] = {}
    """What it gave there, for a step that is settled as done."""
    private: tuple[Ident, ...] = ()
    """The references whose values were private there."""


class AttemptStarted(StepPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.step.attempt.started"
    delivery: int
    kind: Ident
    args_digest: Ident
    pre_state: Ident | None
    """The tree that the workspace held when the step began."""
    workspace: int | None
    inline: bool
    """Performed inside the driver: started means launched."""
    prechecks: tuple[CheckResult, ...] | None = None
    """World checks before the first attempt; on later ones, and without such checks, null."""
    phase: Ident = "main"
    tolerance_level: int = 0
    once: bool = False
    """The step must not be repeated: no other run of the family may begin it with these arguments."""
    pre_fingerprint: Ident | None = None
    """What the step began from outside of a workspace: `page:DIGEST`, `page:none` or `checks:DIGEST`. Never a tree."""
    again_after: tuple[EarlierDeed, ...] = ()
    """What linked runs had done before, and a person let this run do again: these claims end with this one."""


class AttemptLaunched(StepPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.step.attempt.launched"
    keeper: ProcessIdentity


class AgentSessionKnown(StepPayload, frozen=True, kw_only=True):
    """An agent whose session a later attempt may resume has named it. Recorded at once: a driver that is lost reports
    nothing about its attempt."""

    TYPE: ClassVar[str] = "task.step.agent.session"
    session_id: Ident


class AgentReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a coding agent said about its own work."""

    cli: Ident
    session_id: Ident | None = None
    turns: int | None = None
    cost_usd: float | None = None
    last_command: str = ""
    denials: tuple[str, ...] = ()
    """Tools that it wanted and was not allowed."""


class HandlerResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How one handler of a step (rescue, on_empty, always) ended."""

    number: int
    passed: bool
    detail: str = ""


class ResolutionDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the target of an attempt in the browser was looked for."""

    healing_attempt: int
    """The level of tolerance."""
    healing_profile: dict[str, float | bool | int]
    role_aliases_used: tuple[Ident, ...] = ()
    fuzzy_threshold_used: float
    spatial_padding_used: float
    clamped: bool = False
    """The area to look in went beyond the page and was cut."""
    found_by: Ident = "none"
    """exact | alias | memory | semantic | spatial | model | lesson | none."""
    confidence: float | None = None
    margin: float | None = None
    considered: int = 0
    vetoes: tuple[Ident, ...] = ()
    duration_ms: float = 0.0


class AttemptFinished(StepPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.step.attempt.finished"
    verdict: Ident
    duration_ms: int
    exit_code: int | None = None
    outputs: dict[str, Any] = {}
    secret_outputs: tuple[Ident, ...] = ()
    private_outputs: tuple[Ident, ...] | None = None
    """Outputs that redaction may have changed above: their originals are in the private store. None: recorded by a
    version that kept no originals."""
    evidence: tuple[Ident, ...] = ()
    changed_files: tuple[str, ...] = ()
    changed_files_count: int = 0
    checkpoint: Ident | None = None
    workspace: int | None = None
    settled_by: Ident = "outcome"
    """outcome | already_done (world checks hold on re-entry) | operator."""
    actor: str | None = None
    """Who approved the gate, or settled the step as done."""
    phase: Ident = "main"
    """main | rebuild | rescue | always."""
    agent: AgentReport | None = None
    handlers: tuple[HandlerResult, ...] = ()
    resolution: ResolutionDetails | None = None
    page: Fingerprint | None = None
    """What the page was when the step had been done."""


class AttemptFailed(StepPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.step.attempt.failed"
    facts: Facts
    """Every input of the classifier."""
    summary: str
    outcome_known: bool
    evidence: tuple[Ident, ...] = ()
    changed_files: tuple[str, ...] = ()
    changed_files_count: int = 0
    not_begun: bool = False
    """Started and never launched, or of handlers, which are done again from the first: not spent."""
    spared: bool = False
    """Its own driver was told to stop and ended it: it counts in no budget."""
    tolerance_level: int = 0
    retry_tokens: float | None = None
    """What the workflow had left when this was decided."""
    phase: Ident = "main"
    agent: AgentReport | None = None
    handlers: tuple[HandlerResult, ...] = ()
    gives_up: bool = False
    """No more attempts in this delivery; the step's handlers come before the run's end."""
    redeliver: bool = False
    resolution: ResolutionDetails | None = None


class StepInvalidated(StepPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.step.invalidated"


class StepReused(StepPayload, frozen=True, kw_only=True):
    """Proven in an earlier run, and everything it rests on is the same: it need not be performed again."""

    TYPE: ClassVar[str] = "task.step.reused"
    from_run_id: Ident
    verdict: Ident
    kind: Ident
    args_digest: Ident | None
    pre_state: Ident | None
    evidence: tuple[Ident, ...] = ()
    outputs: dict[str, Any] = {}
    secret_outputs: tuple[Ident, ...] = ()
    private_outputs: tuple[Ident, ...] | None = None
    snapshot: Snapshot | None = None
    phase: Ident = "main"
    skipped: bool = False
    page: Fingerprint | None = None
    pre_fingerprint: Ident | None = None


class StepSkipped(StepPayload, frozen=True, kw_only=True):
    """Its `when` did not hold."""

    TYPE: ClassVar[str] = "task.step.skipped"


# Recovery


class SelfHealTriggered(StepPayload, frozen=True, kw_only=True):
    """The step will be tried again after `delayMs`."""

    TYPE: ClassVar[str] = "task.self_heal.triggered"
    delay_ms: int


class SelfHealEscalated(StepPayload, frozen=True, kw_only=True):
    """From soft to hard: the step will be tried again in a restored workspace."""

    TYPE: ClassVar[str] = "task.self_heal.escalated"
    delay_ms: int


class SelfHealExhausted(StepPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.self_heal.exhausted"
    retryable: bool
    gives_up: bool = False
    """Neither another attempt nor `rescue` follows, only `always`: the run must end for a reason of its own."""


class ResumeFromStep(StepPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.resume.from_step"
    restores: bool = False
    """The workspace is brought back to what it was before this step."""
    asks: tuple[AskedStep, ...] = ()
    """Of a linked run that begins: steps that must not be repeated, were done in other runs and cannot be reused. A
    person is asked before each."""


class ControlHandled(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "task.control"
    command_id: Ident
    action: Ident
    outcome: Ident
    """accepted | refused."""
    reason: str
    actor: str
    epoch: int
    step_id: Ident | None = None
    detail: str = ""
    argument: Ident | None = None
    at: Ident | None = None


class WorkspaceHandedOver(Payload, frozen=True, kw_only=True):
    """An operator works in it now; `tree` is what they found."""

    TYPE: ClassVar[str] = "workspace.handed_over"
    actor: str
    workspace: int | None = None
    tree: Ident | None = None


class WorkspaceChanged(Payload, frozen=True, kw_only=True):
    """What an operator left behind, before work goes on from there."""

    TYPE: ClassVar[str] = "workspace.changed"
    workspace: int
    before: Ident
    snapshot: Snapshot
    diff_hash: Ident | None = None
    changed_files: tuple[str, ...] = ()
    changed_files_count: int = 0
    evidence: tuple[Ident, ...] = ()
    """The patch."""
    kept: bool = True
    """False: a restore was asked for, and takes its place."""


# Browsers


class BrowserReset(StepPayload, frozen=True, kw_only=True):
    """A hard reset of a step in the browser: what there was is closed, and the steps that made its page are performed
    again in a new one."""

    TYPE: ClassVar[str] = "browser.reset"


class PageLost(StepPayload, frozen=True, kw_only=True):
    """The page that this step goes on from is gone. These steps stay done and are performed again to get it back."""

    TYPE: ClassVar[str] = "browser.page_lost"
    steps: tuple[Ident, ...]


# Targets


class TargetHealed(StepPayload, frozen=True, kw_only=True):
    """The target was not where it was written, and another element was taken for it. In the run's stream, and, for
    those who count, in the stream of the workflow's targets."""

    TYPE: ClassVar[str] = "target.healed"
    run_id: Ident
    target: str
    verified: bool
    """What the step expects held afterwards. Otherwise nothing proves that it was the right one."""
    confidence: float
    margin: float
    found_by: Ident
    before: Element | None = None
    after: Element | None = None
    runner_up: Element | None = None
    runner_up_confidence: float | None = None
    candidates: tuple[Candidate, ...] = ()
    """What was considered, the likeliest first, what was taken among it."""
    evidence: tuple[Ident, ...] = ()
    target_digest: Ident = ""
    identity: Ident = ""
    """Of the element that was taken: what names it, as a digest."""
    led_by: Ident = ""
    """The identity of what was learned that led to it, where that is another element."""


class TargetRejected(StepPayload, frozen=True, kw_only=True):
    """None of the elements was taken for the target; `reason` says why. In the stream of the workflow's targets:
    somebody forbade that this element is ever taken for it."""

    TYPE: ClassVar[str] = "target.rejected"
    run_id: Ident
    target: str
    confidence: float | None = None
    margin: float | None = None
    before: Element | None = None
    best: Element | None = None
    runner_up: Element | None = None
    evidence: tuple[Ident, ...] = ()
    target_digest: Ident = ""
    identity: Ident = ""
    by: str = ""


class TargetLearned(StepPayload, frozen=True, kw_only=True):
    """In the stream of the workflow's targets: what was taken for a target, and proved right, is remembered."""

    TYPE: ClassVar[str] = "target.learned"
    run_id: Ident
    target_digest: Ident
    identity: Ident
    element: Element
    confidence: float
    origin: Ident
    """How it was found: by a strategy, or because somebody accepted a heal."""
    by: str = ""
    """Who accepted it."""


class TargetObserved(StepPayload, frozen=True, kw_only=True):
    """In the stream of the workflow's targets: an element that was found exactly as it was written, in full, when what
    the step expects held."""

    TYPE: ClassVar[str] = "target.observed"
    run_id: Ident
    target_digest: Ident
    element: Element


class ScreenLearned(StepPayload, frozen=True, kw_only=True):
    """In the stream of the workflow's targets: what the page of a step looked like when what the step expects held."""

    TYPE: ClassVar[str] = "screen.learned"
    run_id: Ident
    screen: Screen


class TargetTimed(StepPayload, frozen=True, kw_only=True):
    """In the stream of the workflow's targets: how long an element that was found exactly as it was written took to
    appear, when what the step expects held. Told of those that are slow, or were."""

    TYPE: ClassVar[str] = "target.timed"
    run_id: Ident
    target_digest: Ident
    took_ms: int


class TargetAdapted(StepPayload, frozen=True, kw_only=True):
    """The target was found as it was written, and something else was needed: a longer wait (`timing`), or the value in
    another form (`format`). What is typed is never told: `before` and `after` are shapes."""

    TYPE: ClassVar[str] = "target.adapted"
    run_id: Ident
    target: str
    strategy: Ident
    """timing | format."""
    verified: bool
    took_ms: int | None = None
    value_kind: Ident | None = None
    """date | number | phone."""
    before: str = ""
    after: str = ""


class MemorySnapshot(Payload, frozen=True, kw_only=True):
    """In the stream of a workflow's targets: what had been learned before this event is a version that can be gone back
    to."""

    TYPE: ClassVar[str] = "memory.snapshot"
    version: Ident
    digest: Ident
    """Of which elements had been learned for which targets, in order."""
    entries: int
    success_rate_before: float | None = None
    """Of the last steps that were performed with what was learned until now."""
    reason: str = ""


class MemoryRollback(Payload, frozen=True, kw_only=True):
    """In the stream of a workflow's targets: all that was learned after that version is taken back."""

    TYPE: ClassVar[str] = "memory.rollback"
    from_version: Ident
    to_version: Ident
    reason: str
    failed_ratio: float | None = None
    failed_ratio_before: float | None = None
    by: str = ""
    approval_ref: Ident | None = None


# Checkpoints


class CheckpointStored(StepPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "checkpoint.stored"
    snapshot: Snapshot
    workspace: int


class CheckpointIncomplete(StepPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "checkpoint.incomplete"
    missing: tuple[Missing, ...]
    missing_count: int


class CheckpointRestored(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "checkpoint.restored"
    step_index: int | None
    """The step whose checkpoint it was; null: the baseline."""
    tree: Ident
    workspace: int
    reason: str
    step_id: Ident | None = None
    current: bool = False
    """The pointer follows at once; otherwise when a step has passed there."""


class SecretFound(StepPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "secret.found"
    names: tuple[Ident, ...]
    where: str


# Workflows


class WorkflowStepResult(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """One step result of one run, in the workflow's own stream: what its budgets and windows are folded from."""

    TYPE: ClassVar[str] = "workflow.step.result"
    run_id: Ident
    step_id: Ident
    result: Ident
    """attempt_failed | passed | recovered | failed."""
    attempts: int
    tokens: float = 0
    """What it costs the workflow's retry budget; less than nothing is given back."""
    failure_kind: FailureKind | None = None
    failure_class: FailureClass | None = None
    counts: bool = True
    """False: a failure that only the caution of a degraded mode caused."""


class WorkflowModeChanged(Payload, frozen=True, kw_only=True):
    """In the workflow's own stream, in the transaction of the event that caused it."""

    TYPE: ClassVar[str] = "workflow.mode.changed"
    mode: Mode
    previous: Mode
    reason: str
    causes: tuple[int, ...] = ()
    """The sequences of events in this stream."""
    causes_elsewhere: dict[Ident, tuple[int, ...]] = {}
    """Of a change for all workflows: the sequences of events in the streams of each; the last ones of the worst."""
    for_s: float | None = None
    """How long it lasts; None: until something ends it."""
    half_open: bool = False
    forced: bool = False
    actor: str | None = None
    policy_digest: Ident | None = None
    approval_ref: Ident | None = None
    counters: dict[Ident, int] | None = None
    """What the limits were compared with at this moment. None: recorded by a version that did not say."""


class WorkflowProbePermitted(Payload, frozen=True, kw_only=True):
    """A run may try whether the workflow works again, for a limited time."""

    TYPE: ClassVar[str] = "workflow.probe.permitted"
    run_id: Ident


class WorkflowBootSeen(Payload, frozen=True, kw_only=True):
    """A machine looks at the workflow for the first time since it started: from here its boot clock measures."""

    TYPE: ClassVar[str] = "workflow.boot.seen"
    boot_id: Ident


# Probes


class ProbePayload(Payload, frozen=True, kw_only=True, rename=None):
    """A fact about one resource of a probe, or about the probe itself. The envelope is filled in when it is stored."""

    event_id: Ident = ""
    resource_id: Ident = ""
    """Empty: the probe itself."""
    lease_epoch: int = 0
    monotonic_seq: int = 0
    timestamp_unix: float = 0
    correlation_id: Ident = ""
    """The same for all that follows from one fault."""
    causation_id: Ident | None = None
    """The event that this one follows from."""


class ProbeStarted(ProbePayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "ProbeStarted"
    owner: ProcessIdentity
    config_digest: Ident
    resources: int
    instance: Ident = ""
    """Tells this probe from others of its name, in other ledgers on the same machine."""
    reason: str = ""


class ProbeStopped(ProbePayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "ProbeStopped"
    reason: str


class RecoveryPayload(ProbePayload, frozen=True, kw_only=True):
    """What every fact about a recovery says."""

    action: Action | None = None
    fault_class: Ident | None = None
    retry_count: int = 0
    backoff_seconds: float = 0
    phase: Phase
    reason: str
    error_code: Ident | None = None
    result: Ident | None = None


class PhaseChanged(RecoveryPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "PhaseChanged"
    previous: Phase
    health: Health


class ProcessLaunched(ProbePayload, frozen=True, kw_only=True):
    """Before anything is executed: who keeps the process, so that the next probe can prove it dead."""

    TYPE: ClassVar[str] = "ProcessLaunched"
    keeper: ProcessIdentity


class RecoveryPlanned(RecoveryPayload, frozen=True, kw_only=True):
    """An action will be taken after `wait_seconds`: a probe that is started meanwhile waits for the rest of it."""

    TYPE: ClassVar[str] = "RecoveryPlanned"
    wait_seconds: float


class RecoveryAttempted(RecoveryPayload, frozen=True, kw_only=True):
    """Before the action: from here on it counts."""

    TYPE: ClassVar[str] = "RecoveryAttempted"
    manual: bool = False
    actor: str | None = None
    command_id: Ident | None = None


class RecoverySucceeded(RecoveryPayload, frozen=True, kw_only=True):
    """The checks say so, not the action."""

    TYPE: ClassVar[str] = "RecoverySucceeded"


class RecoveryFailed(RecoveryPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "RecoveryFailed"


class ProbeEscalated(RecoveryPayload, frozen=True, kw_only=True):
    """The next action was refused; the decision is the gateway's or a person's now."""

    TYPE: ClassVar[str] = "Escalated"
    escalation_id: Ident
    limit: Ident
    hint: str


class EscalationDelivered(ProbePayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "EscalationDelivered"
    escalation_id: Ident
    outbox: Ident
    complete: bool
    """All who were to be told have been."""


class ChannelDowngraded(ProbePayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "ChannelDowngraded"
    from_mode: Ident = msgspec.field(name="from")
    to_mode: Ident = msgspec.field(name="to")
    reason_code: Ident
    reason: str
    fault_class: Ident


class ChannelRestored(ProbePayload, frozen=True, kw_only=True):
    """The gateway took a downgrade back."""

    TYPE: ClassVar[str] = "ChannelRestored"
    from_mode: Ident = msgspec.field(name="from")
    to_mode: Ident = msgspec.field(name="to")
    reason: str
    actor: str


class BudgetReset(ProbePayload, frozen=True, kw_only=True):
    """Retries were given back: after a time of health, or by somebody."""

    TYPE: ClassVar[str] = "BudgetReset"
    fault_class: Ident | None = None
    """None: of all classes."""
    automatic: bool
    reason: str
    actor: str | None = None


class ActionRefused(ProbePayload, frozen=True, kw_only=True):
    """Somebody asked for what a probe must not do."""

    TYPE: ClassVar[str] = "ActionRefused"
    asked: str
    rule: Ident
    reason: str
    source: str
    """Who asked: a file, an operator, the gateway."""


class CommandHandled(ProbePayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "CommandHandled"
    command_id: Ident
    command: str
    outcome: Ident
    """accepted | refused."""
    rule: Ident | None = None
    reason: str
    actor: str
    desired_version: int | None = None


# The desk of the gateway: what probes elsewhere report, what people decide


class ProbeReported(Payload, frozen=True, kw_only=True):
    """In the stream `reported:NAME` of a probe elsewhere: one of its events, at its own sequence."""

    TYPE: ClassVar[str] = "probe.reported"
    sender_epoch: int
    """Of whoever sent it; the event's own may be lower."""
    digest: Ident
    """Of the event as it was sent: redaction may have changed what is kept."""
    event: dict[str, Any]
    merged_into: Ident | None = None
    """The entry of the inbox that counts this escalation: its sender had as many open as it may have."""


class ProbeSenderChanged(Payload, frozen=True, kw_only=True):
    """In the stream `senders:NAME`: a probe speaks under a later lease; who holds an earlier one has lost it."""

    TYPE: ClassVar[str] = "probe.sender.changed"
    lease_epoch: int
    token_id: Ident | None = None
    """Whose it is: no other token may speak for this probe. Older events do not say."""


class ProbeSenderReleased(Payload, frozen=True, kw_only=True):
    """There too: the next token that speaks for the probe may, and under any lease."""

    TYPE: ClassVar[str] = "probe.sender.released"
    by: str
    reason: str


class ProbeCommandOrdered(Payload, frozen=True, kw_only=True):
    """In the stream `commands:NAME`: somebody wants a probe elsewhere to do something."""

    TYPE: ClassVar[str] = "probe.command.ordered"
    command_id: Ident
    digest: Ident
    """Of the command as it was given."""
    command: dict[str, Any]
    by: str
    reason: str
    approval_ref: Ident | None = None


class ProbeCommandHandled(Payload, frozen=True, kw_only=True):
    """There too: the probe has said what became of it; it is not sent again."""

    TYPE: ClassVar[str] = "probe.command.handled"
    command_id: Ident
    outcome: Ident
    monotonic_seq: int
    """The event of the probe that says so."""


class EscalationPayload(Payload, frozen=True, kw_only=True):
    """In the stream `escalation:ID`: what a person did about it."""

    escalation_id: Ident
    by: str
    reason: str


class EscalationAcknowledged(EscalationPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "escalation.acknowledged"


class EscalationAssigned(EscalationPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "escalation.assigned"
    assignee: str


class EscalationResolved(EscalationPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "escalation.resolved"


class EscalationMerged(EscalationPayload, frozen=True, kw_only=True):
    """More came from the same sender, `by`, than may be open at once; `reason` is that of the last one."""

    TYPE: ClassVar[str] = "escalation.merged"
    count: int


class ApprovalPayload(Payload, frozen=True, kw_only=True):
    """In the stream `approvals`: about something that one person asked for and another must agree to."""

    ref: Ident
    by: str
    reason: str


class Pinned(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How things stood when something was asked for: it is done to nothing else."""

    plan_digest: str | None = None
    """Of a submission: as in `task.run.submitted`."""
    step_id: Ident | None = None
    """Of a control that makes a run go on: the step it is about, or the one at which the run stood."""
    delivery: int | None = None
    invalidations: int = 0
    """Of that run until then. Another number: it came there again, over steps that were performed anew."""


class ApprovalRequested(ApprovalPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "approval.requested"
    action: Ident
    """As the policy's `approval_required` calls it."""
    target: str
    """Of what: a run, a workflow, a probe."""
    request: dict[str, Any]
    """What exactly, as it was asked for."""
    token_id: Ident
    """Whoever holds this token cannot agree to it."""
    expires_s: float
    pinned: Pinned = Pinned()


class ApprovalApproved(ApprovalPayload, frozen=True, kw_only=True):
    """From here on it is carried out, once; what came of it is told by `approval.carried_out`."""

    TYPE: ClassVar[str] = "approval.approved"
    token_id: Ident


class ApprovalRejected(ApprovalPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "approval.rejected"
    token_id: Ident


class ApprovalCarriedOut(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "approval.carried_out"
    ref: Ident
    outcome: Ident
    """done | refused: by then it could not be done."""
    detail: str = ""


class TokenPayload(Payload, frozen=True, kw_only=True):
    """In the stream `gateway`: about a token, never the token itself."""

    token_id: Ident
    name: str
    role: Ident
    by: str
    reason: str | None = None


class TokenMade(TokenPayload, frozen=True, kw_only=True):
    """Before it can be used."""

    TYPE: ClassVar[str] = "gateway.token.made"


class TokenRevoked(TokenPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "gateway.token.revoked"


class SessionOpened(TokenPayload, frozen=True, kw_only=True):
    """A browser signed in."""

    TYPE: ClassVar[str] = "gateway.session.opened"


class SessionEnded(TokenPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "gateway.session.ended"


class WebhookPayload(Payload, frozen=True, kw_only=True):
    """In the stream `gateway`: about somebody who is told of events, never the secret that they share."""

    webhook_id: Ident
    name: str
    url: str
    """Without path and query: keys are often kept there."""
    by: str
    reason: str | None = None


class WebhookAdded(WebhookPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "gateway.webhook.added"
    kinds: tuple[str, ...]


class WebhookRemoved(WebhookPayload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "gateway.webhook.removed"


class WebhookSwitchedOff(WebhookPayload, frozen=True, kw_only=True):
    """It could not be told for a day."""

    TYPE: ClassVar[str] = "gateway.webhook.switched_off"


# The policy and the ledger


class PolicyGeneration(Payload, frozen=True, kw_only=True):
    """In the stream `policy`: from the next step boundary on this is the policy of everybody who shares the ledger."""

    TYPE: ClassVar[str] = "policy.generation"
    policy_digest: Ident
    source: str
    """The file it came from, and whose."""


class PolicyRefused(Payload, frozen=True, kw_only=True):
    """A policy file was changed into something that cannot be used; the last good policy stays."""

    TYPE: ClassVar[str] = "policy.refused"
    source: str
    file_digest: Ident
    reason: str


class LedgerPruned(Payload, frozen=True, kw_only=True):
    """In the stream `ledger`: runs that were over before this moment were forgotten here, with all their events."""

    TYPE: ClassVar[str] = "ledger.pruned"
    before_us: int
    """On the wall clock."""


class LedgerEventsLost(Payload, frozen=True, kw_only=True):
    """In the stream `ledger`: the database lost events that it had acknowledged, or may have. Every run that was not
    over says so, too, when it is driven the next time."""

    TYPE: ClassVar[str] = "ledger.events_lost"
    loss_id: Ident
    evidence: str
    """acknowledged: an event is missing | failover: the server is on another timeline."""
    reason: str
    noticed_at: str
    runs: int
    """How many runs were not over."""
    lost_stream: Ident | None = None
    acknowledged_seq: int | None = None
    found_seq: int | None = None


PAYLOADS: dict[str, type[Payload]] = {
    payload.TYPE: payload
    for payload in (
        RunSubmitted,
        SubmissionKeyTaken,
        RunStarted,
        RunWaiting,
        RunBlocked,
        RunResumed,
        RunTakenOver,
        RunInterrupted,
        RunEventsLost,
        RunSucceeded,
        RunFailed,
        RunDeadLettered,
        RunCancelled,
        Escalated,
        AttemptStarted,
        AttemptLaunched,
        AgentSessionKnown,
        AttemptFinished,
        AttemptFailed,
        StepInvalidated,
        StepSkipped,
        SelfHealTriggered,
        SelfHealEscalated,
        SelfHealExhausted,
        ResumeFromStep,
        ControlHandled,
        WorkspaceHandedOver,
        WorkspaceChanged,
        StepReused,
        CheckpointStored,
        CheckpointIncomplete,
        CheckpointRestored,
        SecretFound,
        BrowserReset,
        PageLost,
        TargetHealed,
        TargetRejected,
        TargetLearned,
        TargetObserved,
        ScreenLearned,
        TargetTimed,
        TargetAdapted,
        MemorySnapshot,
        MemoryRollback,
        WorkflowStepResult,
        WorkflowModeChanged,
        WorkflowProbePermitted,
        WorkflowBootSeen,
        PolicyGeneration,
        PolicyRefused,
        LedgerPruned,
        LedgerEventsLost,
        ProbeStarted,
        ProbeStopped,
        PhaseChanged,
        ProcessLaunched,
        RecoveryPlanned,
        RecoveryAttempted,
        RecoverySucceeded,
        RecoveryFailed,
        EscalationDelivered,
        ChannelDowngraded,
        ChannelRestored,
        BudgetReset,
        ActionRefused,
        CommandHandled,
        ProbeReported,
        ProbeSenderChanged,
        ProbeSenderReleased,
        ProbeCommandOrdered,
        ProbeCommandHandled,
        EscalationAcknowledged,
        EscalationAssigned,
        EscalationResolved,
        EscalationMerged,
        ApprovalRequested,
        ApprovalApproved,
        ApprovalRejected,
        ApprovalCarriedOut,
        TokenMade,
        TokenRevoked,
        SessionOpened,
        SessionEnded,
        WebhookAdded,
        WebhookRemoved,
        WebhookSwitchedOff,
    )
}


class UnknownPayload(Payload, frozen=True, kw_only=True):
    """A fact that a newer version recorded; folds pass it by."""


class UnreadablePayload(Payload, frozen=True, kw_only=True):
    """Stands for a payload that cannot be decoded, where events are shown. No fold is given one."""

    reason: str


_UNKNOWN = UnknownPayload()
_OF_A_PROBE = b'{"event_id"'
"""How every payload of a probe begins: its escalations and those of runs have one name."""
_PROBE_ESCALATED = "Escalated by a probe"


def decode_payload(event_type: str, raw: bytes) -> Payload:
    of_a_probe = event_type == ProbeEscalated.TYPE and raw.startswith(_OF_A_PROBE)
    decoder = _decoder(_PROBE_ESCALATED if of_a_probe else event_type)
    return decoder.decode(raw) if decoder else _UNKNOWN


@lru_cache(maxsize=256)
def _decoder(event_type: str) -> msgspec.json.Decoder[Payload] | None:
    """Made when the first such fact is read: to make them all takes longer than to read a run."""
    payload = ProbeEscalated if event_type == _PROBE_ESCALATED else PAYLOADS.get(event_type)
    return None if payload is None else msgspec.json.Decoder(payload)
