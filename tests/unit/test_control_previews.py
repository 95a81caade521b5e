"""What a control would do is said before it is done, and exactly."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.altered import altered

from recoup.kernel.approvals import standing
from recoup.kernel.controls import CONTROLS
from recoup.kernel.fold import advance, submitted
from recoup.kernel.preview import Preview, preview, previews, previews_of_step, previews_of_unknown_step
from recoup.model import events as ev
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import (
    ApproveAction,
    BrowserAction,
    BrowserVerb,
    Plan,
    Repeat,
    RunAction,
    Step,
)
from recoup.model.policy import Policy
from recoup.model.run import Base, RunState, Unreadable
from recoup.model.storage import Control
from recoup.model.vector import Vector
from recoup.model.workspace import Baseline, GitSource, Snapshot

NOW = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")
OWNER = ProcessIdentity("host", "boot", 1, 1)
TREE = Snapshot("a" * 40, "m")


def step(name: str, **more: Any) -> Step:
    return Step(**{"id": name, "action": RunAction("x"), **more})


def run(*steps: Step, queue: str | None = "default", workspace: bool = False) -> RunState:
    first = ev.RunSubmitted(
        workflow="w",
        plan_digest="d",
        plan=Plan(name="w", steps=steps, workspace=GitSource("/source") if workspace else None),
        plan_redacted=False,
        inputs={},
        policy_digest="p",
        queue=queue,
    )
    return submitted("r", first, NOW)


def told(state: RunState, *facts: ev.Payload) -> RunState:
    for fact in facts:
        state = advance(state, fact, NOW, state.seq + 1)
    return state


def begun(*steps: Step, workspace: bool = False, queue: str | None = "default") -> RunState:
    baseline = Baseline("t" * 40, "m") if workspace else None
    start = ev.RunStarted(
        delivery=1, epoch=1, owner=OWNER, policy_digest="p", baseline=baseline,
        workspace=1 if workspace else None,
    )  # fmt: skip
    return told(run(*steps, queue=queue, workspace=workspace), start)


def tried(name: str, index: int, attempt: int = 1) -> ev.AttemptStarted:
    return ev.AttemptStarted(
        step_id=name, step_index=index, attempt=attempt, delivery=1, kind="run", args_digest="d",
        pre_state=None, workspace=None, inline=True,
    )  # fmt: skip


def passed(name: str, index: int, *, checkpoint: bool = False) -> list[ev.Payload]:
    end = ev.AttemptFinished(step_id=name, step_index=index, attempt=1, verdict="passed", duration_ms=1)
    kept = ev.CheckpointStored(step_id=name, step_index=index, attempt=1, snapshot=TREE, workspace=1)
    return [tried(name, index), end, *([kept] if checkpoint else [])]


def paused() -> ev.RunWaiting:
    return ev.RunWaiting(reason="paused", waiting_for="operator")


def handled(action: str, **more: Any) -> ev.ControlHandled:
    return ev.ControlHandled(
        **{"command_id": "c", "action": action, "outcome": "accepted", "reason": "", "actor": "ann"},
        epoch=1,
        **more,
    )


def of(
    state: RunState,
    action: str,
    step_id: str | None = None,
    argument: str | None = None,
    *,
    driven: bool = True,
) -> Preview:
    wish = Control(
        id="", run_id="r", action=action, reason="", actor="", at=NOW, step_id=step_id, argument=argument
    )
    return preview(state, wish, Policy(), driven)


def words(seen: Preview) -> str:
    assert seen.allowed, seen.why
    return " ".join(seen.scope.words)


THREE = (step("a"), step("b"), step("c"))


def test_a_pause_lets_the_attempt_under_way_end_where_somebody_drives_it() -> None:
    state = told(begun(*THREE), tried("a", 0))
    assert words(of(state, "pause")).startswith("Attempt 1 of a goes on to its end; then the run waits")
    assert of(state, "pause").scope.ends == ()
    assert words(of(state, "pause", driven=False)).startswith("The run waits for you from now on")


def test_resuming_says_where_and_who_goes_on() -> None:
    state = told(begun(*THREE), *passed("a", 0), handled("pause"), paused())
    assert words(of(state, "resume")) == "The run goes on at b. Nothing that is proven is done again."
    assert words(of(state, "resume", driven=False)).endswith("A worker of the queue default takes it up.")
    alone = told(begun(*THREE, queue=None), handled("pause"), paused())
    assert words(of(alone, "resume", driven=False)).endswith("recoup resume r goes on.")


def test_what_somebody_changed_during_a_takeover_is_kept_when_the_run_goes_on() -> None:
    state = told(begun(*THREE, workspace=True), handled("takeover"), paused())
    assert "What you changed in the workspace is kept" in words(of(state, "resume"))


@pytest.mark.parametrize("action", ["takeover", "retry_step", "cancel"])
def test_what_ends_an_attempt_names_it(action: str) -> None:
    state = told(begun(*THREE), *passed("a", 0), tried("b", 1))
    seen = of(state, action)
    assert [(one.step_id, one.attempt) for one in seen.scope.ends] == [("b", 1)]
    assert words(seen).startswith("Attempt 1 of b is ended now, with all its processes.")
    assert seen.scope.restores is None


def test_a_step_is_tried_again_without_a_new_workspace_and_a_pause_is_taken_back() -> None:
    state = told(begun(*THREE), handled("pause"), paused())
    assert "a is tried again at once" in words(of(state, "retry_step"))
    assert "The pause is taken back." in words(of(state, "retry_step"))


def test_a_hard_reset_says_what_the_workspace_is_brought_back_to() -> None:
    state = begun(*THREE, workspace=True)
    assert of(state, "hard_reset_step").scope.restores == "the beginning"
    state = told(state, *passed("a", 0, checkpoint=True), *passed("b", 1))
    assert of(state, "hard_reset_step").scope.restores == "the end of a"
    assert "counts as one of the run's resets" in words(of(state, "hard_reset_step"))
    state = altered(state, workspaces__base=Base(2, TREE))
    assert of(state, "hard_reset_step").scope.restores == "what an operator left before c"
    state = altered(state, workspaces__base=Base(3, TREE))
    assert of(state, "hard_reset_step").scope.restores == "the end of a"
    state = told(state, handled("pause"), paused())
    assert "The run stays paused" in words(of(state, "hard_reset_step"))


def test_a_hard_reset_without_a_workspace_makes_the_page_again() -> None:
    pages = (
        Step(id="go", action=BrowserAction(verb=BrowserVerb.GOTO, value="/")),
        Step(id="click", action=BrowserAction(verb=BrowserVerb.CLICK)),
    )
    state = told(begun(*pages), *passed("go", 0))
    seen = of(state, "hard_reset_step")
    assert seen.scope.again == ("go",) and seen.scope.restores == "a new browser"
    assert "A new browser; go is performed there once more" in words(seen)


def test_a_hard_reset_with_a_workspace_and_a_page_makes_both_again() -> None:
    pages = (
        step("a"),
        Step(id="go", action=BrowserAction(verb=BrowserVerb.GOTO, value="/")),
        Step(id="click", action=BrowserAction(verb=BrowserVerb.CLICK)),
    )
    state = begun(*pages, workspace=True)
    state = told(state, *passed("a", 0, checkpoint=True), *passed("go", 1, checkpoint=True))
    seen = of(state, "hard_reset_step")
    assert seen.scope.again == ("go",) and seen.scope.restores == "the end of a"
    assert "A new browser; go is performed there once more" in words(seen)


def test_beyond_the_budget_only_a_forced_reset_is_offered() -> None:
    state = begun(*THREE, workspace=True)
    state = told(state, *[handled("hard_reset_step") for _ in range(Policy().job_self_heal_max_resets)])
    plain, forced = (
        of(state, "hard_reset_step"),
        of(state, "hard_reset_step", argument="force"),
    )
    assert not plain.allowed and "job_self_heal_max_resets" in plain.why and plain.scope.words == ()
    assert forced.force and "does not count among the run's resets" in words(forced)
    offered = [one for one in previews(state, Policy(), True) if one.action == "hard_reset_step"]
    assert [(one.force, one.allowed) for one in offered] == [(False, False), (True, True)]


def test_going_back_names_the_steps_that_are_performed_again_and_those_that_stay() -> None:
    names = "abcdefg"
    state = begun(*[step(name) for name in names], workspace=True)
    for index, name in enumerate(names[:6]):
        state = told(state, *passed(name, index, checkpoint=True))
    state = told(state, handled("pause"), paused())
    seen = of(state, "resume_from_step", "b")
    assert seen.scope.again == ("b", "c", "d", "e", "f") and seen.scope.again_count == 5
    assert seen.scope.restores == "the end of a"
    assert "b, c … f (5 steps): what they did counts no more" in words(seen)
    assert "The first of 7 steps stays." in words(seen)
    assert "f: what it did counts no more, and it is performed again." in words(
        of(state, "resume_from_step", "f")
    )
    first = of(state, "resume_from_step", "a")
    assert first.scope.restores == "the beginning" and "No step stays." in words(first)
    edge = of(state, "resume_from_step", "g")
    assert edge.scope.again == () and edge.scope.restores == "the end of f"


def test_without_a_workspace_going_back_leaves_everything_where_it_is() -> None:
    state = told(begun(*THREE), *passed("a", 0), handled("pause"), paused())
    assert "The workspace is left as it is." in words(of(state, "resume_from_step", "a"))


def at_a_gate(*after: Step) -> RunState:
    gate = Step(id="ask", action=ApproveAction("Release?"))
    state = told(begun(step("a"), gate, *after), *passed("a", 0))
    return told(state, ev.RunWaiting(reason="Release?", step_id="ask", waiting_for="approval"))


def test_an_approval_says_what_follows_and_a_rejection_that_the_run_ends() -> None:
    assert "The run goes on with z." in words(of(at_a_gate(step("z")), "approve", "ask"))
    assert "The run has then succeeded." in words(of(at_a_gate(), "approve", "ask"))
    rejected = of(at_a_gate(), "reject", "ask")
    assert rejected.scope.ends_run and "ends as failed" in words(rejected)
    assert "The first of 2 steps stays proven" in words(rejected)


def escalated() -> RunState:
    state = begun(step("pay", repeat=Repeat.NEVER), step("b"))
    return told(
        state, ev.Escalated(escalation_id="e", reason="unknown", hint="", step_id="pay", step_index=0)
    )


def test_settling_says_whether_the_step_is_performed() -> None:
    done, not_done = (of(escalated(), "settle", "pay", answer) for answer in ("done", "not-done"))
    assert "it is not performed again" in words(done) and done.scope.again == ()
    assert "it is done twice then" in words(not_done) and not_done.scope.again == ("pay",)
    assert (done.answer, not_done.answer) == ("done", "not-done")


@pytest.mark.parametrize(
    ("kind", "is_lost"),
    [(FailureKind.DRIVER_LOST, True), (FailureKind.BROWSER_CRASHED, True), (FailureKind.WALL_TIMEOUT, False)],
)
def test_settling_a_click_as_done_says_what_was_lost_with_its_browser(
    kind: FailureKind, is_lost: bool
) -> None:
    click = step("sign-in", action=BrowserAction(verb=BrowserVerb.CLICK), repeat=Repeat.NEVER)
    state = told(
        begun(click, step("b")),
        ev.AttemptStarted(
            step_id="sign-in", step_index=0, attempt=1, delivery=1, kind="browser", args_digest="a",
            pre_state=None, workspace=None, inline=True,
        ),
        ev.AttemptFailed(
            step_id="sign-in", step_index=0, attempt=1, failure_class=FailureClass.TRANSIENT_RUNTIME,
            failure_kind=kind, facts=Facts(kind=kind), summary="lost", outcome_known=False,
        ),
        ev.Escalated(escalation_id="e", reason="unknown", hint="", step_id="sign-in", step_index=0),
    )  # fmt: skip
    assert ("cookies" in words(of(state, "settle", "sign-in", "done"))) is is_lost
    assert "cookies" not in words(of(state, "settle", "sign-in", "not-done"))


def asked_about(**question: Any) -> RunState:
    state = begun(step("pay", repeat=Repeat.NEVER), step("b"))
    state = told(state, *passed("pay", 0))
    about = ev.Escalated(escalation_id="e", reason="lost", hint="", step_id="pay", step_index=0, **question)
    return told(state, about)


def test_settling_a_lost_page_says_what_is_performed_again_or_done_without() -> None:
    state = asked_about(page_steps=("pay", "open"))
    done, not_done = (of(state, "settle", "pay", answer) for answer in ("done", "not-done"))
    assert "continues on the page as it is now, without what pay, open did" in words(done)
    assert done.scope.again == ()
    assert "pay, open: performed again, with all effects" in words(not_done)
    assert (not_done.scope.again, not_done.scope.again_count) == (("pay", "open"), 2)


def test_one_answer_about_several_steps_names_all_of_them() -> None:
    state = asked_about(also_steps=("open",))
    done, not_done = (of(state, "settle", "pay", answer) for answer in ("done", "not-done"))
    assert "pay, open count as done" in words(done)
    assert not_done.scope.again == ("pay", "open")


def test_a_cancelled_run_keeps_what_is_proven() -> None:
    state = begun(*THREE)
    assert "proven" not in words(of(state, "cancel"))
    state = told(state, *passed("a", 0))
    seen = of(state, "cancel")
    assert seen.scope.ends_run and "The first of 3 steps stays proven" in words(seen)


def test_every_control_is_listed_with_what_it_would_do_or_why_not() -> None:
    for state in (run(*THREE), begun(*THREE), escalated(), at_a_gate()):
        seen = previews(state, Policy(), False)
        assert {one.action for one in seen} == set(CONTROLS) - {"resume_from_step"}
        for one in seen:
            assert bool(one.scope.words) == one.allowed == (not one.why)


def failed() -> RunState:
    state = told(begun(*THREE), *passed("a", 0), tried("b", 1))
    cls, kind = FailureClass.DETERMINISTIC_POLICY, FailureKind.EXIT_NONZERO
    facts: list[ev.Payload] = [
        ev.AttemptFailed(
            step_id="b", step_index=1, attempt=1, facts=Facts(kind=kind), summary="no", outcome_known=True,
            failure_class=cls, failure_kind=kind,
        ),
        ev.RunFailed(reason="no", failure_class=cls, failure_kind=kind, retryable=False, delivery=1),
    ]  # fmt: skip
    return told(state, *facts)


def test_a_run_that_is_over_offers_nothing_but_a_new_one() -> None:
    state = failed()
    assert not any(one.allowed for one in previews(state, Policy(), False))
    back, anew = previews_of_step(state, 1, Policy(), False)
    assert (back.action, back.allowed) == ("resume_from_step", False)
    assert (anew.action, anew.step_id, anew.allowed) == ("new_run", "b", True)
    assert anew.scope.again == ("b", "c")
    assert "The first of 3 steps is reused, if it is still proven." in words(anew)
    whole = previews_of_step(state, 0, Policy(), False)[1]
    assert "Nothing is reused." in words(whole)


def test_a_run_that_has_no_step_left_goes_on_at_its_end() -> None:
    state = told(begun(step("a")), *passed("a", 0), handled("pause"), paused())
    assert "The run goes on at its end." in words(of(state, "resume"))
    assert previews(state, Policy(), True)


def test_a_new_run_is_refused_where_it_could_not_begin_there() -> None:
    def why(state: RunState, index: int, driven: bool = False) -> str:
        return previews_of_step(state, index, Policy(), driven)[1].why

    assert why(failed(), 2) == "b comes before it and is not done"
    assert why(failed(), 0, driven=True) == "somebody drives this run: pause or cancel it first"
    assert why(run(*THREE), 0) == "the run has not begun"
    once = told(begun(step("pay", repeat=Repeat.NEVER), step("b")), *passed("pay", 0))
    assert (why(once, 0), why(once, 1)) == ("", "")
    anew = previews_of_step(once, 0, Policy(), driven=False)[1]
    assert "Before it repeats pay, it asks a person: that was done here." in anew.scope.words


def test_what_the_api_tells_of_an_answer_is_called_as() -> None:
    told_ = msgspec.to_builtins(of(escalated(), "settle", "pay", "done"))
    assert told_["as"] == "done" and "answer" not in told_


def test_a_control_that_waits_for_somebody_is_held_to_where_the_run_stood() -> None:
    state = begun(step("small"), step("big"))
    assert standing(state, "approve") == ev.Pinned(step_id="small", delivery=state.driver.delivery)
    assert standing(state, "retry_step", "big").step_id == "big"
    assert standing(state, "resume_from_step", "big").step_id == "small", "that is where it stands"
    assert standing(state, "cancel") == ev.Pinned(), "what stops a run stops it wherever it is"
    assert standing(altered(state, steps=Vector()), "resume").step_id is None


def test_nothing_is_possible_for_a_run_with_an_event_that_cannot_be_read() -> None:
    unreadable = Unreadable(7, "task.run.started", "invalid UTF-8")
    state = altered(begun(step("a"), step("b")), unreadable=unreadable)
    made = [*previews_of_step(state, 0, Policy(), driven=False), *previews_of_unknown_step(state, "x")]
    assert [one.allowed for one in made] == [False] * 4
    assert all("event 7" in one.why for one in made)
