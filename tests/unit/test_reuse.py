"""What of an earlier run holds for a new one: compared by values alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.canonical import digest
from recoup.kernel.earlier import Earlier, look_back, was_good, with_family
from recoup.kernel.fold import fold
from recoup.kernel.prefix import ledger_document
from recoup.kernel.projection import rebuild
from recoup.kernel.reuse import Found, Reuse, compare, in_place, reused_fact
from recoup.model import events as ev
from recoup.model.events import Event, Payload
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import (
    AgentAction,
    ApproveAction,
    FileCheck,
    JsonCheck,
    Limits,
    Plan,
    Rebuild,
    Repeat,
    RunAction,
    Step,
)
from recoup.model.run import Verdict
from recoup.model.workspace import Baseline, Missing, Snapshot

AT = Instant(1_000_000, 1_000_000, "boot")
OWNER = ProcessIdentity("here", "boot", 1, 2)
BASELINE = Baseline(tree="t0", manifest="m0", commit="c" * 40)


def step(id: str, command: str = "", **more: Any) -> Step:
    return Step(id=id, action=RunAction(command or f"do {id}"), **more)


def plan_of(*steps: Step, **more: Any) -> Plan:
    return Plan(name="w", steps=steps, workspace=None, **more)


def args(one: Step) -> str:
    return digest(msgspec.to_builtins(one.action))


def about(plan: Plan, index: int, attempt: int | None = 1) -> dict[str, Any]:
    return {"step_id": plan.steps[index].id, "step_index": index, "attempt": attempt}


def started(plan: Plan, index: int, *, pre_state: str | None) -> ev.AttemptStarted:
    return ev.AttemptStarted(
        **about(plan, index), delivery=1, kind="run", args_digest=args(plan.steps[index]), pre_state=pre_state,
        workspace=1, inline=True,
    )  # fmt: skip


def passed(plan: Plan, index: int, verdict: Verdict = Verdict.PASSED) -> ev.AttemptFinished:
    return ev.AttemptFinished(**about(plan, index), verdict=verdict, duration_ms=1)


def failed(plan: Plan, index: int, *, outcome_known: bool = True) -> ev.AttemptFailed:
    return ev.AttemptFailed(
        **about(plan, index), failure_class=FailureClass.UNKNOWN, failure_kind=FailureKind.EXIT_NONZERO,
        facts=Facts(kind=FailureKind.EXIT_NONZERO), summary="exit 1", outcome_known=outcome_known,
    )  # fmt: skip


def cut_off(plan: Plan, index: int) -> ev.AttemptFailed:
    """A driver was lost in its handlers, which will be done again."""
    return msgspec.structs.replace(failed(plan, index), phase="rescue", not_begun=True)


def stored(plan: Plan, index: int) -> ev.CheckpointStored:
    snapshot = Snapshot(tree=f"t{index + 1}", manifest=f"m{index + 1}")
    return ev.CheckpointStored(**about(plan, index), snapshot=snapshot, workspace=1)


def performed(plan: Plan, index: int, *, managed: bool = True) -> list[Payload]:
    before = f"t{index}" if managed else None
    facts: list[Payload] = [started(plan, index, pre_state=before), passed(plan, index)]
    return [*facts, stored(plan, index)] if managed else facts


def told(plan: Plan, *facts: Payload, baseline: Baseline | None = BASELINE) -> Earlier:
    payloads: list[Payload] = [
        ev.RunSubmitted(
            workflow="w", plan_digest="p", plan=plan, plan_redacted=False, inputs={}, policy_digest="q"
        ),
        ev.RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest="q", baseline=baseline, workspace=1),
        *facts,
    ]
    events = [Event("run:old", seq, AT, fact.TYPE, fact, b"") for seq, fact in enumerate(payloads, 1)]
    return look_back(fold("old", events), plan, events)


def all_done(plan: Plan, *, managed: bool = True) -> Earlier:
    facts = [fact for index in range(len(plan.steps)) for fact in performed(plan, index, managed=managed)]
    return told(plan, *facts, baseline=BASELINE if managed else None)


def looked_at(plan: Plan) -> list[Found]:
    return [Found(args_digest=args(one)) for one in plan.steps]


def reuse(earlier: Earlier, plan: Plan, **more: Any) -> Reuse:
    return compare(earlier, plan, BASELINE, looked_at(plan), **more)


def reused(answer: Reuse) -> list[str]:
    return [one.step_id for one in answer.steps if one.reused]


ABC = plan_of(step("a"), step("b"), step("c"))


def test_an_unchanged_plan_of_a_run_that_succeeded_is_reused_whole() -> None:
    answer = reuse(all_done(ABC), ABC)
    assert (reused(answer), answer.frontier, answer.refusal) == (["a", "b", "c"], None, None)


def test_a_middle_failure_is_the_frontier_and_what_follows_says_so() -> None:
    earlier = told(ABC, *performed(ABC, 0), started(ABC, 1, pre_state="t1"), failed(ABC, 1))
    answer = reuse(earlier, ABC)
    assert reused(answer) == ["a"]
    assert [one.reason for one in answer.steps[1:]] == [
        "not good there: failed: exit 1",
        "after the frontier: b",
    ]


def test_an_appended_step_runs_only_itself() -> None:
    longer = plan_of(*ABC.steps, step("d"))
    answer = reuse(all_done(ABC), longer)
    assert reused(answer) == ["a", "b", "c"]
    assert answer.steps[3].reason == "was not in that run"


Edit = Callable[[Plan], Plan]


def replaced(index: int, **change: Any) -> Edit:
    def edit(plan: Plan) -> Plan:
        steps = list(plan.steps)
        steps[index] = msgspec.structs.replace(steps[index], **change)
        return msgspec.structs.replace(plan, steps=tuple(steps))

    return edit


def reordered(order: Sequence[int]) -> Edit:
    return lambda plan: msgspec.structs.replace(plan, steps=tuple(plan.steps[index] for index in order))


@pytest.mark.parametrize(
    ("edit", "kept", "reason"),
    [
        (replaced(1, action=RunAction("other")), ["a"], "edited since: run"),
        (replaced(1, expect=(FileCheck("x"),)), ["a"], "edited since: expect"),
        (replaced(1, env={"A": "1"}), ["a"], "edited since: env"),
        (replaced(0, action=ApproveAction("go on?")), [], "edited since: approve"),
        (replaced(2, when="true"), ["a", "b"], "edited since: when"),
        (reordered([0, 2, 1]), ["a"], "stood at another place in that run: 2"),
        (reordered([1, 2]), [], "stood at another place in that run: 1"),
        (reordered([0, 2]), ["a"], "stood at another place in that run: 2"),
    ],
)
def test_an_edited_moved_or_removed_step_ends_the_prefix(edit: Edit, kept: list[str], reason: str) -> None:
    answer = reuse(all_done(ABC), edit(ABC))
    assert reused(answer) == kept
    assert answer.steps[len(kept)].reason == reason


def test_a_title_or_a_limit_says_nothing_about_what_a_step_does() -> None:
    edited = replaced(1, title="Build it", limits=Limits(timeout_s=5))(ABC)
    assert len(reused(reuse(all_done(ABC), edited))) == 3


def test_an_agent_is_told_its_title_and_the_objective() -> None:
    agent = plan_of(Step(id="a", action=AgentAction(cli="claude", prompt="fix")), objective="green")
    for edited in (replaced(0, title="Now")(agent), msgspec.structs.replace(agent, objective="fast")):
        assert reuse(all_done(agent), edited).steps[0].reason.startswith("edited since: ")


def test_one_and_true_are_different_expectations() -> None:
    before = plan_of(step("a", expect=(JsonCheck("f", "p", equals=1),)))
    assert not reused(
        reuse(all_done(before), replaced(0, expect=(JsonCheck("f", "p", equals=True),))(before))
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"args_digest": "sha256:other", "changed": ("inputs.month",)}, "not what they were: inputs.month"),
        ({"wanted": False}, "its `when` gives another answer now"),
        ({"args_digest": None, "problem": "evidence is gone"}, "evidence is gone"),
    ],
)
def test_whatever_is_found_to_differ_ends_the_prefix(change: dict[str, Any], reason: str) -> None:
    found = looked_at(ABC)
    found[1] = msgspec.structs.replace(found[1], **change)
    answer = compare(all_done(ABC), ABC, BASELINE, found)
    assert reused(answer) == ["a"]
    assert reason in answer.steps[1].reason


def test_what_nobody_looked_at_is_not_reused() -> None:
    assert reused(compare(all_done(ABC), ABC, BASELINE, looked_at(ABC)[:2])) == ["a", "b"]


@pytest.mark.parametrize(
    ("baseline", "reason"),
    [
        (msgspec.structs.replace(BASELINE, commit="d" * 40), "another commit"),
        (msgspec.structs.replace(BASELINE, tree="t9"), "other files"),
        (msgspec.structs.replace(BASELINE, manifest="m9"), "other branches"),
        (None, "worked in a workspace"),
    ],
)
def test_another_beginning_ends_the_prefix_at_once(baseline: Baseline | None, reason: str) -> None:
    answer = compare(all_done(ABC), ABC, baseline, looked_at(ABC))
    assert not reused(answer)
    assert reason in answer.steps[0].reason


def test_a_step_that_began_from_another_state_is_not_reused() -> None:
    between = [started(ABC, 1, pre_state="t-by-hand"), passed(ABC, 1), stored(ABC, 1)]
    answer = reuse(told(ABC, *performed(ABC, 0), *between, *performed(ABC, 2)), ABC)
    assert reused(answer) == ["a"]
    assert "another state of the workspace" in answer.steps[1].reason


def test_what_an_operator_left_behind_is_not_reused_over_a_gate() -> None:
    plan = plan_of(step("a"), Step(id="gate", action=ApproveAction("go on?")), step("c"))
    changed = ev.WorkspaceChanged(workspace=1, before="t1", snapshot=Snapshot("t-by-hand", "m"))
    gate = [started(plan, 1, pre_state=None), passed(plan, 1)]
    rest = [started(plan, 2, pre_state="t1"), passed(plan, 2), stored(plan, 2)]
    answer = reuse(told(plan, *performed(plan, 0), changed, *gate, *rest), plan)
    assert reused(answer) == ["a"]
    assert answer.steps[1].reason == "an operator changed the workspace before it"


def test_without_a_checkpoint_there_is_no_way_back() -> None:
    answer = reuse(told(ABC, started(ABC, 0, pre_state="t0"), passed(ABC, 0)), ABC)
    assert answer.steps[0].reason == "it left no checkpoint"


def test_a_step_whose_always_was_not_done_is_not_reused() -> None:
    from recoup.model.plan import Handler

    plan = plan_of(step("a", always=(Handler(action=RunAction("clean")),)), step("b"))
    answer = reuse(told(plan, *performed(plan, 0)), plan)
    assert answer.steps[0].reason == "its `always` was not done there"


def test_a_file_that_the_checkpoint_lacks_is_not_brought_back() -> None:
    plan = plan_of(step("a", expect=(FileCheck("./build/out.js"),)), step("b"))
    lacks = ev.CheckpointIncomplete(
        **about(plan, 0), missing=(Missing("build/", "ignored"),), missing_count=1
    )
    earlier = told(plan, *performed(plan, 0), lacks, *performed(plan, 1))
    assert "does not hold build/" in reuse(earlier, plan).steps[0].reason
    rebuilt = replaced(0, rebuild=Rebuild.RERUN)(plan)
    again = told(rebuilt, *performed(rebuilt, 0), lacks, *performed(rebuilt, 1))
    answer = reuse(again, rebuilt)
    assert len(reused(answer)) == 2, "it is performed again after the restore"
    assert answer.steps[0].reason.endswith("its checkpoint lacks 1 path")


def test_a_masked_name_that_the_checkpoint_lacks_may_be_that_of_a_file_it_must_leave() -> None:
    plan = plan_of(step("a", expect=(FileCheck("out.js"),)), step("b"))
    lacks = ev.CheckpointIncomplete(
        **about(plan, 0), missing=(Missing("[redacted]/", "ignored"),), missing_count=1
    )
    earlier = told(plan, *performed(plan, 0), lacks, *performed(plan, 1))
    assert "a masked name" in reuse(earlier, plan).steps[0].reason


# Without a workspace


def test_without_a_workspace_only_a_look_at_the_world_proves_anything() -> None:
    plan = plan_of(step("a", expect=(FileCheck("x"),)), step("b"), step("c", expect=(FileCheck("y"),)))
    answer = compare(all_done(plan, managed=False), plan, None, looked_at(plan))
    assert reused(answer) == ["a"]
    assert answer.steps[1].reason == "nothing proves that what it left is still there"


def test_another_folder_is_another_world() -> None:
    plan = plan_of(step("a", expect=(FileCheck("x"),)))
    moved = msgspec.structs.replace(plan, folder="/elsewhere")
    answer = compare(all_done(plan, managed=False), moved, None, looked_at(moved))
    assert answer.steps[0].reason == "that run worked in another folder"


def test_an_approval_and_a_skipped_step_leave_nothing_behind_to_look_for() -> None:
    plan = plan_of(Step(id="gate", action=ApproveAction("ok?")), step("b", when="false"))
    skipped = ev.StepSkipped(**about(plan, 1, None), reason="when: false")
    earlier = told(plan, started(plan, 0, pre_state=None), passed(plan, 0), skipped, baseline=None)
    found = [Found(args_digest=args(plan.steps[0])), Found(wanted=False)]
    assert len(reused(compare(earlier, plan, None, found))) == 2
    found[1] = Found(wanted=True)
    assert len(reused(compare(earlier, plan, None, found))) == 1


# Where somebody wants it to begin


def test_from_a_step_on_everything_runs_even_if_it_could_be_reused() -> None:
    answer = reuse(all_done(ABC), ABC, from_step="b")
    assert (reused(answer), answer.refusal) == (["a"], None)
    assert answer.steps[1].reason == "asked for: --from-step b"


def test_a_beginning_after_a_step_that_cannot_be_reused_is_refused() -> None:
    answer = reuse(all_done(ABC), replaced(0, action=RunAction("other"))(ABC), from_step="c")
    assert answer.refusal == "cannot begin at c: a comes before it and cannot be reused: edited since: run"


def test_a_beginning_that_is_no_step_is_refused() -> None:
    assert reuse(all_done(ABC), ABC, from_step="z").refusal == "the plan has no step 'z'"


PAY = plan_of(step("a"), step("pay", repeat=Repeat.NEVER), step("c"))


def reasons(answer: Reuse) -> dict[str, str]:
    return {one.step_id: one.reason for one in answer.steps}


def test_a_step_that_is_done_and_must_not_be_repeated_is_never_performed_again_unasked() -> None:
    same = {"pay": {args(PAY.steps[1])}}
    for answer in (
        reuse(all_done(PAY), PAY, from_step="a", later_digests=same),
        reuse(all_done(PAY), replaced(0, env={"A": "1"})(PAY), later_digests=same),
        reuse(all_done(PAY), replaced(1, expect=(FileCheck("x"),))(PAY), later_digests=same),
        reuse(all_done(PAY), reordered([1, 0, 2])(PAY)),
    ):
        (asked,) = answer.asks
        assert (asked.step_id, answer.refusal) == ("pay", None)
        assert [one.expected for one in answer.steps if one.step_id == "pay"] == ["asked"]
        assert "was done in run old and must not be repeated" in reasons(answer)["pay"]


def test_with_other_arguments_it_is_another_deed() -> None:
    answer = reuse(all_done(PAY), PAY, from_step="a", later_digests={"pay": {"sha256:another customer"}})
    assert (answer.refusal, answer.asks) == (None, ())


def test_an_unknown_outcome_of_such_a_step_is_not_tried_again_either() -> None:
    earlier = told(
        PAY, *performed(PAY, 0), started(PAY, 1, pre_state="t1"), failed(PAY, 1, outcome_known=False)
    )
    answer = reuse(earlier, PAY)
    assert "may have been done in run old" in reasons(answer)["pay"]
    assert [deed.is_known for one in answer.asks for deed in one.deeds] == [False]
    known = told(PAY, *performed(PAY, 0), started(PAY, 1, pre_state="t1"), failed(PAY, 1))
    assert reuse(known, PAY).asks == ()


@pytest.mark.parametrize("end", [[], [cut_off(PAY, 1)]], ids=["in an attempt", "handlers are to be repeated"])
def test_nobody_is_asked_about_such_a_step_while_its_run_may_still_do_it(end: list[Payload]) -> None:
    """That it was not done would be true when it is said, and false when the linked run acts upon it."""
    facts = [*performed(PAY, 0), started(PAY, 1, pre_state="t1"), *end]
    same = {"pay": {args(PAY.steps[1])}}
    answer = reuse(told(PAY, *facts), PAY, later_digests=same)
    assert answer.refusal is not None
    assert "run old, which is linked to this one, has begun it: go on there" in answer.refusal
    assert (
        reuse(with_family(told(PAY), [told(PAY, *facts)]), PAY, later_digests=same).refusal == answer.refusal
    )
    other = reuse(told(PAY, *facts), PAY, later_digests={"pay": {"sha256:another customer"}})
    assert (other.refusal, other.asks) == (None, ())


def test_when_its_run_has_ended_or_asks_about_it_a_linked_one_asks_too() -> None:
    facts = [*performed(PAY, 0), started(PAY, 1, pre_state="t1")]
    about: dict[str, Any] = {"reason": "lost", "failure_class": None, "failure_kind": None}
    for end in (
        ev.RunDeadLettered(**about, delivery=1),
        ev.Escalated(**about, escalation_id="e", hint="look", step_id="pay"),
        failed(PAY, 1, outcome_known=False),
    ):
        answer = reuse(told(PAY, *facts, end), PAY, later_digests={"pay": {args(PAY.steps[1])}})
        assert (answer.refusal, [one.step_id for one in answer.asks]) == (None, ["pay"])


def test_what_another_run_that_goes_on_from_the_same_one_has_done_is_done() -> None:
    here = told(PAY, *performed(PAY, 0), started(PAY, 1, pre_state="t1"), failed(PAY, 1))
    answer = reuse(with_family(here, [all_done(PAY)]), PAY, later_digests={"pay": {args(PAY.steps[1])}})
    assert "was done in run old and must not be repeated" in reasons(answer)["pay"]


def test_an_operator_who_says_that_it_was_not_done_is_believed() -> None:
    settled = ev.ControlHandled(
        command_id="x", action="settle", outcome="accepted", reason="", actor="op", epoch=1, step_id="pay",
        argument="not-done",
    )  # fmt: skip
    lost = failed(PAY, 1, outcome_known=False)
    earlier = told(PAY, *performed(PAY, 0), started(PAY, 1, pre_state="t1"), lost, settled)
    assert reuse(earlier, PAY).asks == ()


# A run that goes on itself


def test_a_live_run_says_where_it_would_go_on() -> None:
    earlier = told(ABC, *performed(ABC, 0), started(ABC, 1, pre_state="t1"), failed(ABC, 1))
    assert reused(in_place(earlier.state)) == ["a"]
    answer = in_place(earlier.state, "a")
    assert (reused(answer), answer.steps[0].reason) == ([], "asked for: --from-step a")


# Properties

commands = st.sampled_from(["x", "y", "z"])
texts = st.sampled_from(["", "t"])
checks = st.sampled_from([(), (FileCheck("f"),), (FileCheck("g"),)])


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    ids = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True))
    return plan_of(
        *(step(id, draw(commands), title=draw(texts), expect=draw(checks), when=draw(whens)) for id in ids)
    )


whens = st.sampled_from([None, "true"])


@st.composite
def edits(draw: st.DrawFn, plan: Plan) -> Plan:
    """Any number of changes: edited, removed, moved and added steps."""
    steps = list(plan.steps)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(len(steps) - 1, 0)))
        kind = draw(st.sampled_from(["edit", "remove", "swap", "insert", "append", "title"]))
        unused = [id for id in "abcdefgh" if id not in {one.id for one in steps}]
        if kind == "edit" and steps:
            steps[at] = msgspec.structs.replace(
                steps[at], action=RunAction(draw(commands)), expect=draw(checks)
            )
        elif kind == "title" and steps:
            steps[at] = msgspec.structs.replace(steps[at], title="new", limits=Limits(max_attempts=9))
        elif kind == "remove" and len(steps) > 1:
            del steps[at]
        elif kind == "swap" and len(steps) > 1:
            steps[at], steps[at - 1] = steps[at - 1], steps[at]
        elif unused:
            steps.insert(at if kind == "insert" else len(steps), step(unused[0], draw(commands)))
    return msgspec.structs.replace(plan, steps=tuple(steps))


def essence(one: Step) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(one, title="", limits=Limits()))


@given(st.data())
def test_for_any_edit_what_is_reused_is_a_prefix_of_equal_steps(data: st.DataObject) -> None:
    plan = data.draw(plans())
    done = data.draw(st.integers(0, len(plan.steps)))
    edited = data.draw(edits(plan))
    earlier = told(plan, *[fact for index in range(done) for fact in performed(plan, index)])
    answer = reuse(earlier, edited)
    count = answer.count
    assert [one.reused for one in answer.steps] == [True] * count + [False] * (len(edited.steps) - count)
    assert count <= done
    for index in range(count):
        assert essence(edited.steps[index]) == essence(plan.steps[index])
        assert earlier.state.steps[index].beginning.args_digest == args(edited.steps[index])
    assert all(one.reason for one in answer.steps)
    longest = 0
    for old, new in zip(plan.steps[:done], edited.steps, strict=False):
        if essence(old) != essence(new):
            break
        longest += 1
    assert count == longest, "no more, and no less"


@given(st.data())
def test_one_thing_found_wrong_anywhere_ends_the_prefix_there(data: st.DataObject) -> None:
    plan = data.draw(plans())
    at = data.draw(st.integers(0, len(plan.steps) - 1))
    wrong = data.draw(
        st.sampled_from([Found(problem="x"), Found(args_digest="other"), Found(wanted=False), Found()])
    )
    found = [*looked_at(plan)[:at], wrong, *looked_at(plan)[at + 1 :]]
    assert compare(all_done(plan), plan, BASELINE, found).count == at


# The document


def reused_everywhere(plan: Plan, outputs: dict[str, Any]) -> list[Payload]:
    return [
        ev.StepReused(
            **about(plan, index, None), from_run_id="20261115-031240-7f3a2c", verdict="passed", kind="run",
            args_digest="sha256:" + "a" * 64, pre_state="b" * 40, evidence=("sha256:" + "c" * 64,) * 3,
            outputs=outputs, snapshot=Snapshot("d" * 40, "sha256:" + "e" * 64),
        )
        for index in range(len(plan.steps))
    ]  # fmt: skip


@pytest.mark.parametrize("outputs", [{}, {"count": 12}, {f"name{n}": "x" * 100 for n in range(20)}])
def test_the_ledger_of_a_hundred_reused_steps_fits_in_32_kb(outputs: dict[str, Any]) -> None:
    plan = plan_of(*(step(f"step-{n:03d}") for n in range(100)))
    state = told(plan, *reused_everywhere(plan, outputs)).state
    document = ledger_document(state)
    assert len(msgspec.json.encode(document)) < 32 << 10
    assert document.steps[99].reused_from == "20261115-031240-7f3a2c"
    assert (document.steps[99].args_digest or "").startswith("sha256:aaaaaaaaaaaa")


def test_the_checkpoint_of_a_reused_step_is_a_row_like_any_other() -> None:
    facts = [*reused_everywhere(plan_of(*ABC.steps[:1]), {}), ev.StepInvalidated(**about(ABC, 1, None))]
    rows = rebuild([Event("run:new", seq, AT, fact.TYPE, fact, b"") for seq, fact in enumerate(facts, 1)])
    assert [(row.step_id, row.tree, row.valid) for row in rows.checkpoints] == [("a", "d" * 40, True)]


def test_a_short_ledger_is_shown_whole_and_names_only_what_is_reused() -> None:
    state = told(ABC, *reused_everywhere(plan_of(*ABC.steps[:1]), {"n": 1})).state
    first, second, _ = msgspec.to_builtins(ledger_document(state))["steps"]
    assert first["argsDigest"] == "sha256:" + "a" * 64
    assert (first["reusedFrom"], "reusedFrom" in second) == ("20261115-031240-7f3a2c", False)
    assert state.workspaces.restore_pending, "a driver that is lost now leaves the restore to the next one"


# What is told, and what is not claimed


def test_a_dry_run_tells_what_is_reused_and_where_and_why_it_begins() -> None:
    whole = reuse(all_done(ABC), ABC).document()
    assert (whole["runId"], whole["reused"], whole["frontier"]) == ("old", ["a", "b", "c"], None)
    part = reuse(told(ABC, *performed(ABC, 0)), ABC).document()
    assert part["reused"] == ["a"]
    assert (part["frontier"]["stepId"], part["frontier"]["stepIndex"]) == ("b", 1)
    assert part["frontier"]["reason"] == part["steps"][1]["reason"] != ""


def test_a_checkpoint_that_also_holds_an_operators_change_is_not_reused() -> None:
    changed = ev.WorkspaceChanged(workspace=1, before="t1", snapshot=Snapshot("t-by-hand", "m"))
    answer = reuse(told(ABC, *performed(ABC, 0), changed, stored(ABC, 0)), ABC)
    assert not reused(answer)
    assert answer.steps[0].reason == "an operator changed the workspace before its `always` was done"


def test_a_gate_between_two_steps_does_not_hide_what_the_first_one_left() -> None:
    plan = plan_of(step("a"), Step(id="gate", action=ApproveAction("go on?")), step("c"))
    gate = [started(plan, 1, pre_state=None), passed(plan, 1)]
    rest = [started(plan, 2, pre_state="t1"), passed(plan, 2), stored(plan, 2)]
    assert reused(reuse(told(plan, *performed(plan, 0), *gate, *rest), plan)) == ["a", "gate", "c"]


@pytest.mark.parametrize(
    ("expect", "count", "reason"),
    [
        ((FileCheck("out.js"),), 1, None),
        ((FileCheck("out.js"),), 9, "its checkpoint lacks 9 paths, more than are named"),
        ((), 9, None),
    ],
)
def test_a_gap_in_a_checkpoint_matters_only_where_it_may_be_what_the_step_must_leave(
    expect: tuple[FileCheck, ...], count: int, reason: str | None
) -> None:
    plan = plan_of(step("a", expect=expect))
    lacks = ev.CheckpointIncomplete(
        **about(plan, 0), missing=(Missing("cache/", "ignored"),), missing_count=count
    )
    answer = reuse(told(plan, *performed(plan, 0), lacks), plan)
    assert reused(answer) == ([] if reason else ["a"])
    if reason:
        assert answer.steps[0].reason == reason


def test_a_step_was_good_wherever_it_stood() -> None:
    earlier = told(ABC, *performed(ABC, 0), started(ABC, 1, pre_state="t1"), failed(ABC, 1))
    assert [was_good(earlier, name) for name in ("a", "b", "c", "other")] == [True, False, False, False]


@pytest.mark.parametrize("skipped", [True, False])
def test_what_was_reused_was_done_unless_it_was_skipped(skipped: bool) -> None:
    taken = ev.StepReused(
        **about(ABC, 0, None),
        from_run_id="older",
        verdict=Verdict.PASSED,
        kind="run",
        args_digest="a",
        pre_state=None,
        skipped=skipped,
    )
    assert ("a" in told(ABC, taken).performed) is not skipped


def test_a_reused_step_that_left_no_checkpoint_makes_no_row_of_one() -> None:
    taken = ev.StepReused(
        **about(ABC, 0, None),
        from_run_id="older",
        verdict=Verdict.PASSED,
        kind="run",
        args_digest="a",
        pre_state=None,
    )
    first = ev.RunSubmitted(
        workflow="w", plan_digest="p", plan=ABC, plan_redacted=False, inputs={}, policy_digest="q"
    )
    facts: list[Payload] = [first, stored(ABC, 0), taken]
    events = [Event("run:r", seq, AT, fact.TYPE, fact, b"") for seq, fact in enumerate(facts, 1)]
    assert [row.valid for row in rebuild(events).checkpoints] == [False]


def test_a_large_output_is_shown_as_its_size_and_digest() -> None:
    large = "x" * 300
    done = ev.AttemptFinished(
        **about(ABC, 0), verdict="passed", duration_ms=1, outputs={"small": "y", "large": large}
    )
    shown = ledger_document(told(ABC, started(ABC, 0, pre_state="t0"), done).state).steps[0].outputs
    digest_of = hashlib.sha256(f'"{large}"'.encode()).hexdigest()
    assert shown == {"small": "y", "large": {"bytes": 302, "digest": f"sha256:{digest_of}"}}


def test_an_incomplete_checkpoint_may_lack_a_file_that_is_named_by_a_value() -> None:
    plan = plan_of(step("a", expect=(FileCheck("${{ inputs.out }}"),)), step("b"))
    lacks = ev.CheckpointIncomplete(
        **about(plan, 0), missing=(Missing("build/", "ignored"),), missing_count=1
    )
    earlier = told(plan, *performed(plan, 0), lacks, *performed(plan, 1))
    assert "named by a value" in reuse(earlier, plan).steps[0].reason


def test_a_reused_step_names_the_run_that_performed_it() -> None:
    state = all_done(ABC).state
    fact = reused_fact(state, state.steps[0])
    assert (fact.step_id, fact.from_run_id, fact.attempt) == ("a", "old", None)
    assert (fact.verdict, fact.args_digest, fact.snapshot) == (
        state.steps[0].verdict,
        args(ABC.steps[0]),
        state.steps[0].results.checkpoint,
    )
    again = msgspec.structs.replace(state.steps[0], reused_from="oldest")
    assert reused_fact(state, again).from_run_id == "oldest"
