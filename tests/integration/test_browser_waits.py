"""Targets that come late, pages that are kept for the next attempt, and pages that are loaded again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.browser_house import (
    FLOORS,
    POLICY,
    BrowserHouse,
    button,
    house,
    needs_browser,
    shared,
    site,
)

from recoup.clock import SystemClock
from recoup.model import events as ev
from recoup.model.failure import FailureKind
from recoup.model.outcome import Looking, Outcome
from recoup.model.plan import BrowserAction, BrowserVerb, Limits, Step
from recoup.model.run import RunStatus
from recoup.model.target import Element, Heal, HealMode, Target
from recoup.testing.house import House, plan_of
from recoup.testing.pages import Answer, Site

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]
__all__ = ["house", "shared", "site"]
HURRIED = msgspec.structs.replace(POLICY, page_target_s=0.3, page_heal_s=0.2, backoff_ms=20)
PATIENT = msgspec.structs.replace(HURRIED, step_timeout_seconds=600)
"""Who waits for the step's own time here does not come back before the test is given up."""


def late(after_ms: int, html: str = "<button>Go</button>") -> str:
    return (
        "<!doctype html><title>Late</title><h1>Soon</h1><div id=place></div><script>"
        f"setTimeout(() => {{ place.innerHTML = `{html}` }}, {after_ms})</script>"
    )


def loads(site: Site, path: str) -> int:
    return sum(asked.path == path for asked in site.asked)


def names_of(outcome: Outcome) -> set[str]:
    return {artifact.name for artifact in outcome.seen.artifacts} if outcome.seen else set()


async def until_it_works(house: BrowserHouse, verb: str, target: Target, **how: Any) -> tuple[Outcome, int]:
    """With as many attempts as a step has; and how many it took."""
    attempt = 1
    while (outcome := await house.do(verb, target, attempt=attempt, **how)).kind is not None and attempt < 3:
        attempt += 1
    return outcome, attempt


async def test_a_retry_waits_on_in_the_page_where_the_target_comes_late(
    house: BrowserHouse, site: Site
) -> None:
    policy = msgspec.structs.replace(POLICY, page_target_s=1)
    await house.done("goto", value=site.show("/late", late(2600)))
    outcome, attempts = await until_it_works(house, "click", button("Go"), policy=policy)
    assert (outcome.kind, attempts, loads(site, "/late")) == (None, 2, 1), outcome.detail
    assert outcome.seen is not None and outcome.seen.took_ms is not None
    assert outcome.seen.took_ms > 1000, "counted from the first look, so that the next run waits long enough"
    assert outcome.seen.waited


async def test_a_step_with_a_timeout_of_its_own_waits_for_its_target_in_the_first_attempt(
    house: BrowserHouse, site: Site
) -> None:
    await house.done("goto", value=site.show("/late", late(1500)))
    await house.done("click", button("Go"), policy=PATIENT, has_own_timeout=True)


@pytest.mark.parametrize("page", ["/form", "/polling"], ids=["at rest", "never at rest"])
async def test_a_target_that_does_not_come_within_the_steps_time_is_told_as_missing(
    house: BrowserHouse, site: Site, page: str
) -> None:
    await house.done("goto", value=site.url + page)
    policy = msgspec.structs.replace(HURRIED, step_timeout_seconds=1.5)
    outcome = await house.do("click", button("Never"), policy=policy, has_own_timeout=True)
    assert outcome.kind is FailureKind.TARGET_NOT_FOUND, outcome.detail
    assert "role 'button', name 'Never': no element matches the target (waited " in outcome.detail
    assert {"failure.jpg", "elements.json"} <= names_of(outcome)
    assert outcome.seen is not None and outcome.seen.resolution is not None


async def test_silence_does_not_end_the_wait_for_a_target(house: BrowserHouse, site: Site) -> None:
    policy = msgspec.structs.replace(PATIENT, step_idle_timeout_seconds=1)
    await house.done("goto", value=site.show("/late", late(2500)))
    await house.done("read", button("Go"), into="words", policy=policy, has_own_timeout=True)


async def test_a_heal_that_a_later_attempt_may_make_does_not_wait_for_the_steps_time(
    house: BrowserHouse, site: Site
) -> None:
    """A link that says the same is taken from level 1 on."""
    await house.done("goto", value=site.show("/linked", "<title>Linked</title><a href=/form>Approve</a>"))
    how: dict[str, Any] = {"policy": PATIENT, "has_own_timeout": True}
    async with asyncio.timeout(60):
        first = await house.do("click", button("Approve"), looking=Looking(floors=FLOORS, level_max=1), **how)
        assert first.kind is FailureKind.TARGET_NOT_FOUND, first.detail
        looser = Looking(floors=FLOORS, level=1, level_max=1)
        second = await house.done("click", button("Approve"), looking=looser, attempt=2, **how)
    assert second.seen is not None and second.seen.resolution is not None and second.seen.resolution.healed
    assert loads(site, "/linked") == 1


async def test_a_target_that_is_there_more_than_once_is_not_waited_for(
    house: BrowserHouse, site: Site
) -> None:
    await house.done("goto", value=site.url + "/invoices")
    async with asyncio.timeout(60):
        outcome = await house.do("click", button("Approve"), policy=PATIENT, has_own_timeout=True)
    assert outcome.kind is FailureKind.TARGET_AMBIGUOUS and "3 elements" in outcome.detail


async def test_a_misspelt_target_is_a_mistake_of_the_plan_once_it_had_all_its_time(
    house: BrowserHouse, site: Site
) -> None:
    """Healing is off, and what would be taken stands there the whole time."""
    recorded = Element(tag="button", role="button", name="Approve", text="Approve", id="go")
    target = Target(role="button", name="Aprove", recorded=recorded)
    await house.done("goto", value=site.show("/typo", "<button id=go>Approve</button>"))
    quick = msgspec.structs.replace(PATIENT, page_target_s=0.4, page_heal_s=0.2)
    off = Looking(floors=FLOORS, heal=HealMode.OFF)
    first = await house.do("click", target, policy=quick, looking=off)
    assert first.kind is FailureKind.LOW_CONFIDENCE, "it may come: the page is kept and looked at again"
    second = await house.do("click", target, policy=quick, looking=off, attempt=2)
    assert second.kind is FailureKind.HEAL_REFUSED, second.detail
    assert "would have been taken instead, but healing is off" in second.detail


async def test_a_button_that_is_enabled_late_and_an_option_that_comes_late_are_waited_for(
    house: BrowserHouse, site: Site
) -> None:
    """Longer than a target may usually take to be ready."""
    html = (
        "<title>Slow form</title><button disabled>Pay</button><select aria-label=Room></select><script>"
        "setTimeout(() => { document.querySelector('button').disabled = false }, 4000);"
        "setTimeout(() => { document.querySelector('select').innerHTML = '<option>Blue</option>' }, 4500)</script>"
    )
    await house.done("goto", value=site.show("/slow-form", html))
    how: dict[str, Any] = {"policy": PATIENT, "has_own_timeout": True}
    await house.done("click", button("Pay"), **how)
    await house.done("select", Target(role="combobox", name="Room"), values=("Blue",), **how)


async def test_a_tab_that_is_opened_late_is_waited_for_as_long_as_the_step_says(
    house: BrowserHouse, site: Site
) -> None:
    html = "<title>Opener</title><script>setTimeout(() => open('/form'), 1500)</script>"
    await house.done("goto", value=site.show("/opener", html))
    await house.done("tab", value="/form", policy=PATIENT, has_own_timeout=True)
    assert await house.words("button") == "Send"


@pytest.mark.parametrize(("own", "attempts"), [(False, 3), (True, 2)], ids=["default", "own timeout"])
async def test_a_page_that_comes_right_when_it_is_loaded_again_is_loaded_again_in_the_end(
    house: BrowserHouse, site: Site, own: bool, attempts: int
) -> None:
    """With a timeout of the step's own, the first attempt has given the page all the time there is."""
    whole = iter((False, True))
    site.pages["/flaky"] = lambda _site, _asked: Answer(
        f"<!doctype html><title>Flaky</title><h1>Soon</h1>{'<button>Go</button>' if next(whole) else ''}"
    )
    await house.done("goto", value=site.url + "/flaky")
    policy = msgspec.structs.replace(HURRIED, step_timeout_seconds=2) if own else HURRIED
    outcome, took = await until_it_works(house, "click", button("Go"), policy=policy, has_own_timeout=own)
    assert (outcome.kind, took, loads(site, "/flaky")) == (None, attempts, 2), outcome.detail


async def test_a_page_that_came_as_an_error_is_loaded_again_at_once(house: BrowserHouse, site: Site) -> None:
    answers = iter((Answer("<h1>Sorry</h1>", 500), Answer("<button>Go</button>")))
    site.pages["/sorry"] = lambda _site, _asked: next(answers)
    await house.done("goto", value=site.show("/before", "<a href=/sorry>On</a>"))
    await house.done("click", Target(role="link", name="On"))
    outcome, attempts = await until_it_works(house, "click", button("Go"), policy=HURRIED)
    assert (outcome.kind, attempts) == (None, 2), outcome.detail


async def test_a_page_that_did_not_come_at_all_is_asked_for_again_where_it_should_have_come_from(
    house: BrowserHouse, site: Site, unused_tcp_port: int
) -> None:
    dead = f"http://127.0.0.1:{unused_tcp_port}/"
    await house.done("goto", value=site.show("/before", f"<a href={dead}>On</a>"))
    await house.done("click", Target(role="link", name="On"))
    first = await house.do("click", button("Go"), policy=HURRIED)
    assert first.kind is FailureKind.TARGET_NOT_FOUND, first.detail
    second = await house.do("click", button("Go"), policy=HURRIED, attempt=2)
    assert second.kind is FailureKind.NAVIGATION_FAILED and "CONNECTION_REFUSED" in second.detail


async def test_what_a_step_expected_in_vain_is_looked_for_in_the_same_page_once_more(
    house: BrowserHouse, site: Site
) -> None:
    """Of a check that did not hold the browser hears nothing but that there is another attempt."""
    await house.done("goto", value=site.url + "/form")
    counts = []
    for attempt in (1, 2, 3):
        await house.done("read", Target(css="button"), into="words", attempt=attempt)
        counts.append(loads(site, "/form"))
    assert counts == [1, 1, 2]


async def test_a_second_look_at_the_same_page_is_no_lack_of_progress(
    house: BrowserHouse, site: Site, tmp_path: Path
) -> None:
    """Where no attempt may be more tolerant than the first: the page is kept, then loaded again, and no step repeated."""
    home = House(tmp_path, clock=SystemClock(), policy=HURRIED, browser=house.runtime)
    go = BrowserAction(verb=BrowserVerb.GOTO, value=site.url + "/form")
    click = BrowserAction(verb=BrowserVerb.CLICK, target=button("Never"))
    never = Step(id="never", action=click, heal=Heal(max_level=0), limits=Limits(max_attempts=3))
    state = await home.run(plan_of(Step(id="go", action=go), never))
    assert state.status is RunStatus.FAILED and state.counts.resets == 0, state.reason
    failed = [one.payload for one in home.seen if isinstance(one.payload, ev.AttemptFailed)]
    assert [one.facts.kind for one in failed] == [FailureKind.TARGET_NOT_FOUND] * 3
    assert loads(site, "/form") == 2
