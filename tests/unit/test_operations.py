"""Every operation is there at every edge, with the same arguments. What is not has a reason."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Final

import pytest

from recoup.cli.submit import submit
from recoup.errors import NotFound
from recoup.gateway.runs import submit_request
from recoup.gateway.shapes import RunRequest
from recoup.mcp.outside import Tools
from recoup.model.instant import Instant
from recoup.model.plan import Plan, RunAction, Step
from recoup.model.run import RunState, StepRecord, Submission
from recoup.model.vector import Vector
from recoup.operations.cursor import cursor_of, read_cursor, read_run_cursor
from recoup.operations.lookup import step_index
from recoup.operations.submission import PlanAccess, SubmitRequest, mistake_in

SOURCE = Path(__file__).parents[2] / "src" / "recoup"
ARGUMENTS: Final = frozenset(SubmitRequest.__struct_fields__)
SPELLED: Final = {"cli": {"plan_path": "plan", "inputs": "inputs", "reuse": "reuse_name", "delay_s": "at"}}
"""Where an edge calls an argument otherwise."""
MISSING: Final = {
    ("cli", "plan"): "a terminal names a file",
}
"""What an edge does not take, and why."""


def names_at(edge: str) -> frozenset[str]:
    spelled = SPELLED.get(edge, {})
    taken = {
        "cli": {param.name for param in submit.params},
        "http": set(RunRequest.model_fields),
        "mcp": set(inspect.signature(Tools.submit_plan).parameters),
    }[edge]
    by_words = {word: name for name, word in spelled.items()}
    return frozenset(by_words.get(str(name), str(name)) for name in taken)


@pytest.mark.parametrize("edge", ["cli", "http", "mcp"])
def test_a_submission_takes_the_same_arguments_at_every_edge(edge: str) -> None:
    excused = {name for where, name in MISSING if where == edge}
    assert ARGUMENTS - names_at(edge) == excused, "add an option, or a reason to MISSING"


def test_what_http_was_given_is_what_is_submitted() -> None:
    given = RunRequest.model_validate(
        {"plan": "p", "needs": ["gpu"], "priority": 3, "delayS": 1.5, "heal": "off", "reason": "why"}
    )
    request = submit_request(given, "http:1")
    assert request == SubmitRequest(
        plan="p", needs=("gpu",), priority=3, delay_s=1.5, heal="off", reason="why", dedup_key="http:1"
    )


ONCE: Final = {
    ".submit_queued(": {"operations/submission.py", "runs/submitting.py"},
    "has ever run here": {"operations/workflows.py"},
    "there is no run {run_id!r}": {"gateway/run_states.py", "operations/lookup.py", "runs/records.py"},
    "mode_document(": {"kernel/modes.py", "operations/workflows.py"},
}
"""What an operation does, and the only files that may do it."""


@pytest.mark.parametrize("words", ONCE)
def test_what_an_operation_does_is_done_nowhere_else(words: str) -> None:
    files = (path for path in SOURCE.rglob("*.py") if words in path.read_text())
    assert {str(path.relative_to(SOURCE)) for path in files} == ONCE[words]


async def _never(_text: str, _policy: object) -> Plan:
    raise AssertionError("nothing is read to see what is wrong with a request")


@pytest.mark.parametrize(
    ("request_", "message", "forbidden"),
    [
        (SubmitRequest(plan="p", plan_path="/x"), "plan and planPath are two plans", False),
        (SubmitRequest(plan="p", from_step="a"), "from_step says what is reused", False),
        (SubmitRequest(), "there is no plan", False),
        (SubmitRequest(plan="p"), "plans are taken from certain folders only", True),
        (SubmitRequest(plan_path="x.yaml"), "planPath must begin with /", False),
        (SubmitRequest(plan_path="/etc/plan.yaml"), "planPath is in none of the folders", True),
    ],
)
def test_a_request_that_does_not_fit_together_is_refused_in_the_words_of_its_edge(
    request_: SubmitRequest, message: str, forbidden: bool, tmp_path: Path
) -> None:
    access = PlanAccess(parse_text=_never, folders=(tmp_path,), plan_path="planPath")
    mistake = mistake_in(request_, access)
    assert mistake is not None and mistake.message.startswith(message) and mistake.forbidden is forbidden


def test_a_plan_in_an_allowed_folder_a_relative_one_and_an_earlier_one_are_taken(tmp_path: Path) -> None:
    inside = SubmitRequest(plan_path=str(tmp_path / "plan.yaml"))
    assert mistake_in(inside, PlanAccess(parse_text=_never, folders=(tmp_path,))) is None
    at_home = PlanAccess(parse_text=_never, base=tmp_path)
    assert mistake_in(SubmitRequest(plan_path="plan.yaml"), at_home) is None
    assert mistake_in(SubmitRequest(reuse="r", from_step="a"), at_home) is None


def test_a_step_is_named_by_its_id_or_its_index() -> None:
    plan = Plan(name="w", steps=tuple(Step(id=name, action=RunAction("x")) for name in ("a", "b")))
    steps = Vector.of([StepRecord("a", 0, "run"), StepRecord("b", 1, "run")])
    state = RunState("r", "w", plan, Submission(Instant(0, 0, ""), "", False, ""), steps=steps)
    assert (step_index(state, "b"), step_index(state, "0")) == (1, 0)
    with pytest.raises(NotFound, match="no step 'c'"):
        step_index(state, "c")


def test_a_place_in_the_list_of_runs_is_read_as_any_edge_has_written_it() -> None:
    assert read_run_cursor(cursor_of(12, "run-1")) == (12, "run-1")
    assert read_run_cursor("12:run-1") == (12, "run-1"), "as MCP gave it out before"
    for strange in ("?", "x" * 500, ":run", "12:", cursor_of("run", 12), cursor_of(1)):
        with pytest.raises(ValueError):
            read_run_cursor(strange)
    assert read_cursor(cursor_of("w"), tuple[str]) == ("w",)
