"""Every operation is there at every edge, with the same arguments. What is not has a reason."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
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


EDGES: Final = {"cli": "cli", "http": "gateway", "mcp": "mcp", "python": "api.py"}
OPERATIONS: Final[dict[str, str]] = {
    "submit": "submission.submit",
    "retry": "submission.retry bulk.change_many",
    "run here": "recording.record",
    "foresee a reuse": "recording.preview recording.preview_in_place",
    "control": "control.control control.serve",
    "change many runs": "bulk.change_many",
    "foresee a control": "control.foresee control.possible_controls",
    "list runs": "runs.list_runs runs.newest_runs",
    "count runs": "runs.count_runs runs.tallies runs.history",
    "show a run": "runs.show_run run_states.RunStates",
    "list attempts": "runs.attempts_of",
    "read events": "events.run_events_after events.run_event_pages",
    "read all streams": "events.arrivals_after",
    "read a log": "logs.show_log logs.whole_log",
    "report": "reports.run_page",
    "evidence": "evidence.evidence_of evidence.evidence_of_run",
    "show the queue": "queues.show_queue",
    "list workers": "queues.list_workers",
    "list escalations": "escalations.list_escalations",
    "acknowledge": "escalations.acknowledge",
    "assign": "escalations.assign",
    "resolve": "escalations.resolve",
    "approvals": "approvals.approval_desk",
    "list workflows": "workflows.workflows",
    "show a mode": "workflows.mode",
    "set a mode": "workflows.set_mode",
    "memory versions": "memory.versions",
    "memory diff": "memory.diff",
    "memory snapshot": "memory.snapshot",
    "memory rollback": "memory.rollback",
    "list heals": "heals.list_heals",
    "show a heal": "heals.find_heal",
    "accept a heal": "heals.accept_heal heal_acceptance.acceptance_of",
    "reject a heal": "heals.reject_heal",
    "show the policy": "policies.seen_policy policies.show_policy",
    "what if": "policies.what_if",
    "show a probe": "probes.probe_status",
    "tell a probe": "probes.tell_probe",
    "supervise": "probes.make_probe",
    "take reports of probes": "probe_reports.probe_desk",
    "export the audit": "audit.export_audit",
    "verify the audit": "audit.verify_audit audit.Audits",
    "prune": "retention.prune",
    "follow": "tail.tail_of events.end_of_run",
}
"""By what people would call them: the functions or classes of which an edge uses one."""
_DECIDED: Final = "people decide this; an agent is told what waits"
_LATER: Final = "not needed yet: the command line and HTTP have it"
_HERE: Final = "done on the machine that keeps the home, from a terminal"
LEFT_OUT: Final = {
    ("cli", "count runs"): "a shell counts: recoup runs --json | jq length",
    ("cli", "change many runs"): "a shell repeats: recoup runs --json | jq ... | xargs recoup control",
    ("cli", "list attempts"): "recoup show and recoup events tell of them",
    ("cli", "read all streams"): "recoup audit show has them, with the chain that proves them",
    ("cli", "approvals"): "with access to the ledger no second person is needed",
    ("cli", "take reports of probes"): "probes elsewhere speak HTTP",
    ("http", "run here"): "a gateway records what its workers then take",
    ("http", "foresee a reuse"): "it makes a workspace, which takes as long as it takes",
    ("http", "supervise"): _HERE,
    ("http", "export the audit"): "a gateway exports by itself, after each change",
    ("http", "prune"): _HERE,
    ("mcp", "retry"): "submit_plan with reuse",
    ("mcp", "run here"): "workers run what an agent submits",
    ("mcp", "foresee a reuse"): "it makes a workspace, which takes as long as it takes",
    ("mcp", "change many runs"): "an agent looks at each run before it ends it",
    ("mcp", "foresee a control"): "explain_failure says what can be done; a refusal says why not",
    ("mcp", "count runs"): _LATER,
    ("mcp", "read all streams"): "other runs are none of its business unless it names them",
    ("mcp", "report"): "a page for people; explain_failure has the same facts",
    ("mcp", "evidence"): "pictures and archives, which no answer may hold",
    **{("mcp", name): _DECIDED for name in ("acknowledge", "assign", "resolve", "approvals", "set a mode")},
    **{("mcp", name): _DECIDED for name in ("memory snapshot", "memory rollback")},
    **{("mcp", name): _DECIDED for name in ("accept a heal", "reject a heal")},
    ("mcp", "memory diff"): _LATER,
    ("mcp", "show a heal"): _LATER,
    ("mcp", "what if"): _LATER,
    ("mcp", "show a probe"): _LATER,
    ("mcp", "tell a probe"): _DECIDED,
    ("mcp", "supervise"): _HERE,
    ("mcp", "take reports of probes"): "probes elsewhere speak HTTP",
    ("mcp", "export the audit"): _HERE,
    ("mcp", "verify the audit"): _HERE,
    ("mcp", "prune"): _HERE,
    ("mcp", "follow"): "a tool answers once",
    **{
        ("python", name): "the Python API runs plans in the process of its caller, and nothing else"
        for name in OPERATIONS
        if name != "run here"
    },
}
"""What an edge leaves out, and why."""
PARTS: Final = {
    "audit": "follow_audit",
    "control": "answered detail_of must_have_step send sent_control",
    "escalations": "find_escalation open_count said_about show_escalation waiting_gates",
    "events": "arrivals arrivals_before event_at events_after last_arrival last_events must_answer read_events "
    "run_events_between stream_heads submission_of",
    "gateway_facts": "record_gateway_facts",
    "heal_acceptance": "patch_for shown_patch",
    "heal_reviews": "heal_reviews",
    "heals": "heals_of unsaid_heals workflow_of",
    "lookup": "exact_run",
    "memory": "known_now learnt",
    "policies": "generations policy_problem",
    "probes": "known_probes list_probes operators_of probe_world record_refusals",
    "queues": "driven_by held_runs late_s queues_taken seen_workers worker_documents",
    "recording": "recorded run_with_key",
    "reports": "run_report",
    "retention": "due retention",
    "runs": "lease_of linked_runs row_documents show_run_or_forgotten",
    "submission": "enqueue plan_of reusing_of",
    "workflows": "exact_workflow health_of modes",
}
"""Questions that are part of an operation or of a page."""


def public_names() -> set[str]:
    """What takes an `App`, in operations."""
    return {
        f"{path.stem}.{node.name}"
        for path in (SOURCE / "operations").glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and [one.arg for one in node.args.args][:1] == ["app"]
    }


def used_at(edge: str) -> set[str]:
    place = SOURCE / EDGES[edge]
    paths = [place] if place.is_file() else place.rglob("*.py")
    return {name for path in paths for name in _used_in(ast.parse(path.read_text()))}


def _used_in(tree: ast.Module) -> Iterator[str]:
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "recoup.operations":
            modules |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recoup.operations."):
            yield from (f"{(node.module or '').split('.')[-1]}.{one.name}" for one in node.names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield f"{modules[node.value.id]}.{node.attr}"


def test_every_operation_has_a_name_or_is_part_of_one() -> None:
    parts = {f"{module}.{name}" for module, names in PARTS.items() for name in names.split()}
    named = {name for names in OPERATIONS.values() for name in names.split()}
    assert not parts & named
    assert public_names() - named == parts, "add it to OPERATIONS, or to PARTS"


@pytest.mark.parametrize("edge", EDGES)
def test_every_operation_is_there_at_every_edge_or_a_reason_is(edge: str) -> None:
    used = used_at(edge)
    there = {name for name, functions in OPERATIONS.items() if used & set(functions.split())}
    excused = {name for where, name in LEFT_OUT if where == edge}
    assert OPERATIONS.keys() - there == excused, "call it, or give a reason in LEFT_OUT"


LEDGER_AT_EDGES: Final = {"cli/audit.py": "what a verification says of the ledger"}


@pytest.mark.parametrize("edge", EDGES)
def test_no_edge_asks_the_ledger(edge: str) -> None:
    place = SOURCE / EDGES[edge]
    asking = {
        str(path.relative_to(SOURCE))
        for path in ([place] if place.is_file() else place.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "ledger"
    }
    assert asking <= LEDGER_AT_EDGES.keys(), "ask an operation"


ONCE: Final = {
    "await enqueue(": {"operations/submission.py"},
    "has ever run here": {"operations/workflows.py"},
    "there is no run {run_id!r}": {"operations/run_states.py", "operations/lookup.py", "fleet/records.py"},
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
