"""Policy files become policies, or all their problems at once."""

from __future__ import annotations

import ast
import contextlib
import json
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recoup
from recoup.documents.policy_file import parse_policy, read_policy
from recoup.errors import InvalidPolicy
from recoup.model.failure import FailureClass
from recoup.model.policy import POLICY_KEYS, IdleBy, Policy, TextRule

TYPES = {field.name: get_args(field.type)[0] for field in msgspec.structs.fields(Policy)}
NUMBERS = {name: kind for name, kind in TYPES.items() if kind in (int, float)}
RANGES = {name: key.range for name, key in POLICY_KEYS.items() if key.range is not None}


def problems_of(text: str | bytes) -> list[tuple[int | None, str, str]]:
    with pytest.raises(InvalidPolicy) as invalid:
        parse_policy(text, "policy.yaml")
    return [(p.line, p.where, p.message) for p in invalid.value.problems]


def test_what_is_not_said_keeps_its_default() -> None:
    assert parse_policy("{}") == Policy()
    assert parse_policy("version: 1\nstep_max_attempts: 5\n") == Policy(step_max_attempts=5)


def test_every_kind_of_key_is_read() -> None:
    policy = parse_policy(
        """
        step_timeout_seconds: 1.5
        idle_by: activity
        polls: true
        redeliver_classes: [cooldown, unknown]
        exit_codes: {75: transient_runtime, "3": deterministic_contract}
        text_rules:
          - {words: no space left, class: deterministic_repo}
        """
    )
    assert policy == Policy(
        step_timeout_seconds=1.5,
        idle_by=IdleBy.ACTIVITY,
        polls=True,
        redeliver_classes=(FailureClass.COOLDOWN, FailureClass.UNKNOWN),
        exit_codes={75: FailureClass.TRANSIENT_RUNTIME, 3: FailureClass.DETERMINISTIC_CONTRACT},
        text_rules=(TextRule(words="no space left", cls=FailureClass.DETERMINISTIC_REPO),),
    )


def test_the_document_of_a_policy_is_a_policy_file() -> None:
    policy = Policy(
        polls=True,
        exit_codes={75: FailureClass.COOLDOWN},
        text_rules=(TextRule(words="a b", cls=FailureClass.UNKNOWN),),
    )
    document = {"version": 1, **msgspec.json.decode(msgspec.json.encode(policy))}
    assert set(document) == {"version", *(field.name for field in msgspec.structs.fields(Policy))}
    assert parse_policy(json.dumps(document)) == policy


def test_every_key_has_a_description_and_every_number_a_range() -> None:
    assert set(POLICY_KEYS) == {field.name for field in msgspec.structs.fields(Policy)}
    assert all(key.description.endswith(".") for key in POLICY_KEYS.values())
    assert set(RANGES) == set(NUMBERS)
    for name, (low, high) in RANGES.items():
        assert low <= getattr(Policy(), name) <= high


@pytest.mark.parametrize("name", RANGES)
def test_numbers_outside_their_range_are_refused(name: str) -> None:
    low, high = RANGES[name]
    assert (1, name, f"must be at least {low:,}") in problems_of(f"{name}: {int(low) - 1}")
    assert (1, name, f"must be at most {high:,}") in problems_of(f"{name}: {int(high) + 1}")


@given(st.sampled_from(sorted(RANGES)), st.floats(0, 1))
def test_numbers_inside_their_range_are_taken(name: str, share: float) -> None:
    low, high = RANGES[name]
    number = low + share * (high - low)
    value = int(number) if NUMBERS[name] is int else number
    pairs = {
        "backoff_ms": "backoff_cap_ms",
        "cooldown_default_seconds": "cooldown_max_seconds",
        "step_no_progress_limit": "no_progress_window",
        "retry_token_refund": "retry_tokens",
        "workflow_count_min": "workflow_count_window",
        "min_confidence_normal": "min_confidence_degraded",
        "page_heal_s": "page_target_s",
    }
    document = {name: value}
    if name in pairs:
        document[pairs[name]] = RANGES[pairs[name]][1]
    lows = {high_key: low_key for low_key, high_key in pairs.items()}
    if name in lows:
        document[lows[name]] = RANGES[lows[name]][0]
    assert getattr(parse_policy(json.dumps(document)), name) == value


def test_all_problems_are_told_at_once_with_their_lines() -> None:
    text = """\
step_max_atempts: 3
step_timeout_seconds: "900"
backoff_ms: 70000
step_no_progress_limit: 1.5
idle_by: outptu
polls: yes
redeliver_classes: [deterministic_repo, transient]
exit_codes:
  0: cooldown
  75: sometimes
text_rules:
  - {words: "", class: unknown}
  - {words: x, clas: unknown}
delivery_max:
nonsense: 1
"""
    assert problems_of(text) == [
        (1, "step_max_atempts", "unknown key: did you mean `step_max_attempts`?"),
        (2, "step_timeout_seconds", 'must be a number, not the text "900": remove the quotes'),
        (3, "backoff_ms", "`backoff_cap_ms` (60,000) is less than `backoff_ms` (70,000): change one of them"),
        (4, "step_no_progress_limit", "must be a whole number, not a number with a fraction"),
        (5, "idle_by", "must be `output` or `activity`: did you mean `output`?"),
        (6, "polls", 'must be `true` or `false`, not the text "yes"'),
        (
            7,
            "redeliver_classes[0]",
            "a deterministic failure ends the same way every time: it is never redelivered",
        ),
        (7, "redeliver_classes[1]", _CLASSES + ": did you mean `transient_runtime`?"),
        (9, "exit_codes.0", "must be an exit code from 1 to 255 (0 is no failure)"),
        (10, "exit_codes.75", _CLASSES),
        (12, "text_rules[0].words", "must not be empty"),
        (13, "text_rules[1].class", 'is missing: add it, for example `class: "deterministic_repo"`'),
        (13, "text_rules[1].clas", "unknown key: did you mean `class`?"),
        (14, "delivery_max", "has no value: write one, or remove the key"),
        (15, "nonsense", _KEYS),
    ]


_CLASSES = (
    "must be `transient_runtime`, `stuck_no_progress`, `cooldown`, `unknown`, `deterministic_contract`, "
    "`deterministic_policy` or `deterministic_repo`"
)
_KEYS = "unknown key: the keys here are " + ", ".join(
    f"`{key}`" for key in sorted(["$schema", "version", *POLICY_KEYS])
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", (None, "", "the file is empty: write `{}` for a policy of defaults")),
        ("# nothing\n", (None, "", "the file is empty: write `{}` for a policy of defaults")),
        (
            "[1]",
            (
                1,
                "",
                "a policy is a mapping of keys such as `step_max_attempts: 3`, not a list or a single value",
            ),
        ),
        ("version: 2", (1, "version", "must be 1, the only version of this format that this Recoup reads")),
        (
            "polls: true\npolls: false",
            (2, "polls", "this key stands here twice, first on line 1: keep one of the two"),
        ),
        (b"polls: \xff\n", (1, "", "this is not UTF-8 text: save the file as UTF-8")),
        ("a: [", (1, "", "the file ends before every bracket that was opened is closed")),
        ("check_s: .nan", (1, "check_s", "must be a finite number")),
        (
            "no_progress_window: 1\nstep_no_progress_limit: 3",
            (
                1,
                "no_progress_window",
                "`no_progress_window` (1) is less than `step_no_progress_limit - 1` (2): change one of them",
            ),
        ),
    ],
)
def test_what_is_no_policy_is_refused(text: str | bytes, problem: tuple[int | None, str, str]) -> None:
    assert problems_of(text) == [problem]


def test_a_policy_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("delivery_max: 1\n")
    assert read_policy(path) == Policy(delivery_max=1)


def test_a_file_that_is_not_there_is_a_problem_like_any_other(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidPolicy, match=r"invalid policy: 1 problem in (.|\n)*there is no such file"
    ) as invalid:
        read_policy(tmp_path / "policy.yaml")
    assert invalid.value.exit_code == 3


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
KEYS = st.sampled_from([*RANGES, "exit_codes", "text_rules", "polls"]) | st.text(max_size=5)


@given(st.dictionaries(KEYS, DATA, max_size=4))
@settings(deadline=None)
def test_anything_is_a_policy_or_refused(data: dict[str, object]) -> None:
    with contextlib.suppress(InvalidPolicy):
        parse_policy(json.dumps(data))


def test_the_policy_of_the_source_document_is_accepted_as_it_stands_and_is_the_default() -> None:
    """Seed 001, section 4."""
    written = {
        "mode": "hybrid",
        "step_fail_streak_to_degraded": 3,
        "workflow_fail_window_s": 600,
        "workflow_fail_max_in_window": 10,
        "global_fail_max_in_window": 30,
        "min_confidence_normal": 0.72,
        "min_confidence_degraded": 0.82,
        "min_margin_top1_top2_degraded": 0.08,
        "disable_learning_in_degraded": True,
        "rollback_on_regression": True,
        "regression_window_steps": 50,
        "regression_fail_ratio": 0.20,
        "quarantine_duration_s": 1800,
        "max_versions_to_keep": 5,
    }
    assert parse_policy(json.dumps(written)) == Policy()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{min_confidence_normal: 0.9}", "min_confidence_degraded"),
        ("workflow_fail_window_s: 0", "must be at least 1"),
        ("quarantine_duration_s: -5", "must be at least 1"),
        ("{workflow_count_window: 5, workflow_count_min: 6}", "workflow_count_window"),
        ("mode: reckless", "hybrid"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(text: str, words: str) -> None:
    assert any(words in message for _, _, message in problems_of(text))


def test_no_key_of_the_policy_is_without_somebody_who_heeds_it() -> None:
    source = Path(recoup.__file__).parent
    heeding = [path for path in source.rglob("*.py") if path.name not in ("policy.py", "policy_file.py")]
    unread = set(Policy.__struct_fields__)
    for text in (path.read_text() for path in heeding):
        if any(f".{key}" in text for key in unread):  # to take all of them apart would take seconds
            unread -= {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    assert unread == set()
