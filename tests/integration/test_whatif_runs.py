"""Recorded runs, decided again: under their own policies nothing differs, and under others what does is told honestly."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.engine.forcing import force_mode
from recoup.kernel.policies import policy_digest
from recoup.kernel.whatif import Replayed, decisions, is_decision, replay
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.answers.whatif import DifferenceKind
from recoup.model.events import AttemptFailed, Event
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.ids import run_stream
from recoup.model.mode import Mode
from recoup.model.outcome import Outcome
from recoup.model.plan import (
    BrowserAction,
    BrowserVerb,
    Handler,
    Limits,
    Plan,
    Repeat,
    RunAction,
    Step,
    UrlCheck,
)
from recoup.model.policy import Policy
from recoup.model.run import RunStatus
from recoup.model.target import Element, HealMode, Target
from recoup.simulation.invariants import read_record
from recoup.simulation.replaying import WhatIf, modes_that_differ, what_if
from recoup.simulation.storm import Size, Storm
from recoup.testing.browser import Guess, ScriptedBrowser, ScriptedPage, ScriptedSite
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import SUCCESS, ScriptedRuntime, exits, hangs

RESET = exits(56, "curl: (56) Recv failure: connection reset by peer")
WRONG = exits(2, "AssertionError: the sum is wrong")
ODD = exits(3, "something that nobody has seen before")
LIMITED = exits(1, "too many requests, retry after 30")
KILLED = Outcome(kind=FailureKind.SIGNALLED, outcome_known=False, signal=9)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    one = House(tmp_path)
    yield one
    await one.ledger.close()


async def recorded(house: House, script: dict[str, list[Outcome]], *steps: str | Step) -> list[Event]:
    house.world.runtimes["run"] = ScriptedRuntime(script)  # type: ignore[index]
    await house.run(plan_of(*(steps or ("a",))))
    return await house.ledger.read(run_stream("run-1"))


async def under(house: House, events: list[Event], **keys: object) -> Replayed:
    new = msgspec.structs.replace(house.policy, **keys)
    return replay("run-1", events, await policies(house, events), new)


async def policies(house: House, events: list[Event]) -> dict[str, Policy].get:  # type: ignore[valid-type]
    known: dict[str, Policy] = {}
    for event in events:
        digest = getattr(event.payload, "policy_digest", None)
        if digest and (body := await house.ledger.policy_body(digest)):
            known[digest] = msgspec.json.decode(body, type=Policy)
    return known.get


OUTCOMES = st.sampled_from(
    [SUCCESS, RESET, WRONG, ODD, LIMITED, KILLED, hangs(), hangs(FailureKind.WALL_TIMEOUT)]
)
POLICIES = st.builds(
    Policy,
    step_max_attempts=st.integers(1, 5),
    step_no_progress_limit=st.integers(2, 4),
    unknown_retries_max=st.integers(0, 2),
    run_retries_max=st.integers(0, 4),
    retry_tokens=st.sampled_from([2.0, 100.0]),
    run_timeout_seconds=st.sampled_from([5.0, 86_400.0]),
    backoff_ms=st.sampled_from([0, 500]),
    redeliver_classes=st.sampled_from([(), (FailureClass.TRANSIENT_RUNTIME,)]),
    polls=st.booleans(),
)


@settings(max_examples=40, deadline=None)
@given(
    first=st.lists(OUTCOMES, max_size=5),
    second=st.lists(OUTCOMES, max_size=5),
    policy=POLICIES,
    attempts=st.sampled_from([None, 4]),
    never=st.booleans(),
    handled=st.booleans(),
)
def test_under_the_policy_that_they_name_all_decisions_are_made_again(
    first: list[Outcome],
    second: list[Outcome],
    policy: Policy,
    attempts: int | None,
    never: bool,
    handled: bool,
) -> None:
    async def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            house = House(Path(folder), policy=policy)
            step = Step(
                id="b",
                action=RunAction("true"),
                limits=Limits(max_attempts=attempts),
                repeat=Repeat.NEVER if never else Repeat.SAFE,
                rescue=(Handler(action=RunAction("rescue")),) if handled else (),
                always=(Handler(action=RunAction("always")),) if handled else (),
            )
            events = await recorded(house, {"a": first, "b": second}, "a", step)
            known = await policies(house, events)
            made = list(decisions("run-1", events, known))
            assert [then for _, then, _ in made] == [again for _, _, again in made]
            assert len(made) == sum(is_decision(event.payload) for event in events)
            assert replay("run-1", events, known, None).differences == []
            assert replay("run-1", events, known, policy).verdict == "same"
            await house.ledger.close()

    asyncio.run(check())


BROWSER_OUTCOMES = st.sampled_from(
    [
        *(
            Outcome(kind=kind, detail=kind)
            for kind in FailureKind
            if kind.value.startswith(("target", "heal", "nav"))
        ),
        Outcome(kind=FailureKind.LOW_CONFIDENCE, detail="Approve: nothing like it"),
        Outcome(kind=FailureKind.BROWSER_CRASHED, detail="gone", outcome_known=False),
    ]
)


@settings(max_examples=40, deadline=None)
@given(
    fails=st.lists(BROWSER_OUTCOMES, max_size=5),
    there=st.sampled_from(["Approve", "Confirm", "Other"]),
    policy=POLICIES,
    heal=st.sampled_from(list(HealMode)),
    attempts=st.sampled_from([None, 4]),
    deliveries=st.integers(1, 5),
)
def test_runs_in_a_browser_are_the_same_under_the_policy_in_force(
    fails: list[Outcome],
    there: str,
    policy: Policy,
    heal: HealMode,
    attempts: int | None,
    deliveries: int,
) -> None:
    """What became of a target is recorded between a failure and what follows from it."""

    async def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            in_force = msgspec.structs.replace(policy, heal=heal)
            house = House(Path(folder), policy=in_force, browser=_browser(there, fails))
            await house.run(_clicks(attempts))
            for _ in range(deliveries):
                if (
                    state := await house.state("run-1")
                ).status is not RunStatus.FAILED or not state.failure.retryable:
                    break
                await (await house.driver("run-1")).drive()
            events = await house.ledger.read(run_stream("run-1"))
            known = await policies(house, events)
            found = replay("run-1", events, known, in_force)
            assert (found.verdict, found.differences) == ("same", [])
            await house.ledger.close()

    asyncio.run(check())


def _browser(there: str, fails: list[Outcome]) -> ScriptedBrowser:
    button = Element(tag="button", role="button", name=there, text=there)
    pages = {"http://site/": ScriptedPage("Home", (button,)), "http://site/done": ScriptedPage("Done")}
    guesses = {"Approve": Guess("Confirm", 0.95, 1)}
    browser = ScriptedBrowser(ScriptedSite(pages, {there: "http://site/done"}), guesses)
    browser.fails = [*fails]
    return browser


def _clicks(attempts: int | None) -> Plan:
    limits = Limits(max_attempts=attempts)
    go = BrowserAction(verb=BrowserVerb.GOTO, value="http://site/")
    click = BrowserAction(verb=BrowserVerb.CLICK, target=Target(role="button", name="Approve"))
    done = UrlCheck("**/done")
    return plan_of(
        Step(id="go", action=go, limits=limits), Step(id="click", action=click, limits=limits, expect=(done,))
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_storm_under_its_own_policy_is_the_same_storm(seed: int, tmp_path: Path) -> None:
    """Every decision of every run, and every mode of every workflow, with operators, kills and jumps of the clock."""
    size = Size(runs=30, workflows=2, processes=2, trouble=0.5, unrest=0.7, policies_change=False)
    assert Storm(seed, size, tmp_path).rage().broken == []

    async def ask() -> tuple[WhatIf, int]:
        ledger = SqliteLedger(tmp_path / "ledger.db")
        record = await read_record(ledger)
        (submitted,) = {record.submission(run_id).policy_digest for run_id in record.runs}
        policy = record.policies[submitted]
        assert policy is not None
        found = await what_if(ledger, policy, submitted)
        await ledger.close()
        failed = [one for events in record.runs.values() for one in events]
        return found, sum(is_decision(one.event.payload) for one in failed)

    found, wanted = asyncio.run(ask())
    assert found.different == []
    assert modes_that_differ(found) == []
    assert found.same
    assert sum(tally.decisions for tally in found.workflows) == wanted > 0
    assert found.unseen_keys == []


async def test_fewer_attempts_save_some_and_lose_the_recovery(house: House) -> None:
    events = await recorded(house, {"a": [RESET, exits(56, "connection reset by peer again")]})
    found = await under(house, events, step_max_attempts=2)
    (difference,) = found.differences
    assert (found.verdict, difference.kind, difference.attempt) == (
        "stops_earlier",
        DifferenceKind.STOPS_EARLIER,
        2,
    )
    assert (difference.attempts_saved, difference.recovery_lost) == (1, True)
    assert difference.seconds_saved == pytest.approx(1.0, abs=0.1)
    assert "step_max_attempts: 2 of 2" in difference.instead


async def test_more_attempts_lead_into_an_unknown_future_with_a_bound(house: House) -> None:
    failures = [exits(56, f"connection reset by peer {word}") for word in ("one", "two", "three")]
    events = await recorded(house, {"a": failures})
    found = await under(house, events, step_max_attempts=7, run_retries_max=4)
    (difference,) = found.differences
    assert (found.verdict, difference.kind, difference.more_attempts_max) == (
        "goes_on",
        DifferenceKind.GOES_ON,
        2,
    )
    assert found.unknown_from == difference.seq + 1


async def test_another_wait_changes_nothing_else(house: House) -> None:
    events = await recorded(house, {"a": [RESET, exits(56, "connection reset by peer again")]})
    found = await under(house, events, backoff_ms=1_500)
    assert [one.kind for one in found.differences] == [DifferenceKind.OTHER_WAIT] * 2
    assert [one.seconds_saved for one in found.differences] == [-1.0, -2.0]
    assert (found.verdict, found.unknown_from) == ("other_wait", None)


async def test_a_class_of_the_users_own_is_looked_back_at_by_later_decisions(house: House) -> None:
    """Two unrecognised failures used both tries; known as transient they would not have."""
    odd = [exits(3, f"odd {word}") for word in ("one", "two")]
    events = await recorded(house, {"a": odd})
    assert [e.payload.failure_class for e in events if isinstance(e.payload, AttemptFailed)] == [
        "unknown"
    ] * 2
    found = await under(house, events, exit_codes={3: FailureClass.TRANSIENT_RUNTIME})
    assert [one.kind for one in found.differences] == [DifferenceKind.GOES_ON]
    assert found.decisions == 2


async def test_a_deterministic_class_stops_at_once(house: House) -> None:
    events = await recorded(house, {"a": [RESET]})
    found = await under(house, events, exit_codes={56: FailureClass.DETERMINISTIC_CONTRACT})
    assert (found.verdict, found.differences[0].recovery_lost) == ("stops_earlier", True)


@pytest.mark.parametrize(
    ("kind", "key", "limit", "told"),
    [
        (FailureKind.WALL_TIMEOUT, "step_timeout_seconds", 2_000.0, DifferenceKind.NOT_CUT_OFF),
        (FailureKind.IDLE_TIMEOUT, "step_idle_timeout_seconds", 2_000.0, DifferenceKind.NOT_CUT_OFF),
        (FailureKind.WALL_TIMEOUT, "step_timeout_seconds", 10.0, DifferenceKind.CUT_OFF),
    ],
)
async def test_a_timeout_under_another_limit_leads_into_the_unknown(
    house: House, kind: FailureKind, key: str, limit: float, told: DifferenceKind
) -> None:
    stopped = Outcome(kind=kind, outcome_known=False, duration_ms=900_000, idle_ms=300_000)
    events = await recorded(house, {"a": [stopped]})
    found = await under(house, events, **{key: limit})
    assert (found.verdict, found.differences[0].kind) == ("unknown", told)
    assert found.decisions == 0, "nothing is claimed about what follows"


async def test_an_attempt_that_passed_too_late_for_the_new_limit(house: House) -> None:
    events = await recorded(house, {"a": [exits(0, duration_ms=60_000)]})
    assert (await under(house, events, step_timeout_seconds=61)).verdict == "same"
    (found,) = (await under(house, events, step_timeout_seconds=30)).differences
    assert (found.kind, found.instead) == (
        DifferenceKind.CUT_OFF,
        "step_timeout_seconds: 30: would have been stopped",
    )
    (silent,) = (await under(house, events, step_idle_timeout_seconds=30)).differences
    assert "may have been stopped" in silent.instead


async def test_another_delivery_and_none(house: House) -> None:
    failures = [exits(56, f"connection reset by peer {word}") for word in ("one", "two", "three")]
    events = await recorded(house, {"a": failures})
    fewer = await under(house, events, delivery_max=1)
    assert [one.kind for one in fewer.differences] == [DifferenceKind.OTHER_END], (
        "no other delivery was recorded"
    )
    await (await house.driver("run-1")).drive()
    events = await house.ledger.read(run_stream("run-1"))
    (fewer_now,) = (await under(house, events, delivery_max=1)).differences
    assert (fewer_now.kind, fewer_now.attempts_saved, fewer_now.recovery_lost) == (
        DifferenceKind.STOPS_EARLIER,
        1,
        True,
    )


async def test_a_dead_letter_might_have_been_delivered_again(tmp_path: Path) -> None:
    house = House(tmp_path, policy=Policy(delivery_max=1, step_max_attempts=1))
    events = await recorded(house, {"a": [RESET]})
    (found,) = (await under(house, events, delivery_max=3)).differences
    assert (found.kind, found.more_attempts_max) == (DifferenceKind.GOES_ON, 2)
    await house.ledger.close()


async def test_a_run_that_had_less_time_would_have_stopped_before_its_next_attempt(house: House) -> None:
    events = await recorded(house, {"a": [LIMITED]})
    (found,) = (await under(house, events, run_timeout_seconds=20)).differences
    assert (found.kind, found.recovery_lost) == (DifferenceKind.STOPS_EARLIER, True)
    assert "run_timeout" in found.instead


async def test_a_policy_that_is_not_in_the_ledger_is_unknown(house: House) -> None:
    events = await recorded(house, {"a": [RESET]})
    found = replay("run-1", events, lambda _digest: None, Policy())
    assert (found.verdict, found.decisions) == ("unknown", 0)


# Modes


async def failing_runs(house: House, times: int, workflow: str = "workflow") -> None:
    for number in range(times):
        house.world.runtimes["run"] = ScriptedRuntime({"a": [WRONG] * 5})  # type: ignore[index]
        await house.run(plan_of("a", name=workflow), f"{workflow}-{number}")
        house.clock.advance(1)  # type: ignore[attr-defined]


async def ask(house: House, **keys: object) -> WhatIf:
    new = msgspec.structs.replace(house.policy, **keys)
    return await what_if(house.ledger, new, policy_digest(new))


async def test_a_quarantine_would_have_begun_earlier_and_blocked_runs(house: House) -> None:
    await failing_runs(house, 6)
    found = await ask(house, workflow_fail_max_in_window=4, workflow_count_min=200, workflow_count_window=200)
    (mode,) = modes_that_differ(found)
    assert [change.mode for change in mode.would_have_begun] == ["quarantined"]
    assert (mode.attempts_blocked, [one.run_id for one in mode.blocked]) == (
        2,
        ["workflow-4", "workflow-5"],
    )
    assert mode.results == 12, "two attempts and a step of each of four runs; the blocked ones count no more"
    assert found.different == [], "no decision about an attempt differs"
    assert not found.same


async def test_a_quarantine_would_not_have_begun(house: House) -> None:
    await failing_runs(house, 12)
    found = await ask(
        house, workflow_fail_max_in_window=100, workflow_count_min=100, workflow_count_window=100
    )
    (mode,) = modes_that_differ(found)
    assert [change.mode for change in mode.would_not_have_begun] == ["quarantined"]
    assert (mode.runs_not_blocked, mode.attempts_blocked) == (2, 0)


async def test_what_operators_said_stays_said(house: House) -> None:
    await failing_runs(house, 1)
    await force_mode(
        *(house.ledger, house.redactor, "workflow", Mode.DEGRADED),
        reason="because",
        actor="op",
        for_s=None,
        policy=house.policy,
        now=house.clock.now(),
    )
    await failing_runs(house, 0)
    found = await ask(house, quarantine_duration_s=60)
    assert found.same


# Many runs


async def test_only_the_runs_of_a_workflow_since_a_time_are_looked_at(house: House) -> None:
    await failing_runs(house, 3)
    cut_us = house.clock.now().wall_us
    await failing_runs(house, 2, "other")
    new = msgspec.structs.replace(house.policy, step_max_attempts=1, check_s=7)
    everything = await what_if(house.ledger, new, "d")
    assert (everything.runs, everything.unseen_keys) == (5, ["check_s"])
    assert (await what_if(house.ledger, new, "d", workflow="other")).runs == 2
    late = await what_if(house.ledger, new, "d", since_us=cut_us)
    assert [tally.workflow for tally in late.workflows] == ["other"]
