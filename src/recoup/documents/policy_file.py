"""Policy files: YAML or JSON becomes a Policy, or InvalidPolicy with everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, Field, ValidationError, create_model

from recoup.documents.limits_shape import PROCESSES_MAX
from recoup.documents.retry_shape import RETRIED, RetriedName
from recoup.documents.shape import Shape, Text, Version
from recoup.documents.sizes import SIZE_MAX_BYTES
from recoup.documents.text_file import decoded, read_text
from recoup.documents.tree import Tree, Unreadable
from recoup.documents.wording import NO_VALUE, Finding, Vocabulary, findings, problems_of, said_beside
from recoup.documents.yaml_tree import parse_tree
from recoup.errors import InvalidPolicy
from recoup.kernel.approvals import APPROVABLE
from recoup.kernel.breaker import FAILURES_MAX
from recoup.model.failure import FailureClass
from recoup.model.policy import Policy

POLICY_BYTES_MAX = 1 << 18
"""A driver may read it between two heartbeats."""
RULES_MAX = 1_000
RULE_CHARS_MAX = 200
_DAY_S = 86_400
_MINUTE_MS = 60_000
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

RANGES: dict[str, tuple[float, float]] = {
    "step_max_attempts": (1, 100),
    "step_timeout_seconds": (0.001, 30 * _DAY_S),
    "step_idle_timeout_seconds": (0.001, 30 * _DAY_S),
    "step_no_progress_limit": (2, 100),
    "no_progress_window": (1, 100),
    "unknown_retries_max": (0, 100),
    "backoff_ms": (0, 60 * _MINUTE_MS),
    "backoff_factor": (1, 10),
    "backoff_cap_ms": (0, 24 * 60 * _MINUTE_MS),
    "cooldown_default_seconds": (0, _DAY_S),
    "cooldown_max_seconds": (0, 7 * _DAY_S),
    "stop_grace_seconds": (0, 3_600),
    "step_processes_max": (1, PROCESSES_MAX),
    "step_memory_max_bytes": (0, SIZE_MAX_BYTES),
    "precheck_s": (0.001, 3_600),
    "check_s": (0.001, _DAY_S),
    "page_quiet_s": (0.01, 2),
    "page_target_s": (0, 3_600),
    "page_heal_s": (0, 3_600),
    "page_check_s": (0.1, _DAY_S),
    "job_self_heal_max_resets": (0, 100),
    "run_retries_max": (0, 10_000),
    "run_timeout_seconds": (0.001, 365 * _DAY_S),
    "always_grace_seconds": (0, _DAY_S),
    "takeovers_max": (0, 1_000),
    "delivery_max": (1, 100),
    "workflow_concurrency_max": (0, 100_000),
    "queue_concurrency_max": (0, 100_000),
    "waiting_browsers_max": (0, 1_000),
    "waiting_browser_seconds": (0, 7 * _DAY_S),
    "retry_tokens": (1, 1_000_000),
    "retry_token_refund": (0, 1_000),
    "step_fail_streak_to_degraded": (1, FAILURES_MAX),
    "workflow_fail_window_s": (1, 30 * _DAY_S),
    "workflow_fail_max_in_window": (1, FAILURES_MAX),
    "workflow_count_window": (1, FAILURES_MAX),
    "workflow_count_min": (1, FAILURES_MAX),
    "workflow_fail_ratio": (0.001, 1),
    "degraded_clean_steps": (1, 10_000),
    "quarantine_duration_s": (1, 30 * _DAY_S),
    "half_open_probes": (1, 100),
    "half_open_permit_s": (1, 30 * _DAY_S),
    "global_fail_window_s": (1, 30 * _DAY_S),
    "global_fail_max_in_window": (1, 10_000),
    "global_workflows_min": (1, 1_000),
    "min_confidence_normal": (0, 1),
    "min_confidence_degraded": (0, 1),
    "min_margin_top1_top2_degraded": (0, 1),
    "heal_level_max": (0, 2),
    "max_heals_per_run": (0, 10_000),
    "max_heals_per_day": (0, 1_000),
    "learned_wait_max_s": (0, 300),
    "learn_confidence_min": (0.5, 1),
    "snapshot_changes": (1, 1_000),
    "regression_window_steps": (1, 10_000),
    "regression_fail_ratio": (0.001, 1),
    "max_versions_to_keep": (1, 1_000),
    "plan_steps_max": (1, 10_000),
    "plan_bytes_max": (_KIB, 64 * _MIB),
    "log_bytes_max": (_KIB, 10 * _GIB),
    "output_bytes_max": (256 * _KIB, 64 * _MIB),
    "outputs_bytes_max": (_KIB, 16 * _MIB),
    "evidence_bytes_max": (_KIB, _GIB),
    "patch_bytes_max": (_KIB, _GIB),
    "checkpoint_bytes_max": (_KIB, 1_024 * _GIB),
    "workspaces_kept": (0, 100),
    "excerpt_bytes_max": (256, 64 * _KIB),
    "approval_expires_s": (1, 30 * _DAY_S),
}
"""The lowest and the highest that each number may be."""

DESCRIPTIONS: dict[str, str] = {
    "step_max_attempts": "Tries of a step in one delivery, the first included.",
    "step_timeout_seconds": "The longest that one attempt may take.",
    "step_idle_timeout_seconds": "The longest that one attempt may go without progress.",
    "step_no_progress_limit": "So many equal failures of a step, the first included, count as stuck.",
    "no_progress_window": "How many earlier attempts a failure is compared with.",
    "unknown_retries_max": "How often a failure that nobody recognises is tried again.",
    "no_progress_gives_up": (
        "Give up on a stuck step that cannot be reset. false: retry it until its attempts are used up, as a plan's "
        "`max_attempts` or `retry` says."
    ),
    "retry_on": (
        "Kinds and classes of failure that are retried. Empty: every class but the deterministic ones, which are "
        "retried only where they are named here."
    ),
    "backoff_ms": "The wait before the second attempt.",
    "backoff_factor": "What the wait is multiplied by before each further attempt.",
    "backoff_cap_ms": "The longest such wait.",
    "cooldown_default_seconds": "The wait after a rate limit that does not say how long.",
    "cooldown_max_seconds": "The longest wait that a rate limit may ask for.",
    "stop_grace_seconds": "How long a process may take to stop before it is killed.",
    "step_processes_max": "How many processes one attempt may have at once.",
    "step_memory_max_bytes": (
        "How much memory the processes of one attempt may take together; 0: nine tenths of what the machine, or the "
        "container, has."
    ),
    "precheck_s": "The longest that one check may take before the first attempt.",
    "check_s": "The longest that one check may take after an attempt.",
    "page_quiet_s": "How long a page must neither change nor ask for anything to be at rest.",
    "page_target_s": (
        "How long a target may take to appear on a page that is at rest. A retry on the same page waits until five "
        "times that have passed; a step with its own `timeout` waits until shortly before it."
    ),
    "page_heal_s": "How long a page must have been at rest before something else is taken for the target.",
    "page_check_s": "The longest that a check waits for what a page should show.",
    "idle_by": "What counts as progress: output only, or also CPU time and writes in the workspace.",
    "polls": "Steps wait for something and may fail the same way many times.",
    "job_self_heal_max_resets": "Hard resets in one run.",
    "run_retries_max": "Retries in one run, over all steps and deliveries.",
    "run_timeout_seconds": "The longest that one run may take, over all deliveries.",
    "always_grace_seconds": "What the `always` of a step may take even if the run's time is used up.",
    "takeovers_max": "How often a run may lose its driver and be taken over.",
    "delivery_max": "Deliveries of one run.",
    "workflow_concurrency_max": "Runs of one workflow that workers drive at once; 0: no limit.",
    "queue_concurrency_max": "Runs of one queue that workers drive at once; 0: no limit.",
    "waiting_browsers_max": (
        "Browsers that one worker keeps open for runs that wait for a person; the longest waiting one is closed "
        "first; 0: none."
    ),
    "waiting_browser_seconds": "The longest that a worker keeps such a browser open; 0: it is closed at once.",
    "redeliver_classes": "Classes of failure for which another delivery may help.",
    "retry_tokens": "The retry budget that the runs of one workflow share.",
    "retry_token_refund": "What a clean step gives back to it.",
    "step_fail_streak_to_degraded": "So many failures of one step in a row make its workflow degraded.",
    "workflow_fail_window_s": "How far back failed steps of a workflow are counted.",
    "workflow_fail_max_in_window": "So many failed steps within that time put the workflow into quarantine.",
    "workflow_count_window": "How many of the last step results are looked at, however long ago they were.",
    "workflow_count_min": "With fewer results than this they say nothing.",
    "workflow_fail_ratio": "Such a share of failed ones among them puts the workflow into quarantine too.",
    "degraded_clean_steps": "So many step results in a row that did not fail end degraded mode.",
    "quarantine_duration_s": "How long a quarantine lasts.",
    "half_open_probes": "How many runs may try at a time whether a workflow works again after its quarantine.",
    "half_open_permit_s": "How long such a try may take before another run may try.",
    "global_pause": "Pause all workflows when too many steps fail in too many of them.",
    "global_fail_window_s": "How far back failed steps of all workflows are counted for that.",
    "global_fail_max_in_window": "So many failed steps within that time pause all workflows.",
    "global_workflows_min": "They must be spread over so many workflows.",
    "mode": "How continuity and caution are weighed. There is one way: hybrid.",
    "min_confidence_normal": "A target is acted on only if it is the right one with this probability.",
    "min_confidence_degraded": "The same in degraded mode.",
    "min_margin_top1_top2_degraded": "How far the best candidate must be ahead of the second in degraded mode.",
    "heal": "A target that is not found as written: fail (off), say what would be taken (report), or take it (apply).",
    "heal_level_max": "How tolerant later attempts may become in what they consider.",
    "max_heals_per_run": "Targets that may be healed in one run.",
    "max_heals_per_day": "Targets that may be healed in one workflow within a day.",
    "learned_wait_max_s": "The most that a target is waited for because it usually comes late; 0: as long as others.",
    "learn_confidence_min": "How sure a proven heal must have been for it to be remembered.",
    "snapshot_changes": "Lessons after which a version is kept that can be gone back to.",
    "disable_learning_in_degraded": "Learn nothing in degraded mode.",
    "rollback_on_regression": "Take back what was learned when a workflow fails more often with it.",
    "regression_window_steps": "How many step results are compared for that.",
    "regression_fail_ratio": "The share of failed ones among them from which it counts.",
    "max_versions_to_keep": "Versions of what was learned that are kept.",
    "plan_steps_max": "Steps in one plan.",
    "plan_bytes_max": "The size of a plan file.",
    "log_bytes_max": "The size of the log of one step.",
    "output_bytes_max": "How much of what a step prints is kept for checks.",
    "outputs_bytes_max": "The size of all outputs of one step.",
    "evidence_bytes_max": "The size of one piece of evidence.",
    "patch_bytes_max": "The size of one patch.",
    "checkpoint_bytes_max": "The size of one checkpoint.",
    "workspaces_kept": "Old workspaces that stay as evidence.",
    "excerpt_bytes_max": "How much of the text of a failure is recorded.",
    "approval_required": (
        "What a second person must agree to when it is asked for over HTTP: names of controls, `mode`, "
        "`memory_rollback`, `submit`, `probe_command`."
    ),
    "approval_expires_s": "How long such a request waits for the second person.",
    "exit_codes": "Exit codes and the class of failure that each means.",
    "text_rules": "Words in a failure and the class that they mean, before the built-in rules.",
}

_AT_LEAST: tuple[tuple[str, str, int], ...] = (
    ("backoff_cap_ms", "backoff_ms", 0),
    ("cooldown_max_seconds", "cooldown_default_seconds", 0),
    ("no_progress_window", "step_no_progress_limit", -1),
    ("retry_tokens", "retry_token_refund", 0),
    ("workflow_count_window", "workflow_count_min", 0),
    ("page_target_s", "page_heal_s", 0),
    ("min_confidence_degraded", "min_confidence_normal", 0),
)
"""The first key must not be less than the second plus so much."""


def read_policy(path: str | Path) -> Policy:
    """The policy in a file. Raises InvalidPolicy; nothing else."""
    try:
        text = read_text(Path(path), POLICY_BYTES_MAX)
    except Unreadable as unreadable:
        raise InvalidPolicy(str(path), [unreadable.problem]) from None
    return parse_policy(text, str(path))


def parse_policy(text: str | bytes, source: str = "policy") -> Policy:
    """`source` is what messages call it. Raises InvalidPolicy."""
    try:
        tree = parse_tree(decoded(text, POLICY_BYTES_MAX))
    except Unreadable as unreadable:
        raise InvalidPolicy(source, [unreadable.problem]) from None
    return _policy(tree, source)


ClassName = Literal[
    "transient_runtime",
    "stuck_no_progress",
    "cooldown",
    "unknown",
    "deterministic_contract",
    "deterministic_policy",
    "deterministic_repo",
]


def _short(words: str) -> str:
    if len(words) > RULE_CHARS_MAX:
        raise ValueError(f"is longer than {RULE_CHARS_MAX} characters: keep the words that matter")
    return words


ApprovalName: Any = Literal.__getitem__(APPROVABLE)


class TextRuleShape(Shape):
    words: Annotated[Text, AfterValidator(_short)] = Field(
        description="Whole words; case does not matter.", examples=["no space left on device"]
    )
    cls: ClassName = Field(alias="class", description="The class they mean.", examples=["deterministic_repo"])


def _exit_code(key: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,2}", key) or int(key) > 255:
        raise ValueError("must be an exit code from 1 to 255 (0 is no failure)")
    return key


def _not_deterministic(name: str) -> str:
    if FailureClass(name).is_deterministic:
        raise ValueError("a deterministic failure ends the same way every time: it is never redelivered")
    return name


_ExitCodes = dict[Annotated[str, AfterValidator(_exit_code)], ClassName]
_RedeliverClasses = list[Annotated[ClassName, AfterValidator(_not_deterministic)]]
_OTHER_TYPES: dict[str, Any] = {
    "idle_by": Literal["output", "activity"],
    "polls": bool,
    "no_progress_gives_up": bool,
    "retry_on": Annotated[list[RetriedName], Field(max_length=len(RETRIED))],
    "global_pause": bool,
    "mode": Literal["hybrid"],
    "heal": Literal["off", "report", "apply"],
    "disable_learning_in_degraded": bool,
    "rollback_on_regression": bool,
    "redeliver_classes": Annotated[_RedeliverClasses, Field(max_length=len(FailureClass))],
    "approval_required": Annotated[list[ApprovalName], Field(max_length=len(APPROVABLE))],
    "exit_codes": Annotated[_ExitCodes, Field(max_length=255)],
    "text_rules": Annotated[list[TextRuleShape], Field(max_length=RULES_MAX)],
}
_EXAMPLES: dict[str, Any] = {
    "approval_required": ["hard_reset_step", "mode"],
    "exit_codes": {"75": "transient_runtime"},
    "retry_on": ["transient_runtime", "postcondition_failed"],
    "text_rules": [{"words": "connection reset by peer", "class": "transient_runtime"}],
}


def _field(field: msgspec.structs.FieldInfo) -> tuple[Any, Any]:
    name, default = field.name, _DEFAULTS[field.name]
    about: dict[str, Any] = {
        "default": default,
        "description": DESCRIPTIONS[name],
        "examples": [_EXAMPLES.get(name, default)],
    }
    if name in _OTHER_TYPES:
        return _OTHER_TYPES[name], Field(**about)
    low, high = RANGES[name]
    return (int if field.type is int else float), Field(ge=low, le=high, **about)


_DEFAULTS: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(Policy()))
_HEAD: dict[str, Any] = {
    "editor_schema": (
        str | None,
        Field(None, alias="$schema", description="For editors only.", examples=["policy.json"]),
    ),
    "version": (Version, Field(1, description="The version of the format: 1.", examples=[1])),
}
_create: Any = create_model
PolicyShape: type[Shape] = _create(
    "PolicyShape",
    __base__=Shape,
    __doc__="How Recoup behaves. What is not said keeps its default.",
    **_HEAD,
    **{field.name: _field(field) for field in msgspec.structs.fields(Policy)},
)


_POLICY = Vocabulary(PolicyShape, {"text_rules": TextRuleShape})


def _policy(tree: Tree, source: str) -> Policy:
    if not isinstance(tree.data, dict):
        raise InvalidPolicy(source, [tree.problem((), _not_a_policy(tree.data))])
    said, found, more = _said(tree)
    found += said_beside(found, [*_without_value(tree.data), *_out_of_order(tree.data)])
    if found or tree.problems:
        raise InvalidPolicy(source, problems_of(tree, found, more))
    return msgspec.convert(said, Policy)


def _without_value(written: Mapping[str, Any]) -> list[Finding]:
    return [Finding((key,), NO_VALUE) for key, value in written.items() if value is None]


def _not_a_policy(data: Any) -> str:
    if data is None:
        return "the file is empty: write `{}` for a policy of defaults"
    return "a policy is a mapping of keys such as `step_max_attempts: 3`, not a list or a single value"


def _said(tree: Tree) -> tuple[dict[str, Any], list[Finding], int]:
    try:
        shape = PolicyShape.model_validate(tree.data)
    except ValidationError as error:
        return {}, *findings(error, _POLICY)
    said = shape.model_dump(by_alias=True, exclude_unset=True, exclude={"editor_schema", "version"})
    if "exit_codes" in said:
        said["exit_codes"] = {int(code): name for code, name in said["exit_codes"].items()}
    return said, [], 0


def _out_of_order(written: Mapping[str, Any]) -> list[Finding]:
    values = {**_DEFAULTS, **{key: value for key, value in written.items() if _in_range(key, value)}}
    return [
        Finding((low if low in written and high not in written else high,), _order(high, low, plus, values))
        for high, low, plus in _AT_LEAST
        if values[high] < values[low] + plus
    ]


def _in_range(key: str, value: Any) -> bool:
    low, high = RANGES.get(key, (0, -1))
    return isinstance(value, int | float) and low <= value <= high


def _order(high: str, low: str, plus: int, values: dict[str, Any]) -> str:
    than = f"{low} - {-plus}" if plus else low
    return f"`{high}` ({values[high]:,}) is less than `{than}` ({values[low] + plus:,}): change one of them"
