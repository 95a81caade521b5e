"""How Recoup behaves: every limit, with its unit last in the name. All that is known of a key stands on its field."""

from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec

from recoup.model.failure import FailureClass
from recoup.model.policy_key import PolicyKey, ValueRule
from recoup.model.target import HealMode

FAILURES_MAX: Final = 200
"""So many are remembered at most; no policy may ask for more."""
ATTEMPTS_MAX: Final = 100
BACKOFF_FACTOR_MAX: Final = 10
MEMORY_MAX_BYTES: Final = 1 << 50
_DAY_S: Final = 86_400
_MINUTE_MS: Final = 60_000
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

ModeName = Literal["hybrid"]
"""Continuity where it is safe, caution where it is not: the only way of working there is."""
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
            "Tries of a step in one delivery, the first included.",
            (1, ATTEMPTS_MAX),
            replayed=True,
            opens="One step, in each delivery",
        ),
    ] = 3
    step_timeout_seconds: Annotated[
        float, PolicyKey("The longest that one attempt may take.", (0.001, 30 * _DAY_S), replayed=True)
    ] = 900
    step_idle_timeout_seconds: Annotated[
        float,
        PolicyKey(
            "The longest that one attempt may go without progress.", (0.001, 30 * _DAY_S), replayed=True
        ),
    ] = 300
    step_no_progress_limit: Annotated[
        int,
        PolicyKey(
            "So many equal failures of a step, the first included, count as stuck.",
            (2, ATTEMPTS_MAX),
            replayed=True,
        ),
    ] = 2
    no_progress_window: Annotated[
        int,
        PolicyKey(
            "How many earlier attempts a failure is compared with.",
            (1, 100),
            at_least="step_no_progress_limit",
            plus=-1,
            replayed=True,
        ),
    ] = 4
    unknown_retries_max: Annotated[
        int, PolicyKey("How often a failure that nobody recognises is tried again.", (0, 100), replayed=True)
    ] = 1
    no_progress_gives_up: Annotated[
        bool,
        PolicyKey(
            (
                "Give up on a stuck step that cannot be reset. false: retry it until its attempts are used "
                "up, as a plan's `max_attempts` or `retry` says."
            ),
            replayed=True,
        ),
    ] = True
    retry_on: Annotated[
        tuple[RetriedName, ...],
        PolicyKey(
            (
                "Kinds and classes of failure that are retried. Empty: every class but the deterministic "
                "ones, which are retried only where they are named here."
            ),
            replayed=True,
            example=["transient_runtime", "postcondition_failed"],
        ),
    ] = ()
    backoff_ms: Annotated[
        int, PolicyKey("The wait before the second attempt.", (0, 60 * _MINUTE_MS), replayed=True)
    ] = 500
    backoff_factor: Annotated[
        float,
        PolicyKey(
            "What the wait is multiplied by before each further attempt.",
            (1, BACKOFF_FACTOR_MAX),
            replayed=True,
        ),
    ] = 2
    backoff_cap_ms: Annotated[
        int,
        PolicyKey("The longest such wait.", (0, 24 * 60 * _MINUTE_MS), at_least="backoff_ms", replayed=True),
    ] = 60_000
    cooldown_default_seconds: Annotated[
        float,
        PolicyKey("The wait after a rate limit that does not say how long.", (0, _DAY_S), replayed=True),
    ] = 60
    cooldown_max_seconds: Annotated[
        float,
        PolicyKey(
            "The longest wait that a rate limit may ask for.",
            (0, 7 * _DAY_S),
            at_least="cooldown_default_seconds",
            replayed=True,
        ),
    ] = 900
    stop_grace_seconds: Annotated[
        float, PolicyKey("How long a process may take to stop before it is killed.", (0, 3_600))
    ] = 5
    step_processes_max: Annotated[
        int, PolicyKey("How many processes one attempt may have at once.", (1, 1_000_000))
    ] = 4_096
    step_memory_max_bytes: Annotated[
        int,
        PolicyKey(
            (
                "How much memory the processes of one attempt may take together; 0: nine tenths of what the "
                "machine, or the container, has."
            ),
            (0, MEMORY_MAX_BYTES),
        ),
    ] = 0
    precheck_s: Annotated[
        float, PolicyKey("The longest that one check may take before the first attempt.", (0.001, 3_600))
    ] = 5
    check_s: Annotated[
        float, PolicyKey("The longest that one check may take after an attempt.", (0.001, _DAY_S))
    ] = 300
    page_quiet_s: Annotated[
        float, PolicyKey("How long a page must neither change nor ask for anything to be at rest.", (0.01, 2))
    ] = 0.25
    page_target_s: Annotated[
        float,
        PolicyKey(
            (
                "How long a target may take to appear on a page that is at rest. A retry on the same page "
                "waits until five times that have passed; a step with its own `timeout` waits until shortly "
                "before it."
            ),
            (0, 3_600),
            at_least="page_heal_s",
        ),
    ] = 5
    page_heal_s: Annotated[
        float,
        PolicyKey(
            "How long a page must have been at rest before something else is taken for the target.",
            (0, 3_600),
        ),
    ] = 1.5
    page_check_s: Annotated[
        float, PolicyKey("The longest that a check waits for what a page should show.", (0.1, _DAY_S))
    ] = 10
    idle_by: Annotated[
        IdleBy,
        PolicyKey("What counts as progress: output only, or also CPU time and writes in the workspace."),
    ] = IdleBy.OUTPUT
    polls: Annotated[
        bool, PolicyKey("Steps wait for something and may fail the same way many times.", replayed=True)
    ] = False

    job_self_heal_max_resets: Annotated[
        int,
        PolicyKey("Hard resets in one run.", (0, 100), replayed=True, opens="One run, over all deliveries"),
    ] = 1
    run_retries_max: Annotated[
        int, PolicyKey("Retries in one run, over all steps and deliveries.", (0, 10_000), replayed=True)
    ] = 20
    run_timeout_seconds: Annotated[
        float,
        PolicyKey(
            "The longest that one run may take, over all deliveries.", (0.001, 365 * _DAY_S), replayed=True
        ),
    ] = 86_400
    always_grace_seconds: Annotated[
        float,
        PolicyKey("What the `always` of a step may take even if the run's time is used up.", (0, _DAY_S)),
    ] = 60
    takeovers_max: Annotated[
        int, PolicyKey("How often a run may lose its driver and be taken over.", (0, 1_000), replayed=True)
    ] = 5
    delivery_max: Annotated[int, PolicyKey("Deliveries of one run.", (1, 100), replayed=True)] = 3
    workflow_concurrency_max: Annotated[
        int, PolicyKey("Runs of one workflow that workers drive at once; 0: no limit.", (0, 100_000))
    ] = 0
    queue_concurrency_max: Annotated[
        int, PolicyKey("Runs of one queue that workers drive at once; 0: no limit.", (0, 100_000))
    ] = 0
    waiting_browsers_max: Annotated[
        int,
        PolicyKey(
            (
                "Browsers that one worker keeps open for runs that wait for a person; the longest waiting one"
                " is closed first; 0: none."
            ),
            (0, 1_000),
        ),
    ] = 4
    waiting_browser_seconds: Annotated[
        float,
        PolicyKey(
            "The longest that a worker keeps such a browser open; 0: it is closed at once.", (0, 7 * _DAY_S)
        ),
    ] = 3_600
    redeliver_classes: Annotated[
        tuple[RedeliveredClass, ...],
        PolicyKey("Classes of failure for which another delivery may help.", replayed=True),
    ] = (
        FailureClass.TRANSIENT_RUNTIME,
        FailureClass.STUCK_NO_PROGRESS,
        FailureClass.COOLDOWN,
    )

    retry_tokens: Annotated[
        float,
        PolicyKey(
            "The retry budget that the runs of one workflow share.",
            (1, 1_000_000),
            at_least="retry_token_refund",
            replayed=True,
            opens="One workflow, over all runs",
        ),
    ] = 100
    retry_token_refund: Annotated[float, PolicyKey("What a clean step gives back to it.", (0, 1_000))] = 0.1
    step_fail_streak_to_degraded: Annotated[
        int,
        PolicyKey(
            "So many failures of one step in a row make its workflow degraded.",
            (1, FAILURES_MAX),
            replayed=True,
        ),
    ] = 3
    workflow_fail_window_s: Annotated[
        float,
        PolicyKey("How far back failed steps of a workflow are counted.", (1, 30 * _DAY_S), replayed=True),
    ] = 600
    workflow_fail_max_in_window: Annotated[
        int,
        PolicyKey(
            "So many failed steps within that time put the workflow into quarantine.",
            (1, FAILURES_MAX),
            replayed=True,
        ),
    ] = 10
    workflow_count_window: Annotated[
        int,
        PolicyKey(
            "How many of the last step results are looked at, however long ago they were.",
            (1, FAILURES_MAX),
            at_least="workflow_count_min",
            replayed=True,
        ),
    ] = 20
    workflow_count_min: Annotated[
        int, PolicyKey("With fewer results than this they say nothing.", (1, FAILURES_MAX), replayed=True)
    ] = 10
    workflow_fail_ratio: Annotated[
        float,
        PolicyKey(
            "Such a share of failed ones among them puts the workflow into quarantine too.",
            (0.001, 1),
            replayed=True,
        ),
    ] = 0.5
    degraded_clean_steps: Annotated[
        int,
        PolicyKey(
            "So many step results in a row that did not fail end degraded mode.", (1, 10_000), replayed=True
        ),
    ] = 10
    quarantine_duration_s: Annotated[
        float, PolicyKey("How long a quarantine lasts.", (1, 30 * _DAY_S), replayed=True)
    ] = 1800
    half_open_probes: Annotated[
        int,
        PolicyKey(
            "How many runs may try at a time whether a workflow works again after its quarantine.",
            (1, 100),
            replayed=True,
        ),
    ] = 1
    half_open_permit_s: Annotated[
        float,
        PolicyKey(
            "How long such a try may take before another run may try.", (1, 30 * _DAY_S), replayed=True
        ),
    ] = 900

    global_pause: Annotated[
        bool,
        PolicyKey("Pause all workflows when too many steps fail in too many of them.", opens="All workflows"),
    ] = False
    global_fail_window_s: Annotated[
        float, PolicyKey("How far back failed steps of all workflows are counted for that.", (1, 30 * _DAY_S))
    ] = 600
    global_fail_max_in_window: Annotated[
        int, PolicyKey("So many failed steps within that time pause all workflows.", (1, 10_000))
    ] = 30
    global_workflows_min: Annotated[
        int, PolicyKey("They must be spread over so many workflows.", (1, 1_000))
    ] = 3

    mode: Annotated[
        ModeName,
        PolicyKey(
            "How continuity and caution are weighed. There is one way: hybrid.",
            opens="Targets, heals and what is learned",
        ),
    ] = "hybrid"
    min_confidence_normal: Annotated[
        float, PolicyKey("A target is acted on only if it is the right one with this probability.", (0, 1))
    ] = 0.72
    min_confidence_degraded: Annotated[
        float, PolicyKey("The same in degraded mode.", (0, 1), at_least="min_confidence_normal")
    ] = 0.82
    min_margin_top1_top2_degraded: Annotated[
        float, PolicyKey("How far the best candidate must be ahead of the second in degraded mode.", (0, 1))
    ] = 0.08
    heal: Annotated[
        HealMode,
        PolicyKey(
            "A target that is not found as written: fail (off), say what would be taken (report), or take"
            " it (apply)."
        ),
    ] = HealMode.APPLY
    heal_level_max: Annotated[
        int, PolicyKey("How tolerant later attempts may become in what they consider.", (0, 2))
    ] = 2
    max_heals_per_run: Annotated[int, PolicyKey("Targets that may be healed in one run.", (0, 10_000))] = 20
    max_heals_per_day: Annotated[
        int, PolicyKey("Targets that may be healed in one workflow within a day.", (0, 1_000))
    ] = 100
    learned_wait_max_s: Annotated[
        float,
        PolicyKey(
            ("The most that a target is waited for because it usually comes late; 0: as long as others."),
            (0, 300),
        ),
    ] = 30
    learn_confidence_min: Annotated[
        float, PolicyKey("How sure a proven heal must have been for it to be remembered.", (0.5, 1))
    ] = 0.9
    snapshot_changes: Annotated[
        int, PolicyKey("Lessons after which a version is kept that can be gone back to.", (1, 1_000))
    ] = 10
    disable_learning_in_degraded: Annotated[bool, PolicyKey("Learn nothing in degraded mode.")] = True
    rollback_on_regression: Annotated[
        bool, PolicyKey("Take back what was learned when a workflow fails more often with it.")
    ] = True
    regression_window_steps: Annotated[
        int, PolicyKey("How many step results are compared for that.", (1, 10_000))
    ] = 50
    regression_fail_ratio: Annotated[
        float, PolicyKey("The share of failed ones among them from which it counts.", (0.001, 1))
    ] = 0.20
    max_versions_to_keep: Annotated[
        int, PolicyKey("Versions of what was learned that are kept.", (1, 1_000))
    ] = 5

    plan_steps_max: Annotated[int, PolicyKey("Steps in one plan.", (1, 10_000), opens="Sizes")] = 1_000
    plan_bytes_max: Annotated[int, PolicyKey("The size of a plan file.", (_KIB, 64 * _MIB))] = 4 << 20
    log_bytes_max: Annotated[int, PolicyKey("The size of the log of one step.", (_KIB, 10 * _GIB))] = 16 << 20
    output_bytes_max: Annotated[
        int, PolicyKey("How much of what a step prints is kept for checks.", (256 * _KIB, 64 * _MIB))
    ] = 4 << 20
    outputs_bytes_max: Annotated[
        int, PolicyKey("The size of all outputs of one step.", (_KIB, 16 * _MIB))
    ] = 64 << 10
    evidence_bytes_max: Annotated[int, PolicyKey("The size of one piece of evidence.", (_KIB, _GIB))] = (
        4 << 20
    )
    patch_bytes_max: Annotated[int, PolicyKey("The size of one patch.", (_KIB, _GIB))] = 8 << 20
    checkpoint_bytes_max: Annotated[int, PolicyKey("The size of one checkpoint.", (_KIB, 1_024 * _GIB))] = (
        1 << 30
    )
    workspaces_kept: Annotated[int, PolicyKey("Old workspaces that stay as evidence.", (0, 100))] = 2
    excerpt_bytes_max: Annotated[
        int, PolicyKey("How much of the text of a failure is recorded.", (256, 64 * _KIB))
    ] = 4096

    approval_required: Annotated[
        tuple[ApprovalName, ...],
        PolicyKey(
            (
                "What a second person must agree to when it is asked for over HTTP: names of controls, "
                "`mode`, `memory_rollback`, `submit`, `probe_command`."
            ),
            example=["hard_reset_step", "mode"],
            opens="What a second person must agree to",
        ),
    ] = ()
    approval_expires_s: Annotated[
        float, PolicyKey("How long such a request waits for the second person.", (1, 30 * _DAY_S))
    ] = 86_400

    exit_codes: Annotated[
        dict[ExitCode, FailureClass],
        PolicyKey(
            "Exit codes and the class of failure that each means.",
            replayed=True,
            example={"75": "transient_runtime"},
            opens="Your own classification",
        ),
    ] = {}
    text_rules: Annotated[
        tuple[TextRule, ...],
        PolicyKey(
            "Words in a failure and the class that they mean, before the built-in rules.",
            replayed=True,
            example=[{"words": "connection reset by peer", "class": "transient_runtime"}],
        ),
    ] = ()


POLICY_KEYS: Final[dict[str, PolicyKey]] = {
    name: hint.__metadata__[0] for name, hint in Policy.__annotations__.items()
}


class WrittenPolicy(msgspec.Struct, frozen=True):
    """What a policy file says now."""

    digest: str
    """Of the file's bytes."""
    policy: Policy | None
    """None: it cannot be used."""
    problems: str = ""
