"""What becomes of a page, foreseen from what was recorded and kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.altered import altered
from tests.unit.test_fold_handlers import OWNER, about, finish, run_of, start, tell
from tests.unit.test_pre_states import HOME, browser, gate, invalidated, shell

from recoup.kernel.outset import KeptPage, Outset, outset_in_place
from recoup.kernel.page_forecast import PageForecast, page_forecast
from recoup.kernel.reuse import (
    ASKED,
    OUTCOME_UNKNOWN,
    PERFORMED,
    REUSED,
    UNLESS_DONE,
    StepReuse,
    done_in_place,
    foreseen,
    in_place,
)
from recoup.model import events as ev
from recoup.model.ids import ProcessIdentity
from recoup.model.plan import BrowserAction, BrowserVerb, Rebuild, Repeat, RunAction, Step
from recoup.model.run import PageConsent, RunState

NOTHING_TOUCHED = KeptPage(())


def fill(number: int, repeat: Repeat = Repeat.SAFE) -> Step:
    return msgspec.structs.replace(browser(number, BrowserVerb.FILL), repeat=repeat)


def read(number: int) -> Step:
    return browser(number, BrowserVerb.READ)


def outset(state: RunState, **more: Any) -> Outset:
    known: dict[str, Any] = {"done": done_in_place(state), "kept": NOTHING_TOUCHED} | more
    return Outset(steps=state.plan.steps, records=state.steps[:], **known)


def forecast(state: RunState, **more: Any) -> PageForecast:
    page = page_forecast(outset(state, **more))
    assert page is not None
    return page


def after(count: int, *steps: Step) -> RunState:
    """A run in which the first steps are done."""
    state = run_of(*steps)
    for index in range(count):
        page = HOME if state.steps[index].kind == "browser" else None
        state = tell(state, start(index, kind=state.steps[index].kind), finish(index, page=page))
    return state


# Whether a page is needed


@pytest.mark.parametrize(
    ("steps", "count"),
    [
        ((browser(0), shell(1)), 1),
        ((browser(0), browser(1), fill(2)), 1),
        ((shell(0), fill(1)), 1),
        ((browser(0), fill(1)), 2),
    ],
    ids=["no step in the browser", "a step that leaves it", "no page before", "nothing to do"],
)
def test_a_page_that_nobody_looks_at_is_not_restored(steps: tuple[Step, ...], count: int) -> None:
    assert page_forecast(outset(after(count, *steps))) is None


def test_a_page_that_nobody_could_look_at_is_not_restored() -> None:
    state = tell(run_of(browser(0), fill(1)), start(0), finish(0))
    assert page_forecast(outset(state)) is None


def test_a_page_is_restored_for_a_gate_that_was_not_reached_yet() -> None:
    state = after(1, browser(0), shell(1), gate(2))
    assert forecast(state) == PageForecast(needed_by="s2", since="s0")
    assert page_forecast(outset(state, gate_reached=2)) is None, "whoever answers has seen it"


# How it is restored


def test_what_was_done_in_the_page_is_done_again() -> None:
    state = after(3, browser(0), fill(1), read(2), fill(3))
    page = forecast(state, kept=KeptPage(("s1",)))
    assert (page.repeated, page.asks_about) == (("s1",), ())
    assert page.reason == "what was done in it is lost"


@pytest.mark.parametrize("kept", [None, KeptPage(None), KeptPage(("of another plan",))])
def test_where_nobody_knows_what_was_done_in_it_all_that_made_it_is_done_again(kept: KeptPage | None) -> None:
    page = forecast(after(3, browser(0), fill(1), read(2), fill(3)), kept=kept)
    assert page.repeated == ("s0", "s1")
    assert page.reason


def test_a_hard_reset_makes_the_page_anew_for_the_step_that_it_is_for() -> None:
    state = after(3, browser(0), fill(1), shell(2), fill(3))
    assert forecast(state, resets=True).repeated == ("s0", "s1")
    assert forecast(state, resets=True, done=frozenset({0, 1})).repeated == (), "the shell step is reset"
    never = after(2, browser(0), fill(1, Repeat.NEVER), fill(2))
    assert forecast(never, resets=True).repeated == ()


def test_what_must_not_be_repeated_is_asked_about_unless_the_page_shows_it() -> None:
    state = after(4, browser(0), fill(1, Repeat.NEVER), fill(2), read(3), fill(4))
    page = forecast(state, kept=KeptPage(("s1", "s2")))
    assert (page.repeated, page.asks_about, page.unless_shown) == (("s2",), ("s1",), True)
    made_again = forecast(state, kept=None)
    assert (made_again.repeated, made_again.asks_about, made_again.unless_shown) == ((), ("s1",), False)


def test_the_answer_of_a_person_is_foreseen_too() -> None:
    state = after(3, browser(0), fill(1, Repeat.NEVER), fill(2), fill(3))
    kept = KeptPage(("s1", "s2"))
    allowed = forecast(state, kept=kept, repeats=("s1",))
    assert (allowed.repeated, allowed.asks_about) == (("s1", "s2"), ())
    as_is = forecast(state, kept=kept, as_is=True)
    assert (as_is.repeated, as_is.asks_about, as_is.unless_shown) == (("s2",), (), False)
    assert forecast(state, kept=KeptPage((), "s3"), as_is=True).repeated == ()


def test_what_was_skipped_has_not_made_the_page() -> None:
    state = after(1, browser(0), browser(1), fill(2, Repeat.NEVER), fill(3))
    for index in (1, 2):
        state = tell(state, ev.StepSkipped(**about(index, None), reason="when"))
    page = forecast(state, kept=None)
    assert (page.since, page.repeated) == ("s0", ("s0",))
    assert forecast(state, resets=True).repeated == ("s0",)


def test_a_page_that_another_step_has_left_since_is_made_again_by_the_steps_that_made_it() -> None:
    state = after(4, browser(0), shell(1), browser(2), gate(3), fill(4))
    page = forecast(state, kept=KeptPage((), "s4"))
    assert (page.since, page.repeated, page.asks_about) == ("s2", ("s2",), ())
    assert page.reason == "s4 has left it since"
    assert forecast(state, kept=KeptPage((), "s2")).repeated == ()


# Steps that are performed again to get a page back


def page_lost(*steps: str) -> ev.PageLost:
    return ev.PageLost(**about(2, None), reason="gone", steps=steps)


def resumed(epoch: int) -> ev.RunResumed:
    return ev.RunResumed(delivery=1, epoch=epoch, owner=OWNER, reason="")


def test_what_was_skipped_is_not_performed_to_get_a_page_back() -> None:
    state = after(1, browser(0), fill(1), fill(2))
    state = tell(state, ev.StepSkipped(**about(1, None), reason="when"), page_lost("s0", "s1"))
    assert state.progress.rebuild_pending == (0,)


def test_a_restored_workspace_takes_nothing_back_of_what_a_page_needs() -> None:
    rerun = Step(id="s1", action=RunAction("x"), rebuild=Rebuild.RERUN)
    state = tell(after(2, browser(0), rerun, fill(2)), page_lost("s0"))
    state = tell(state, ev.CheckpointRestored(step_index=1, tree="t2", workspace=2, reason="hard reset"))
    assert state.progress.rebuild_pending == (0, 1)


def test_another_driver_finds_out_by_itself_how_to_get_the_page_back() -> None:
    rerun = msgspec.structs.replace(fill(1), rebuild=Rebuild.RERUN)
    state = after(2, browser(0), rerun, fill(2))
    state = tell(
        state, ev.CheckpointRestored(step_index=1, tree="t2", workspace=2, reason=""), page_lost("s0", "s1")
    )
    assert tell(state, resumed(state.driver.epoch)).progress.rebuild_pending == (0, 1), (
        "the same driver, after a cooldown"
    )
    assert tell(state, resumed(state.driver.epoch + 1)).progress.rebuild_pending == (1,), (
        "it belongs to the workspace, too"
    )
    state = tell(state, page_lost("s0"))
    over = ev.RunTakenOver(
        epoch=9, previous_epoch=2, previous_owner=ProcessIdentity("h", "b", 2, 2), reason=""
    )
    assert tell(state, over).progress.rebuild_pending == ()


# What is said of each step


def expected(steps: tuple[StepReuse, ...]) -> list[tuple[str, str | None]]:
    return [(step.expected, step.repeated_for) for step in steps]


def test_a_step_is_reused_for_certain_or_if_its_page_holds() -> None:
    state = after(5, browser(0), shell(1), browser(2), fill(3), shell(4), fill(5))
    said = foreseen(in_place(state), outset(state, kept=KeptPage(("s3",))), rebuilt=())
    held = ("reused_if_page_holds", None)
    certain = (REUSED, None)
    assert expected(said.steps) == [
        *(certain, certain, held, ("reused_if_page_holds", "page"), held, (PERFORMED, None)),
    ]
    assert said.document()["page"]["since"] == "s2"
    assert said.frontier is not None and said.frontier.step_id == "s5"
    assert said.steps[3].reason == "done in run r; performed again to restore the page"


def test_what_a_person_is_asked_about_stays_done_and_what_stands_behind_the_page_is_certain() -> None:
    state = tell(after(5, browser(0), fill(1, Repeat.NEVER), shell(2), fill(3), shell(4)), invalidated(3))
    run = outset(state, kept=KeptPage(("s1",)))
    reuse = foreseen(in_place(state), run, rebuilt=[2])
    held = "reused_if_page_holds"
    assert expected(reuse.steps) == [
        *((held, None), (ASKED, None), (held, "workspace"), (PERFORMED, None), (REUSED, None)),
    ]
    assert reuse.document()["page"]["asksAbout"] == ("s1",)
    assert reuse.document()["reused"] == ["s0", "s1", "s2", "s4"]
    assert reuse.frontier is not None and reuse.frontier.step_id == "s3"


def test_without_a_page_nothing_is_uncertain() -> None:
    state = after(1, shell(0), shell(1))
    said = foreseen(in_place(state), outset(state), rebuilt=[0])
    assert expected(said.steps) == [(REUSED, "workspace"), (PERFORMED, None)]
    assert (said.page, said.document()["page"]) == (None, None)
    assert after(1, shell(0)).progress.prefix_length == 1 and in_place(after(1, shell(0))).frontier is None


def test_what_stays_done_behind_the_frontier_is_not_said_to_be_performed() -> None:
    state = tell(after(3, browser(0), shell(1), fill(2), fill(3)), invalidated(0), invalidated(2))
    assert [step.reused for step in in_place(state).steps] == [False, True, False, False]
    assert done_in_place(state, "s0") == {1}
    assert done_in_place(after(2, shell(0), shell(1)), "s1") == {0}


@pytest.mark.parametrize(
    ("checks", "wanted"),
    [
        ((ev.CheckResult("file x", False),), UNLESS_DONE),
        ((ev.CheckResult("file x", True),), PERFORMED),
        (None, PERFORMED),
    ],
)
def test_an_attempt_without_an_end_may_turn_out_to_be_done(checks: Any, wanted: str) -> None:
    state = tell(run_of(shell(0)), start(0, prechecks=checks))
    assert in_place(state).steps[0].expected == PERFORMED, "it was not launched"
    state = tell(state, ev.AttemptLaunched(**about(0), keeper=OWNER))
    step = in_place(state).steps[0]
    assert (step.expected, "counts as done" in step.reason) == (wanted, wanted == UNLESS_DONE)
    beside = tell(after(1, shell(0)), start(0, 2, phase="always", prechecks=checks))
    assert in_place(beside).steps[0].expected == REUSED


def test_about_an_unknown_outcome_that_must_not_be_repeated_a_person_is_asked() -> None:
    state = tell(run_of(msgspec.structs.replace(shell(0), repeat=Repeat.NEVER)), start(0))
    assert in_place(state).steps[0].expected == PERFORMED, "it was not launched"
    state = tell(state, ev.AttemptLaunched(**about(0), keeper=OWNER))
    said = in_place(state).steps[0]
    assert (said.expected, OUTCOME_UNKNOWN in said.reason) == (ASKED, True)


def never(number: int) -> Step:
    return msgspec.structs.replace(shell(number), repeat=Repeat.NEVER)


def test_about_what_was_done_and_does_not_count_any_more_a_person_is_asked() -> None:
    state = tell(after(1, never(0), shell(1)), invalidated(0))
    said = in_place(state).steps[0]
    assert (said.expected, "it was done and must not be repeated" in said.reason) == (ASKED, True)


def test_about_what_was_done_in_a_linked_run_a_person_is_asked() -> None:
    asked = ev.AskedStep(step_id="s0", step_index=0, reason="", deeds=(ev.EarlierDeed(run_id="earlier"),))
    state = tell(run_of(never(0)), ev.ResumeFromStep(**about(0, None), asks=(asked,)))
    said = in_place(state).steps[0]
    assert (said.expected, "earlier" in said.reason) == (ASKED, True)


def test_about_all_that_an_escalation_names_a_person_is_asked() -> None:
    state = tell(after(2, never(0), never(1)), invalidated(0), invalidated(1))
    asked = ev.Escalated(
        escalation_id="e", reason="", hint="", step_id="s0", step_index=0, also_steps=("s1",)
    )
    assert [step.expected for step in in_place(tell(state, asked)).steps] == [ASKED, ASKED]
    unknown = tell(run_of(shell(0)), start(0), ev.AttemptLaunched(**about(0), keeper=OWNER))
    unknown = tell(unknown, msgspec.structs.replace(asked, also_steps=()))
    assert in_place(unknown).steps[0].expected == ASKED


def test_a_run_that_goes_back_forgets_what_a_person_answered() -> None:
    page = PageConsent(repeats=("s0",), as_is=True)
    state = altered(after(1, browser(0), gate(1)), progress__gate_reached=1, page=page)
    stays = outset_in_place(state, frozenset({0}), resets=False, goes_back=False)
    assert (stays.gate_reached, stays.repeats, stays.as_is) == (1, ("s0",), True)
    back = outset_in_place(state, frozenset(), resets=True, goes_back=True)
    assert (back.gate_reached, back.repeats, back.as_is, back.resets) == (None, (), False, True)


def test_what_was_done_in_another_tab_is_done_again_where_a_later_step_turns_to_it() -> None:
    """Also before a `goto`, which leaves only the tab that is open."""
    tabs = KeptPage((), touched_elsewhere=("s1",))
    turn = Step(id="s3", action=BrowserAction(verb=BrowserVerb.TAB, value="1"))
    looks, leaves = (after(2, browser(0), fill(1), step, turn) for step in (read(2), browser(2)))
    for state in (looks, leaves):
        page = forecast(state, kept=tabs)
        assert (page.reason, page.repeated) == ("what was done in its other tabs is lost", ("s0", "s1"))
    assert page_forecast(outset(leaves, kept=tabs, as_is=True)) is None
    assert page_forecast(outset(leaves)) is None
    assert forecast(after(2, browser(0), fill(1), read(2)), kept=tabs).repeated == ()
