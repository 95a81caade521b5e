"""When a worker may take a run up, and which worker may."""

from __future__ import annotations

import pytest

from recoup.kernel.backoff import due_in_s
from recoup.kernel.fold import fold
from recoup.model.events import Event, Payload, RunFailed, RunStarted, RunSubmitted
from recoup.model.ids import ProcessIdentity, run_stream
from recoup.model.instant import Instant
from recoup.model.plan import AgentAction, Handler, Plan, RunAction, Step
from recoup.model.run import RunState
from recoup.steps.registry import needs_of

NOW = Instant(1_800_000_000_000_000, 5_000_000, "boot-1")
OWNER = ProcessIdentity("here", "boot-1", 7, 1)


def submitted(not_before_us: int = 0) -> RunSubmitted:
    return RunSubmitted(
        workflow="w",
        plan_digest="p",
        plan=Plan(name="w", steps=()),
        plan_redacted=False,
        inputs={},
        policy_digest="q",
        queue="default",
        not_before_us=not_before_us,
    )


def failed(*, retryable: bool = True, delivery: int = 1) -> RunFailed:
    return RunFailed(
        reason="no", failure_class=None, failure_kind=None, retryable=retryable, delivery=delivery
    )


def told(*payloads: Payload) -> RunState:
    events = [
        Event(run_stream("r"), number, NOW, payload.TYPE, payload, b"{}")
        for number, payload in enumerate(payloads, 1)
    ]
    return fold("r", events)


def test_a_run_that_was_just_submitted_is_due() -> None:
    assert due_in_s(told(submitted()), NOW) == 0


@pytest.mark.parametrize(("later_s", "due_s"), [(0, 60), (45, 15), (60, 0), (1e9, 0)])
def test_a_run_that_must_wait_for_a_time_is_due_then(later_s: float, due_s: float) -> None:
    state = told(submitted(NOW.plus_s(60).wall_us))
    assert due_in_s(state, NOW.plus_s(later_s)) == due_s


def test_what_has_begun_does_not_wait_for_its_time_again() -> None:
    started = RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest="q")
    assert due_in_s(told(submitted(NOW.plus_s(60).wall_us), started), NOW) == 0


@pytest.mark.parametrize(("delivery", "waits_s"), [(1, 15), (2, 30), (7, 600), (0, 15)])
def test_a_failed_delivery_waits_the_longer_the_more_there_were(delivery: int, waits_s: float) -> None:
    state = told(submitted(), failed(delivery=delivery))
    assert due_in_s(state, NOW) == waits_s
    assert due_in_s(state, NOW.plus_s(waits_s - 5)) == pytest.approx(5)
    assert due_in_s(state, NOW.plus_s(waits_s + 5)) == 0


def test_a_clock_that_was_set_back_makes_nobody_wait_longer_than_once() -> None:
    state = told(submitted(), failed())
    rebooted = Instant(NOW.wall_us - 3_600_000_000, 1_000_000, "boot-2")
    assert due_in_s(state, rebooted) == 15


def test_what_cannot_be_tried_again_is_not_waited_for() -> None:
    assert due_in_s(told(submitted(), failed(retryable=False)), NOW) == 0


def test_a_delivery_that_could_not_begin_leaves_a_run_that_has_not_begun() -> None:
    state = told(submitted(), failed(delivery=1))
    assert (state.begun, state.driver.delivery) == (False, 1)


def test_agents_need_a_worker_that_has_them() -> None:
    plain = Step(id="a", action=RunAction("true"))
    agent = AgentAction("claude", "do it")
    assert needs_of(Plan(name="w", steps=(plain,))) == frozenset()
    assert needs_of(Plan(name="w", steps=(plain, Step(id="b", action=agent)))) == {"agent"}
    rescued = Step(id="b", action=RunAction("true"), rescue=(Handler(action=agent),))
    assert needs_of(Plan(name="w", steps=(plain, rescued))) == {"agent"}
