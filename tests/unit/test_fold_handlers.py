"""From facts to the state of a run: handlers of steps, workspaces that are restored or handed over, and operators."""

from __future__ import annotations

from typing import Any

import pytest

from recoup.kernel.fold import advance, submitted
from recoup.model import events as ev
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import Handler, Plan, Rebuild, Repeat, RunAction, Step
from recoup.model.run import Base, GivenUp, RunState, Verdict
from recoup.model.target import Fingerprint
from recoup.model.workspace import Baseline, Snapshot

NOW = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")
OWNER = ProcessIdentity("host", "boot", 1, 1)
CLEANS = (Handler(action=RunAction("clean")),)
RESCUES = (Handler(action=RunAction("mend")),)
CLS, KIND = FailureClass.TRANSIENT_RUNTIME, FailureKind.EXIT_NONZERO


def run_of(*steps: Step) -> RunState:
    first = ev.RunSubmitted(
        workflow="w",
        plan_digest="d",
        plan=Plan(name="w", steps=steps),
        plan_redacted=False,
        inputs={},
        policy_digest="p",
    )
    begun = ev.RunStarted(
        delivery=1, epoch=1, owner=OWNER, policy_digest="p", baseline=Baseline("t0", "m0"), workspace=1
    )
    return tell(submitted("r", first, NOW), begun)


def step(number: int, **more: Any) -> Step:
    return Step(id=f"s{number}", action=RunAction("x"), **more)


def tell(state: RunState, *facts: ev.Payload) -> RunState:
    for fact in facts:
        state = advance(state, fact, NOW, state.seq + 1)
    return state


def about(index: int, attempt: int | None = 1) -> dict[str, Any]:
    return {"step_id": f"s{index}", "step_index": index, "attempt": attempt}


def start(index: int, attempt: int = 1, **more: Any) -> ev.AttemptStarted:
    defaults: dict[str, Any] = {"args_digest": "a", "pre_state": f"t{index}", "kind": "run"}
    return ev.AttemptStarted(
        **about(index, attempt), delivery=1, workspace=1, inline=False, **(defaults | more)
    )


def finish(index: int, attempt: int = 1, verdict: str = "passed", **more: Any) -> ev.AttemptFinished:
    return ev.AttemptFinished(**about(index, attempt), verdict=verdict, duration_ms=5, **more)


def fail(index: int, attempt: int = 1, **more: Any) -> ev.AttemptFailed:
    return ev.AttemptFailed(
        **about(index, attempt), failure_class=CLS, failure_kind=KIND, failure_signature="v1:x",
        facts=Facts(kind=KIND), summary="exit code 1", outcome_known=True, **more,
    )  # fmt: skip


def stored(index: int, tree: str = "") -> ev.CheckpointStored:
    snapshot = Snapshot(tree or f"t{index + 1}", "m")
    return ev.CheckpointStored(**about(index), snapshot=snapshot, workspace=1)


def performed(index: int) -> tuple[ev.Payload, ...]:
    return start(index), finish(index), stored(index)


def restored(workspace: int, *, current: bool = False) -> ev.CheckpointRestored:
    return ev.CheckpointRestored(step_index=None, tree="t0", workspace=workspace, reason="", current=current)


# Handlers


def test_after_a_step_has_passed_its_always_is_to_be_done_once() -> None:
    state = tell(run_of(step(0, always=CLEANS), step(1)), start(0), finish(0))
    assert state.progress.always_pending == (0,)
    state = tell(state, start(0, 2, phase="always"), finish(0, 2, phase="always"))
    assert state.progress.always_pending == ()
    assert state.steps[0].verdict is Verdict.PASSED


def test_an_always_that_failed_is_done_too_and_the_step_stays_as_it_ended() -> None:
    state = tell(run_of(step(0, always=CLEANS)), start(0), finish(0))
    state = tell(state, start(0, 2, phase="always"), fail(0, 2, phase="always"))
    assert state.progress.always_pending == ()
    assert (state.steps[0].verdict, state.steps[0].failure.cls) == (Verdict.PASSED, None)


def test_a_step_given_up_without_a_rescue_goes_straight_to_its_always() -> None:
    state = run_of(step(0, always=CLEANS))
    state = tell(state, start(0), fail(0, gives_up=True, redeliver=True, reason="no more attempts"))
    assert state.steps[0].recovery.given_up == GivenUp("no more attempts", CLS, KIND, redeliver=True)
    assert state.progress.always_pending == (0,)


def test_a_step_given_up_with_a_rescue_waits_for_it_before_its_always() -> None:
    state = run_of(step(0, always=CLEANS, rescue=RESCUES))
    state = tell(state, start(0), fail(0, gives_up=True))
    assert (state.progress.always_pending, state.steps[0].recovery.rescue_tried) == ((), False)
    state = tell(state, start(0, 2, phase="rescue"), fail(0, 2, phase="rescue"))
    assert (state.progress.always_pending, state.steps[0].recovery.rescue_tried) == ((0,), True)
    assert state.steps[0].verdict is Verdict.FAILED


def test_a_step_that_was_rescued_is_good_and_no_longer_given_up() -> None:
    state = tell(run_of(step(0, rescue=RESCUES)), start(0), fail(0, gives_up=True))
    state = tell(state, start(0, 2, phase="rescue"), finish(0, 2, phase="rescue", verdict="recovered"))
    assert state.steps[0].verdict is Verdict.RECOVERED
    assert state.steps[0].recovery.given_up is None
    assert state.progress.prefix_length == 1


def test_a_run_that_must_end_skips_the_rescue_and_keeps_the_always() -> None:
    state = tell(run_of(step(0, always=CLEANS, rescue=RESCUES)), start(0), fail(0))
    ends = ev.SelfHealExhausted(
        **about(0), failure_class=CLS, failure_kind=KIND, reason="run_timeout", retryable=False, gives_up=True
    )
    state = tell(state, ends)
    assert state.steps[0].recovery.given_up == GivenUp("run_timeout", CLS, KIND, redeliver=False)
    assert state.steps[0].recovery.rescue_tried
    assert state.progress.always_pending == (0,)


def test_healing_that_is_exhausted_leaves_no_strategy_for_a_next_attempt() -> None:
    state = tell(run_of(step(0)), start(0), fail(0))
    state = tell(state, ev.SelfHealTriggered(**about(0), strategy="soft_reset", delay_ms=500))
    assert [one.recovery.strategy for one in state.steps] == ["soft_reset"]
    state = tell(state, ev.SelfHealExhausted(**about(0), retryable=True))
    assert state.steps[0].recovery.strategy is None
    assert state.steps[0].recovery.given_up is None


# Rebuilding


def test_after_a_restore_the_steps_that_ask_for_it_are_performed_again_one_by_one() -> None:
    state = run_of(
        step(0, rebuild=Rebuild.RERUN),
        step(1),
        step(2, rebuild=Rebuild.RERUN),
        step(3, rebuild=Rebuild.RERUN, repeat=Repeat.NEVER),
        step(4, rebuild=Rebuild.RERUN),
    )
    for index in range(4):
        state = tell(state, *performed(index))
    state = tell(state, restored(2))
    assert state.progress.rebuild_pending == (0, 2), "not what must not be repeated, nor what is not done"
    state = tell(state, start(0, 2, phase="rebuild", pre_state="t9", args_digest="b"))
    state = tell(state, fail(0, 2, phase="rebuild"))
    assert state.progress.rebuild_pending == (0, 2), "it is still to be done"
    assert (state.steps[0].verdict, state.steps[0].beginning.pre_state) == (Verdict.PASSED, "t0")
    state = tell(state, ev.SelfHealTriggered(**about(0, 2), strategy="soft_reset", delay_ms=1))
    state = tell(state, start(0, 3, phase="rebuild"), finish(0, 3, phase="rebuild"))
    assert state.progress.rebuild_pending == (2,)
    assert state.steps[0].recovery.strategy is None
    assert state.progress.prefix_length == 4


# Workspaces


def test_a_restored_workspace_is_on_trial_unless_it_is_said_to_be_the_current_one() -> None:
    state = tell(run_of(step(0)), restored(2))
    assert (state.workspaces.current, state.workspaces.trial) == (1, 2)
    state = tell(state, start(0), finish(0, workspace=2))
    assert (state.workspaces.current, state.workspaces.trial) == (2, None)
    state = tell(state, restored(3), restored(4, current=True))
    assert (state.workspaces.current, state.workspaces.trial) == (4, None)


def changed(*, kept: bool = True) -> ev.WorkspaceChanged:
    return ev.WorkspaceChanged(workspace=1, before="t1", snapshot=Snapshot("t-by-hand", "m"), kept=kept)


def test_work_goes_on_from_what_an_operator_left() -> None:
    state = tell(run_of(step(0), step(1)), *performed(0), start(1), fail(1))
    state = tell(state, ev.WorkspaceHandedOver(actor="ann", workspace=1, tree="t1"))
    assert (state.workspaces.handed_over, state.workspaces.base) == ("t1", None)
    state = tell(state, changed())
    assert (state.workspaces.handed_over, state.workspaces.base) == (
        None,
        Base(1, Snapshot("t-by-hand", "m")),
    )
    assert (state.steps[1].beginning.pre_state, state.steps[1].spent.marks) == (None, ())


def test_what_an_operator_left_and_a_restore_replaces_is_no_beginning() -> None:
    state = tell(run_of(step(0), step(1)), *performed(0), start(1), fail(1))
    state = tell(state, ev.WorkspaceHandedOver(actor="ann", workspace=1, tree="t1"), changed(kept=False))
    assert state.workspaces.handed_over is None
    assert state.workspaces.base is None
    assert state.steps[1].beginning.pre_state == "t1"
    assert state.steps[1].spent.marks


def test_a_checkpoint_after_the_operator_holds_their_change_too() -> None:
    """The `always` of the step before them comes after them."""
    state = tell(run_of(step(0), step(1)), *performed(0), changed(), stored(0, "t-both"))
    assert state.workspaces.base == Base(1, Snapshot("t-both", "m"), in_checkpoint=True)


@pytest.mark.parametrize(("index", "kept"), [(0, False), (1, True)])
def test_what_an_operator_left_is_gone_with_the_step_it_was_built_on(index: int, kept: bool) -> None:
    state = tell(run_of(step(0), step(1), step(2)), *performed(0), changed(), *performed(1))
    state = tell(state, ev.StepInvalidated(**about(index, None), reason="again"))
    assert (state.workspaces.base is not None) is kept


@pytest.mark.parametrize("restores", [True, False])
def test_going_back_to_a_step_restores_the_workspace_where_it_is_said_to(restores: bool) -> None:
    state = tell(run_of(step(0)), ev.ResumeFromStep(**about(0, None), restores=restores))
    assert state.workspaces.restore_pending is restores
    state = tell(state, ev.ResumeFromStep(**about(0, None)))
    assert state.workspaces.restore_pending is restores, "what was to be restored still is"


# Operators, when every step is done


def accepted(action: str, **more: Any) -> ev.ControlHandled:
    return ev.ControlHandled(
        command_id="c", action=action, outcome="accepted", reason="", actor="ann", epoch=1, **more
    )


def invalidate(index: int) -> ev.StepInvalidated:
    return ev.StepInvalidated(**about(index, None), reason="its checkpoint is broken")


@pytest.mark.parametrize("argument", ["done", "not-done"])
def test_what_was_done_and_must_not_be_repeated_is_to_be_settled_once_it_is_invalidated(
    argument: str,
) -> None:
    never = [step(index, repeat=Repeat.NEVER) for index in range(3)]
    state = tell(run_of(*never, step(3), step(4, repeat=Repeat.NEVER)), *performed(0), *performed(1))
    state = tell(state, ev.StepSkipped(**about(2, None), reason="when"), *performed(3), start(4), fail(4))
    state = tell(state, *(invalidate(index) for index in range(5)))
    assert [one.doubt.to_settle for one in state.steps] == [True, True, False, False, False]
    state = tell(state, ev.Escalated(escalation_id="e", reason="", hint="", step_id="s1", step_index=1))
    state = tell(state, accepted("settle", step_id="s1", argument=argument))
    assert [one.doubt.to_settle for one in state.steps] == [True, False, False, False, False]
    state = tell(state, invalidate(0))
    assert state.steps[0].doubt.to_settle, "it was asked about, and nobody has answered"


# A lost page, and who may perform what again for it


def lost_page() -> RunState:
    never = [step(index, repeat=Repeat.NEVER) for index in range(2)]
    state = tell(run_of(*never, step(2), step(3)), *performed(0), *performed(1), *performed(2))
    asked = ev.Escalated(
        escalation_id="e", reason="", hint="", step_id="s0", step_index=0, page_steps=("s0", "s1")
    )
    return tell(state, asked)


@pytest.mark.parametrize(("argument", "as_is"), [("done", True), ("not-done", False)])
def test_one_answer_about_a_lost_page_counts_for_all_steps_that_were_asked_about(
    argument: str, as_is: bool
) -> None:
    state = tell(lost_page(), accepted("settle", argument=argument))
    assert (state.page.as_is, state.page.repeats) == (as_is, () if as_is else ("s0", "s1"))
    assert state.page.question == ()
    assert state.progress.prefix_length == 3, "finished steps stay done"


@pytest.mark.parametrize("ends", ["finished", "invalidated"])
def test_consent_counts_once_for_each_step_and_until_a_step_has_finished_on_the_page(ends: str) -> None:
    state = tell(lost_page(), accepted("settle", argument="not-done"))
    page = Fingerprint("u", "t", ())
    state = tell(state, start(0, 2, phase="rebuild"), finish(0, 2, phase="rebuild", page=page))
    assert state.page.repeats == ("s1",), "if the page is lost again, a person is asked again about the first"
    last = (start(3), finish(3, page=page)) if ends == "finished" else (invalidate(2),)
    state = tell(state, *last)
    assert not state.page.repeats


@pytest.mark.parametrize("launched", [True, False])
def test_a_repetition_whose_driver_was_lost_is_allowed_no_second_time(launched: bool) -> None:
    state = tell(lost_page(), accepted("settle", argument="not-done"))
    state = tell(state, ev.PageLost(**about(3, None), reason="", steps=("s0", "s1", "s2")))
    state = tell(state, start(0, 2, phase="rebuild"))
    if launched:
        state = tell(state, ev.AttemptLaunched(**about(0, 2), keeper=OWNER))
    state = tell(state, fail(0, 2, not_begun=True, phase="rebuild"))
    assert state.page.repeats == (("s1",) if launched else ("s0", "s1"))
    assert state.progress.rebuild_pending == ((1, 2) if launched else (0, 1, 2))


def test_a_safe_step_whose_repetition_was_lost_is_repeated_again() -> None:
    state = tell(lost_page(), ev.PageLost(**about(3, None), reason="", steps=("s2",)))
    state = tell(state, start(2, 2, phase="rebuild"), ev.AttemptLaunched(**about(2, 2), keeper=OWNER))
    state = tell(state, fail(2, 2, not_begun=True, phase="rebuild"))
    assert state.progress.rebuild_pending == (2,)


def test_what_is_settled_as_done_is_not_performed_again_for_its_page() -> None:
    state = tell(lost_page(), accepted("settle", argument="not-done"))
    state = tell(state, ev.PageLost(**about(3, None), reason="", steps=("s0", "s1")))
    state = tell(state, ev.Escalated(escalation_id="f", reason="", hint="", step_id="s0", step_index=0))
    state = tell(state, accepted("settle", argument="done"))
    assert state.progress.rebuild_pending == (1,)


def test_an_answer_that_nobody_asked_for_settles_nothing() -> None:
    state = tell(run_of(step(0)), *performed(0), accepted("settle", argument="done"))
    assert (state.progress.prefix_length, state.progress.rebuild_pending) == (1, ())


def test_one_answer_settles_all_steps_that_it_was_asked_for() -> None:
    never = [step(index, repeat=Repeat.NEVER) for index in range(3)]
    state = tell(run_of(*never), *performed(0), *performed(1), *performed(2))
    state = tell(state, *(invalidate(index) for index in range(3)))
    asked = ev.Escalated(
        escalation_id="e", reason="", hint="", step_id="s0", step_index=0, also_steps=("s1",)
    )
    state = tell(state, asked, accepted("settle", step_id="s0", argument="not-done"))
    assert [one.doubt.to_settle for one in state.steps] == [False, False, True]


@pytest.mark.parametrize("action", ["takeover", "resume_from_step"])
def test_an_operator_may_speak_between_the_last_step_and_the_end_of_the_run(action: str) -> None:
    state = tell(run_of(step(0)), *performed(0))
    before = state.steps[0].spent.attempts_in_delivery
    state = tell(state, accepted(action, step_id="s0"))
    assert state.hold.takeover is (action == "takeover")
    assert (state.progress.prefix_length, state.steps[0].spent.attempts_in_delivery) == (1, before)
