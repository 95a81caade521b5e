"""How Recoup behaves: every limit, with its default and its unit last in the name."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from recoup.model.failure import FailureClass
from recoup.model.target import HealMode

ModeName = Literal["hybrid"]
"""Continuity where it is safe, caution where it is not: the only way of working there is."""


class IdleBy(StrEnum):
    """What counts as progress for the idle timer."""

    OUTPUT = "output"
    ACTIVITY = "activity"


class TextRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whole words that decide a class when no structured fact did. Case does not matter."""

    words: str
    cls: FailureClass = msgspec.field(name="class")


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defaults ← policy file ← plan ← step. Frozen; its digest is named by every decision."""

    # One step, per delivery
    step_max_attempts: int = 3
    step_timeout_seconds: float = 900
    step_idle_timeout_seconds: float = 300
    step_no_progress_limit: int = 2
    no_progress_window: int = 4
    unknown_retries_max: int = 1
    no_progress_gives_up: bool = True
    retry_on: tuple[str, ...] = ()
    """Kinds and classes of failure; empty: every one that may pass by itself."""
    backoff_ms: int = 500
    backoff_factor: float = 2
    backoff_cap_ms: int = 60_000
    cooldown_default_seconds: float = 60
    cooldown_max_seconds: float = 900
    stop_grace_seconds: float = 5
    step_processes_max: int = 4_096
    step_memory_max_bytes: int = 0
    """Of all processes of an attempt together; 0: nine tenths of the memory that this machine has for us."""
    precheck_s: float = 5
    check_s: float = 300
    page_quiet_s: float = 0.25
    page_target_s: float = 5
    page_heal_s: float = 1.5
    page_check_s: float = 10
    idle_by: IdleBy = IdleBy.OUTPUT
    polls: bool = False

    # One run, over all deliveries
    job_self_heal_max_resets: int = 1
    run_retries_max: int = 20
    run_timeout_seconds: float = 86_400
    always_grace_seconds: float = 60
    takeovers_max: int = 5
    delivery_max: int = 3
    workflow_concurrency_max: int = 0
    """Runs of one workflow that workers drive at once; 0: as many as there are slots."""
    queue_concurrency_max: int = 0
    waiting_browsers_max: int = 4
    waiting_browser_seconds: float = 3_600
    redeliver_classes: tuple[FailureClass, ...] = (
        FailureClass.TRANSIENT_RUNTIME,
        FailureClass.STUCK_NO_PROGRESS,
        FailureClass.COOLDOWN,
    )

    # One workflow, over all runs
    retry_tokens: float = 100
    retry_token_refund: float = 0.1
    step_fail_streak_to_degraded: int = 3
    workflow_fail_window_s: float = 600
    workflow_fail_max_in_window: int = 10
    workflow_count_window: int = 20
    workflow_count_min: int = 10
    workflow_fail_ratio: float = 0.5
    degraded_clean_steps: int = 10
    quarantine_duration_s: float = 1800
    half_open_probes: int = 1
    half_open_permit_s: float = 900

    # All workflows
    global_pause: bool = False
    global_fail_window_s: float = 600
    global_fail_max_in_window: int = 30
    global_workflows_min: int = 3

    # Which candidate of a target is accepted, and what is learned from it
    mode: ModeName = "hybrid"
    min_confidence_normal: float = 0.72
    min_confidence_degraded: float = 0.82
    min_margin_top1_top2_degraded: float = 0.08
    heal: HealMode = HealMode.APPLY
    heal_level_max: int = 2
    max_heals_per_run: int = 20
    max_heals_per_day: int = 100
    learned_wait_max_s: float = 30
    learn_confidence_min: float = 0.9
    snapshot_changes: int = 10
    disable_learning_in_degraded: bool = True
    rollback_on_regression: bool = True
    regression_window_steps: int = 50
    regression_fail_ratio: float = 0.20
    max_versions_to_keep: int = 5

    # Sizes
    plan_steps_max: int = 1_000
    plan_bytes_max: int = 4 << 20
    log_bytes_max: int = 16 << 20
    output_bytes_max: int = 4 << 20
    outputs_bytes_max: int = 64 << 10
    evidence_bytes_max: int = 4 << 20
    patch_bytes_max: int = 8 << 20
    checkpoint_bytes_max: int = 1 << 30
    workspaces_kept: int = 2
    excerpt_bytes_max: int = 4096

    # What one person asks for over HTTP and another must agree to
    approval_required: tuple[str, ...] = ()
    approval_expires_s: float = 86_400

    # The user's own classification, before the built-in rules
    exit_codes: dict[int, FailureClass] = {}
    text_rules: tuple[TextRule, ...] = ()


class WrittenPolicy(msgspec.Struct, frozen=True):
    """What a policy file says now."""

    digest: str
    """Of the file's bytes."""
    policy: Policy | None
    """None: it cannot be used."""
    problems: str = ""
