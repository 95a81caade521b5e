"""The policy: every limit, with its unit last in the name. Everything known about a key stands on its field."""

from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec

from recoup.model.failure import FailureClass
from recoup.model.policy_key import PolicyKey, ValueRule
from recoup.model.target import HealMode

FAILURES_MAX: Final = 200
"""Maximum number of failures remembered; no policy may exceed it."""
ATTEMPTS_MAX: Final = 100
BACKOFF_FACTOR_MAX: Final = 10
MEMORY_MAX_BYTES: Final = 1 << 50
_DAY_S: Final = 86_400
_MINUTE_MS: Final = 60_000
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

ModeName = Literal["hybrid"]
"""Continuity where it is safe, caution where it is not. The only value."""
RetriedName = Annotated[str, ValueRule.RETRIED]
RedeliveredClass = Annotated[FailureClass, ValueRule.REDELIVERED]
ApprovalName = Annotated[str, ValueRule.APPROVAL]
ExitCode = Annotated[int, ValueRule.EXIT_CODE]


class IdleBy(StrEnum):
    """What counts as progress for the idle timer."""

    OUTPUT = "output"
    ACTIVITY = "activity"


class TextRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whole words that decide a class when no structured fact did. Case does not matter."""

    words: Annotated[str, PolicyKey("Whole words; case does not matter.", example="no space left on device")]
    cls: Annotated[FailureClass, PolicyKey("The class they mean.", example="deterministic_repo")] = (
        msgspec.field(name="class")
    )


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defaults ← policy file ← plan ← step. Frozen; its digest is named by every decision.

    To add a key, add its field here and use it. The file's rules, the JSON schema, the reference page, the console,
    `policy show --explain` and what-if read the field. A step sets it through a field of `Limits`.
    """

    step_max_attempts: Annotated[
        int,
        PolicyKey(
            "Maximum attempts of a step in one delivery, including the first.",
            (1, ATTEMPTS_MAX),
            replayed=True,
            opens="One step, per delivery",
        ),
    ] = 3
    step_timeout_seconds: Annotated[
        float, PolicyKey("Maximum duration of one attempt.", (0.001, 30 * _DAY_S), replayed=True)
    ] = 900
    step_idle_timeout_seconds: Annotated[
        float,
        PolicyKey("Maximum time an attempt may go without progress.", (0.001, 30 * _DAY_S), replayed=True),
    ] = 300
    step_no_progress_limit: Annotated[
        int,
        PolicyKey(
            "Number of identical failures, including the first, after which a step counts as stuck.",
            (2, ATTEMPTS_MAX),
            replayed=True,
        ),
    ] = 2
    no_progress_window: Annotated[
        int,
        PolicyKey(
            "Number of earlier attempts a failure is compared with.",
            (1, 100),
            at_least="step_no_progress_limit",
            plus=-1,
            replayed=True,
        ),
    ] = 4
    unknown_retries_max: Annotated[
        int,
        PolicyKey("Maximum retries after a failure that Recoup does not recognise.", (0, 100), replayed=True),
    ] = 1
    no_progress_gives_up: Annotated[
        bool,
        PolicyKey(
            (
                "Give up on a stuck step that cannot be reset. false: retry it until its attempts are "
                "used up, as a plan's `max_attempts` or `retry` says."
            ),
            replayed=True,
        ),
    ] = True
    retry_on: Annotated[
        tuple[RetriedName, ...],
        PolicyKey(
            (
                "Failure kinds and classes to retry. Empty: every class except the deterministic ones, "
                "which are retried only if listed here."
            ),
            replayed=True,
            example=["transient_runtime", "postcondition_failed"],
        ),
    ] = ()
    backoff_ms: Annotated[
        int, PolicyKey("Delay before the second attempt.", (0, 60 * _MINUTE_MS), replayed=True)
    ] = 500
    backoff_factor: Annotated[
        float,
        PolicyKey(
            "Multiplier for the delay before each further attempt.",
            (1, BACKOFF_FACTOR_MAX),
            replayed=True,
        ),
    ] = 2
    backoff_cap_ms: Annotated[
        int,
        PolicyKey(
            "Maximum delay between attempts.", (0, 24 * 60 * _MINUTE_MS), at_least="backoff_ms", replayed=True
        ),
    ] = 60_000
    cooldown_default_seconds: Annotated[
        float,
        PolicyKey("Delay after a rate limit that names no delay.", (0, _DAY_S), replayed=True),
    ] = 60
    cooldown_max_seconds: Annotated[
        float,
        PolicyKey(
            "Maximum delay that a rate limit may ask for.",
            (0, 7 * _DAY_S),
            at_least="cooldown_default_seconds",
            replayed=True,
        ),
    ] = 900
    stop_grace_seconds: Annotated[
        float, PolicyKey("Time a process gets to stop before it is killed.", (0, 3_600))
    ] = 5
    step_processes_max: Annotated[
        int, PolicyKey("Maximum number of processes one attempt may have at once.", (1, 1_000_000))
    ] = 4_096
    step_memory_max_bytes: Annotated[
        int,
        PolicyKey(
            (
                "Maximum memory of all processes of one attempt together; 0: nine tenths of what the "
                "machine or container has."
            ),
            (0, MEMORY_MAX_BYTES),
        ),
    ] = 0
    precheck_s: Annotated[
        float, PolicyKey("Time limit for each check before the first attempt.", (0.001, 3_600))
    ] = 5
    check_s: Annotated[float, PolicyKey("Time limit for each check after an attempt.", (0.001, _DAY_S))] = 300
    page_quiet_s: Annotated[
        float, PolicyKey("A page is at rest after this long without a change or a request.", (0.01, 2))
    ] = 0.25
    page_target_s: Annotated[
        float,
        PolicyKey(
            (
                "How long to wait for a target on a page at rest. A retry on the same page waits until "
                "five times as long has passed; a step with its own `timeout` waits until shortly before "
                "it."
            ),
            (0, 3_600),
            at_least="page_heal_s",
        ),
    ] = 5
    page_heal_s: Annotated[
        float,
        PolicyKey(
            "How long a page must have been at rest before a target is healed.",
            (0, 3_600),
        ),
    ] = 1.5
    page_check_s: Annotated[
        float, PolicyKey("How long a check waits for the page to show what it expects.", (0.1, _DAY_S))
    ] = 10
    idle_by: Annotated[
        IdleBy,
        PolicyKey("What counts as progress: output only, or also CPU time and writes in the workspace."),
    ] = IdleBy.OUTPUT
    polls: Annotated[
        bool, PolicyKey("Steps poll for something and may fail the same way many times.", replayed=True)
    ] = False

    job_self_heal_max_resets: Annotated[
        int,
        PolicyKey(
            "Maximum hard resets in one run.", (0, 100), replayed=True, opens="One run, over all deliveries"
        ),
    ] = 1
    run_retries_max: Annotated[
        int,
        PolicyKey("Maximum retries in one run, over all steps and deliveries.", (0, 10_000), replayed=True),
    ] = 20
    run_timeout_seconds: Annotated[
        float,
        PolicyKey("Maximum duration of one run, over all deliveries.", (0.001, 365 * _DAY_S), replayed=True),
    ] = 86_400
    always_grace_seconds: Annotated[
        float,
        PolicyKey("Time the `always` handlers of a step get even if the run has timed out.", (0, _DAY_S)),
    ] = 60
    takeovers_max: Annotated[
        int, PolicyKey("How often a run may lose its driver and be taken over.", (0, 1_000), replayed=True)
    ] = 5
    delivery_max: Annotated[int, PolicyKey("Maximum deliveries of one run.", (1, 100), replayed=True)] = 3
    workflow_concurrency_max: Annotated[
        int,
        PolicyKey("Maximum runs of one workflow that workers execute at once; 0: no limit.", (0, 100_000)),
    ] = 0
    queue_concurrency_max: Annotated[
        int, PolicyKey("Maximum runs of one queue that workers execute at once; 0: no limit.", (0, 100_000))
    ] = 0
    waiting_browsers_max: Annotated[
        int,
        PolicyKey(
            (
                "Maximum browsers a worker keeps open for runs that wait for a person. Beyond it, the "
                "one that has waited longest is closed first; 0: none."
            ),
            (0, 1_000),
        ),
    ] = 4
    waiting_browser_seconds: Annotated[
        float,
        PolicyKey("How long a worker keeps such a browser open; 0: close it at once.", (0, 7 * _DAY_S)),
    ] = 3_600
    redeliver_classes: Annotated[
        tuple[RedeliveredClass, ...],
        PolicyKey("Failure classes for which another delivery may help.", replayed=True),
    ] = (
        FailureClass.TRANSIENT_RUNTIME,
        FailureClass.STUCK_NO_PROGRESS,
        FailureClass.COOLDOWN,
    )

    retry_tokens: Annotated[
        float,
        PolicyKey(
            "Retry budget shared by all runs of a workflow.",
            (1, 1_000_000),
            at_least="retry_token_refund",
            replayed=True,
            opens="One workflow, over all runs",
        ),
    ] = 100
    retry_token_refund: Annotated[
        float, PolicyKey("Retry tokens that a clean step pays back.", (0, 1_000))
    ] = 0.1
    step_fail_streak_to_degraded: Annotated[
        int,
        PolicyKey(
            "Consecutive failures of one step after which its workflow is degraded.",
            (1, FAILURES_MAX),
            replayed=True,
        ),
    ] = 3
    workflow_fail_window_s: Annotated[
        float,
        PolicyKey(
            "Time window in which failed steps of a workflow are counted.", (1, 30 * _DAY_S), replayed=True
        ),
    ] = 600
    workflow_fail_max_in_window: Annotated[
        int,
        PolicyKey(
            "Number of failed steps in that window that quarantines the workflow.",
            (1, FAILURES_MAX),
            replayed=True,
        ),
    ] = 10
    workflow_count_window: Annotated[
        int,
        PolicyKey(
            "Number of latest step results to look at, however old they are.",
            (1, FAILURES_MAX),
            at_least="workflow_count_min",
            replayed=True,
        ),
    ] = 20
    workflow_count_min: Annotated[
        int,
        PolicyKey(
            "Minimum number of results; with fewer, the failure ratio is ignored.",
            (1, FAILURES_MAX),
            replayed=True,
        ),
    ] = 10
    workflow_fail_ratio: Annotated[
        float,
        PolicyKey(
            "Share of failures among the latest results that also quarantines the workflow.",
            (0.001, 1),
            replayed=True,
        ),
    ] = 0.5
    degraded_clean_steps: Annotated[
        int,
        PolicyKey(
            "Consecutive step results without a failure that end degraded mode.", (1, 10_000), replayed=True
        ),
    ] = 10
    quarantine_duration_s: Annotated[
        float, PolicyKey("How long a quarantine lasts.", (1, 30 * _DAY_S), replayed=True)
    ] = 1800
    half_open_probes: Annotated[
        int,
        PolicyKey(
            "Number of runs that may probe a workflow at a time after its quarantine.",
            (1, 100),
            replayed=True,
        ),
    ] = 1
    half_open_permit_s: Annotated[
        float,
        PolicyKey(
            "How long such a probe may take before another run may try.", (1, 30 * _DAY_S), replayed=True
        ),
    ] = 900

    global_pause: Annotated[
        bool,
        PolicyKey(
            "Pause all workflows when too many steps fail across too many of them.", opens="All workflows"
        ),
    ] = False
    global_fail_window_s: Annotated[
        float, PolicyKey("Time window in which failed steps of all workflows are counted.", (1, 30 * _DAY_S))
    ] = 600
    global_fail_max_in_window: Annotated[
        int, PolicyKey("Number of failed steps in that window that pauses all workflows.", (1, 10_000))
    ] = 30
    global_workflows_min: Annotated[
        int, PolicyKey("Number of different workflows these failures must come from.", (1, 1_000))
    ] = 3

    mode: Annotated[
        ModeName,
        PolicyKey(
            "How continuity and caution are weighed. The only value is hybrid.",
            opens="Targets, heals and learning",
        ),
    ] = "hybrid"
    min_confidence_normal: Annotated[
        float,
        PolicyKey(
            "Confidence floor: the lowest probability of being the right target that Recoup acts on.", (0, 1)
        ),
    ] = 0.72
    min_confidence_degraded: Annotated[
        float, PolicyKey("Confidence floor in degraded mode.", (0, 1), at_least="min_confidence_normal")
    ] = 0.82
    min_margin_top1_top2_degraded: Annotated[
        float, PolicyKey("Lead that the best candidate needs over the second in degraded mode.", (0, 1))
    ] = 0.08
    heal: Annotated[
        HealMode,
        PolicyKey(
            "When a target is not found as written: fail (off), report what would be chosen "
            "(report), or use it (apply)."
        ),
    ] = HealMode.APPLY
    heal_level_max: Annotated[
        int, PolicyKey("Highest tolerance level that later attempts may reach.", (0, 2))
    ] = 2
    max_heals_per_run: Annotated[int, PolicyKey("Maximum healed targets in one run.", (0, 10_000))] = 20
    max_heals_per_day: Annotated[
        int, PolicyKey("Maximum healed targets in one workflow per day.", (0, 1_000))
    ] = 100
    learned_wait_max_s: Annotated[
        float,
        PolicyKey(
            ("Longest wait for a target known to appear late; 0: no longer than for others."),
            (0, 300),
        ),
    ] = 30
    learn_confidence_min: Annotated[
        float, PolicyKey("Minimum confidence of a proven heal to be remembered.", (0.5, 1))
    ] = 0.9
    snapshot_changes: Annotated[
        int,
        PolicyKey(
            "Number of lessons after which the target memory is saved as a version to roll back to.",
            (1, 1_000),
        ),
    ] = 10
    disable_learning_in_degraded: Annotated[bool, PolicyKey("Learn nothing in degraded mode.")] = True
    rollback_on_regression: Annotated[
        bool, PolicyKey("Roll back the target memory when a workflow fails more often with it.")
    ] = True
    regression_window_steps: Annotated[
        int, PolicyKey("Number of step results compared to detect a regression.", (1, 10_000))
    ] = 50
    regression_fail_ratio: Annotated[
        float, PolicyKey("Share of failures among them from which it counts as a regression.", (0.001, 1))
    ] = 0.20
    max_versions_to_keep: Annotated[
        int, PolicyKey("Number of target memory versions to keep.", (1, 1_000))
    ] = 5

    plan_steps_max: Annotated[int, PolicyKey("Maximum steps in a plan.", (1, 10_000), opens="Sizes")] = 1_000
    plan_bytes_max: Annotated[int, PolicyKey("Maximum size of a plan file.", (_KIB, 64 * _MIB))] = 4 << 20
    log_bytes_max: Annotated[int, PolicyKey("Maximum size of the log of one step.", (_KIB, 10 * _GIB))] = (
        16 << 20
    )
    output_bytes_max: Annotated[
        int, PolicyKey("How much of a step's output is kept for checks.", (256 * _KIB, 64 * _MIB))
    ] = 4 << 20
    outputs_bytes_max: Annotated[
        int, PolicyKey("Maximum size of all outputs of one step.", (_KIB, 16 * _MIB))
    ] = 64 << 10
    evidence_bytes_max: Annotated[int, PolicyKey("Maximum size of one piece of evidence.", (_KIB, _GIB))] = (
        4 << 20
    )
    patch_bytes_max: Annotated[int, PolicyKey("Maximum size of one patch.", (_KIB, _GIB))] = 8 << 20
    checkpoint_bytes_max: Annotated[
        int, PolicyKey("Maximum size of one checkpoint.", (_KIB, 1_024 * _GIB))
    ] = 1 << 30
    workspaces_kept: Annotated[int, PolicyKey("Number of old workspaces kept as evidence.", (0, 100))] = 2
    excerpt_bytes_max: Annotated[
        int, PolicyKey("How much of a failure's text is recorded.", (256, 64 * _KIB))
    ] = 4096

    approval_required: Annotated[
        tuple[ApprovalName, ...],
        PolicyKey(
            (
                "Actions that need a second person's approval when requested over HTTP: names of "
                "controls, `mode`, `memory_rollback`, `submit`, `probe_command`."
            ),
            example=["hard_reset_step", "mode"],
            opens="What needs a second person's approval",
        ),
    ] = ()
    approval_expires_s: Annotated[
        float, PolicyKey("How long such a request waits for approval.", (1, 30 * _DAY_S))
    ] = 86_400

    exit_codes: Annotated[
        dict[ExitCode, FailureClass],
        PolicyKey(
            "Failure class for each exit code.",
            replayed=True,
            example={"75": "transient_runtime"},
            opens="Your own classification",
        ),
    ] = {}
    text_rules: Annotated[
        tuple[TextRule, ...],
        PolicyKey(
            "Words in a failure and the class they mean; checked before the built-in rules.",
            replayed=True,
            example=[{"words": "connection reset by peer", "class": "transient_runtime"}],
        ),
    ] = ()


POLICY_KEYS: Final[dict[str, PolicyKey]] = {
    name: hint.__metadata__[0] for name, hint in Policy.__annotations__.items()
}


class WrittenPolicy(msgspec.Struct, frozen=True):
    """The current contents of a policy file."""

    digest: str
    """Of the file's bytes."""
    policy: Policy | None
    """None if the file cannot be used."""
    problems: str = ""
