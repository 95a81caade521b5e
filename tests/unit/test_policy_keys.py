"""What is known of a policy key stands on its field: whoever needs it reads it there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import recoup
from recoup.documents.plan_file import plan_from_data
from recoup.kernel.policies import STEP_KEYS, step_policy
from recoup.kernel.whatif import REPLAYED
from recoup.model.policy import POLICY_KEYS, Policy
from recoup.step_function import StepOptions

SOURCE = Path(recoup.__file__).parent
READERS = [
    *(SOURCE / "documents" / name for name in ("policy_file.py", "limits_shape.py", "schemas.py")),
    SOURCE / "gateway" / "console" / "policy_views.py",
    *(SOURCE / "cli" / "rules.py", SOURCE.parents[1] / "tools" / "policy_reference.py"),
]


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.stem)
def test_who_reads_the_whole_policy_knows_no_key_by_name(path: Path) -> None:
    said = {
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {name for name in POLICY_KEYS if "_" in name} & said == set()


def test_what_if_replays_the_keys_that_say_so() -> None:
    assert {name for name, key in POLICY_KEYS.items() if key.replayed} == REPLAYED
    assert "step_max_attempts" in REPLAYED
    assert "page_quiet_s" not in REPLAYED


def test_a_key_that_must_not_be_less_than_another_names_one_that_is_there() -> None:
    bounded = {name: key for name, key in POLICY_KEYS.items() if key.at_least}
    assert len(bounded) == 7
    for name, key in bounded.items():
        assert getattr(Policy(), name) >= getattr(Policy(), key.at_least) + key.plus


@pytest.mark.parametrize("name", STEP_KEYS)
def test_a_step_sets_the_key_that_the_field_of_its_limits_names(name: str) -> None:
    key = STEP_KEYS[name]
    assert key.name in StepOptions.__annotations__
    for example in key.examples:
        steps = [{"run": "true", key.name: example}, {"run": "true"}]
        plan = plan_from_data({"version": 1, "name": "x", "steps": steps})
        first, second = (step_policy(Policy(), plan, step) for step in plan.steps)
        assert getattr(first, key.sets) == getattr(plan.steps[0].limits, name)
        assert second == Policy()


def test_every_heading_of_the_policy_stands_over_a_key() -> None:
    headings = [key.opens for key in POLICY_KEYS.values() if key.opens]
    assert next(iter(POLICY_KEYS.values())).opens == headings[0]
    assert len(headings) == len(set(headings)) == 8
