"""What went wrong: the symptom, its class, and the facts both were read from."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from recoup.model.ident import Ident


class FailureKind(StrEnum):
    """The symptom, as a runtime or a check saw it."""

    EXIT_NONZERO = "exit_nonzero"
    SIGNALLED = "signalled"
    WALL_TIMEOUT = "wall_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    WATCHDOG = "watchdog"
    CONNECTION_LOST = "connection_lost"
    DRIVER_LOST = "driver_lost"
    SPAWN_FAILED = "spawn_failed"
    OUT_OF_MEMORY = "out_of_memory"
    TOO_MANY_PROCESSES = "too_many_processes"
    DISK_FULL = "disk_full"
    MACHINE_TROUBLE = "machine_trouble"
    RATE_LIMITED = "rate_limited"
    EXCEPTION = "exception"
    AGENT_ERROR = "agent_error"
    TOOL_DENIED = "tool_denied"
    POSTCONDITION_FAILED = "postcondition_failed"
    OUTPUT_INVALID = "output_invalid"
    SECRET_UNDECLARED = "secret_undeclared"
    INVALID_INPUT = "invalid_input"
    WORKSPACE_BROKEN = "workspace_broken"
    TARGET_NOT_FOUND = "target_not_found"
    LOW_CONFIDENCE = "low_confidence"
    RUNTIME_DRIFT = "runtime_drift"
    TARGET_AMBIGUOUS = "target_ambiguous"
    HEAL_REFUSED = "heal_refused"
    TARGET_BLOCKED = "target_blocked"
    BROWSER_CRASHED = "browser_crashed"
    NAVIGATION_FAILED = "navigation_failed"
    HTTP_ERROR = "http_error"
    DIALOG_BLOCKED = "dialog_blocked"
    DOWNLOAD_STALLED = "download_stalled"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    RESET_REQUESTED = "reset_requested"
    HARD_RESET_REQUESTED = "hard_reset_requested"

    @property
    def is_excess(self) -> bool:
        """Killed for what it took itself, whatever it has said or waited for before."""
        return self in (FailureKind.OUT_OF_MEMORY, FailureKind.TOO_MANY_PROCESSES)


class FailureClass(StrEnum):
    """What follows from the symptom: whether trying again can help."""

    TRANSIENT_RUNTIME = "transient_runtime"
    STUCK_NO_PROGRESS = "stuck_no_progress"
    COOLDOWN = "cooldown"
    UNKNOWN = "unknown"
    DETERMINISTIC_CONTRACT = "deterministic_contract"
    DETERMINISTIC_POLICY = "deterministic_policy"
    DETERMINISTIC_REPO = "deterministic_repo"

    @property
    def is_deterministic(self) -> bool:
        return self.value.startswith("deterministic_")


class Facts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Every input of the classifier, as recorded with the failed attempt, so that it can be classified again."""

    kind: FailureKind
    exit_code: int | None = None
    signal: int | None = None
    exception: str | None = None
    agent_event: str | None = None
    retry_after_s: float | None = None
    duration_ms: int = 0
    idle_ms: int = 0
    output_hash: Ident | None = None
    diff_hash: Ident | None = None
    excerpt: str = ""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A failed attempt in the kernel's terms."""

    kind: FailureKind
    cls: FailureClass
    signature: str
    summary: str
    facts: Facts
    outcome_known: bool = True
    tolerance_level: int = 0
