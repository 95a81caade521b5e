"""What a step began from: the tree of its workspace, the page of its run, or what its checks said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.test_fold_handlers import about, fail, finish, performed, run_of, start, tell

from recoup.kernel.pre_states import NO_PAGE, page_before, page_digest, pre_fingerprint
from recoup.kernel.prefix import ledger_document
from recoup.model import events as ev
from recoup.model.outcome import Seen
from recoup.model.plan import ApproveAction, BrowserAction, BrowserVerb, RunAction, Step
from recoup.model.run import RunState
from recoup.model.target import Fingerprint

HOME, DONE = Fingerprint("u1", "t1", ("n1",)), Fingerprint("u2", "t2")
CHECKS = (ev.CheckResult("file out", False, "no out"), ev.CheckResult("run true", True))


def browser(number: int, verb: BrowserVerb = BrowserVerb.GOTO) -> Step:
    return Step(id=f"s{number}", action=BrowserAction(verb=verb, value="http://site/"))


def shell(number: int) -> Step:
    return Step(id=f"s{number}", action=RunAction("x"))


def gate(number: int) -> Step:
    return Step(id=f"s{number}", action=ApproveAction("go on?"))


def began(index: int, fingerprint: str | None, **more: Any) -> ev.AttemptStarted:
    return start(index, **({"kind": "browser", "pre_state": None, "pre_fingerprint": fingerprint} | more))


def browsed(index: int, page: Fingerprint, before: str = NO_PAGE) -> tuple[ev.Payload, ...]:
    return began(index, before), finish(index, page=page)


def of_step(
    state: RunState,
    index: int,
    page: Fingerprint | None = None,
    checks: tuple[ev.CheckResult, ...] | None = None,
) -> str | None:
    seen = None if page is None else Seen(page=page)
    return pre_fingerprint(state, state.plan.steps[index], state.steps[index], seen, checks)


def pre_states(state: RunState) -> list[str | None]:
    return [step.pre_state for step in ledger_document(state).steps]


# What is found


def test_a_step_in_the_browser_begins_from_the_page_that_the_last_one_left() -> None:
    state = tell(run_of(browser(0), shell(1), browser(2), gate(3)), *browsed(0, HOME), *performed(1))
    assert of_step(state, 2) == page_digest(HOME)
    assert of_step(state, 3) == page_digest(HOME), "an approval counts for a page"
    assert of_step(state, 2, page=DONE) == page_digest(DONE), "it has just been left, and is not recorded yet"
    assert page_before(state, 0) is None


def test_where_no_page_was_opened_yet_that_is_said_of_steps_in_the_browser_alone() -> None:
    state = run_of(browser(0), gate(1), shell(2))
    assert [of_step(state, index) for index in range(3)] == [NO_PAGE, None, None]


def test_a_page_is_known_by_its_digest_alone() -> None:
    assert page_digest(None) is None
    assert page_digest(HOME) != page_digest(DONE)
    kind, _, digits = str(page_digest(HOME)).partition(":")
    assert (kind, len(digits)) == ("page", 64)


def test_without_a_workspace_a_step_begins_from_what_its_checks_say() -> None:
    state = run_of(shell(0))
    found = of_step(state, 0, checks=CHECKS)
    assert found is not None and found.startswith("checks:")
    other = (CHECKS[1], CHECKS[1])
    assert of_step(state, 0, checks=other) != found
    assert of_step(state, 0, checks=(ev.CheckResult("file out", False, "secret"), CHECKS[1])) == found
    assert of_step(state, 0, checks=()) is None


def test_what_a_failed_attempt_left_is_not_what_the_step_began_from() -> None:
    state = tell(run_of(browser(0), browser(1, BrowserVerb.CLICK)), *browsed(0, HOME))
    state = tell(state, began(1, "page:a"), fail(1))
    assert of_step(state, 1, page=DONE) == "page:a"


# What is shown


def test_the_ledger_shows_the_page_of_browser_steps_and_the_tree_of_all_others() -> None:
    state = run_of(browser(0), shell(1), browser(2), gate(3), shell(4))
    state = tell(state, began(0, NO_PAGE, pre_state="t0"), finish(0, page=HOME))
    state = tell(state, start(1, pre_fingerprint="checks:a"), finish(1))
    state = tell(state, start(2, kind="browser", pre_state="t2"), finish(2))
    state = tell(state, began(3, "page:b", kind="approve"), finish(3))
    assert pre_states(state) == ["page:none", "t1", "t2", "page:b", None]


def test_a_page_is_never_taken_for_a_tree() -> None:
    state = tell(run_of(browser(0)), began(0, "page:a", pre_state="t0"), finish(0))
    assert (state.steps[0].beginning.pre_state, state.steps[0].beginning.pre_fingerprint) == ("t0", "page:a")


# What becomes of it


def test_a_reused_step_began_from_what_it_began_from_there() -> None:
    reused = ev.StepReused(
        **about(0, None), from_run_id="r0", verdict="passed", kind="browser", args_digest="a", pre_state=None,
        page=HOME, pre_fingerprint="page:a",
    )  # fmt: skip
    state = tell(run_of(browser(0), browser(1)), reused)
    assert pre_states(state) == ["page:a", None]
    assert of_step(state, 1) == page_digest(HOME)


def test_a_rebuild_changes_nothing_about_what_a_step_began_from() -> None:
    state = tell(run_of(browser(0), browser(1)), *browsed(0, HOME), *browsed(1, DONE, "page:a"))
    state = tell(state, start(1, 2, phase="rebuild", pre_fingerprint="page:b"), finish(1, 2, phase="rebuild"))
    assert pre_states(state) == [NO_PAGE, "page:a"]


def invalidated(index: int) -> ev.StepInvalidated:
    return ev.StepInvalidated(**about(index, None), reason="the page is gone")


def test_a_step_that_stays_done_keeps_what_it_began_from_when_pages_are_lost() -> None:
    state = tell(run_of(browser(0), shell(1), browser(2), shell(3)), *browsed(0, HOME), *performed(1))
    state = tell(state, *browsed(2, DONE, "page:a"), start(3), fail(3))
    state = tell(state, invalidated(0), invalidated(2))
    assert pre_states(state) == [NO_PAGE, "t1", None, None], (
        "what failed behind them begins from something else"
    )
    assert state.steps[3].spent.marks == ()


@given(st.integers(2, 6), st.data())
def test_from_the_second_step_that_is_invalidated_on_no_beginning_is_left(count: int, data: Any) -> None:
    first = data.draw(st.integers(0, count - 1))
    state = run_of(*(browser(index) for index in range(count)))
    for index in range(count):
        state = tell(state, *browsed(index, HOME, f"page:{index}"))
    state = tell(state, *(invalidated(index) for index in range(first, count)))
    kept = [f"page:{index}" for index in range(first + 1)]
    assert pre_states(state) == [*kept, *[None] * (count - first - 1)]


@pytest.mark.parametrize("verb", list(BrowserVerb))
def test_every_verb_has_a_beginning(verb: BrowserVerb) -> None:
    assert of_step(run_of(browser(0, verb)), 0) == NO_PAGE
