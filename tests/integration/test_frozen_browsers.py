"""A browser that does not answer is replaced by the next attempt, and nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from tests.integration.browser_house import LIMITS, POLICY, BrowserHouse, TestHooks, needs_browser, site

from recoup.clock import SystemClock
from recoup.model import events as ev
from recoup.model.failure import FailureKind
from recoup.model.ids import run_stream
from recoup.model.plan import BrowserAction, BrowserVerb, PageTextCheck, Repeat, Step, TextMatch
from recoup.model.run import RunStatus
from recoup.model.target import Target
from recoup.processes import orphans
from recoup.processes.keeper_main import PR_SET_CHILD_SUBREAPER, prctl
from recoup.processes.orphans import adopt
from recoup.processes.process_table import descendants, process_of, process_table
from recoup.testing.house import House, plan_of
from recoup.testing.pages import Answer, Site

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]
__all__ = ["site"]
SHORT = msgspec.structs.replace(LIMITS, settle_s=2, answer_s=1, close_s=1)
"""For a browser that will never answer; a healthy one does within milliseconds."""
TITLE = Target(css="h1")
BUTTON = "<title>Order</title><p id=said>nothing</p><button onclick=\"{does}; said.textContent = 'ordered'\">Order</button>"
ASKS = "const ask = new XMLHttpRequest(); ask.open('POST', '/order', false); ask.send()"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BrowserHouse]:
    one = BrowserHouse(tmp_path_factory.mktemp("browser"), SHORT)
    yield one
    await one.runtime.close()


@pytest_asyncio.fixture(loop_scope="module")
async def house(shared: BrowserHouse, site: Site) -> BrowserHouse:
    await shared.runtime.leave(shared.run_id)
    shared.hooks = TestHooks(deadline_s=600)
    site.asked.clear()
    return shared


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def library() -> list[int]:
    """The processes of the library that drives browsers."""
    own = [one.pid for one in process_table().values() if one.parent == os.getpid()]
    return [pid for pid in own if b"run-driver" in command(pid)]


def browser(guard: int) -> list[int]:
    """The browser's own process."""
    return [one.pid for one in descendants(process_table(), guard) if b"--type=" not in command(one.pid)]


def pages(guard: int) -> list[int]:
    return [one.pid for one in descendants(process_table(), guard) if b"--type=renderer" in command(one.pid)]


def profile_of(guard: int) -> Path:
    """The folder in which the browser keeps its profile."""
    (pid,) = browser(guard)
    flag = b"--user-data-dir="
    (word,) = [word for word in command(pid).split(b"\0") if word.startswith(flag)]
    return Path(os.fsdecode(word.removeprefix(flag)))


def freeze(pids: list[int]) -> None:
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


async def ended(pids: list[int]) -> None:
    """Returns when none of them runs any more."""
    while any(is_running(pid) for pid in pids):
        await asyncio.sleep(0.02)


def is_running(pid: int) -> bool:
    process = process_of(pid)
    return process is not None and process.state != "Z"


@pytest.fixture
def adopting() -> Iterator[None]:
    """As the commands are: what a killed process leaves is handed to this one."""
    adopt()
    yield
    prctl(PR_SET_CHILD_SUBREAPER, 0)
    orphans._adopting_pid.clear()


@pytest.mark.parametrize("which", ["browser", "page", "library"])
async def test_the_attempt_after_a_freeze_opens_another_browser_with_its_cookies(
    house: BrowserHouse, site: Site, which: str
) -> None:
    await house.done("goto", value=site.url + "/login")
    await house.done("goto", value=site.url + "/login")
    guard = house.hooks.keepers[-1].pid
    all_of_it = [guard, *(one.pid for one in descendants(process_table(), guard))]
    frozen = {"browser": browser(guard), "page": pages(guard), "library": library()}[which]
    freeze(frozen)
    first = await house.do("read", TITLE, into="who")
    assert first.kind is FailureKind.WATCHDOG and "does not answer" in first.detail
    second = await house.done("read", TITLE, into="who", attempt=2)
    assert second.outputs == {"who": "known"}, "the address and the cookies were kept"
    assert house.hooks.keepers[-1].pid != guard
    await ended([*all_of_it, *frozen])


@pytest.mark.usefixtures("adopting")
async def test_guards_whose_library_was_killed_do_not_stay_in_the_process_table(
    house: BrowserHouse, site: Site
) -> None:
    """A dead guard is handed to this process when the library ends, which may be after its browser was given up: the
    end of the next browser clears it away."""
    guards = []
    for _ in range(3):
        await house.done("goto", value=site.url + "/login")
        guards.append(house.hooks.keepers[-1].pid)
        for pid in library():
            os.kill(pid, signal.SIGKILL)
        await ended(guards)
        await house.runtime.leave(house.run_id)
    assert len(set(guards)) == 3
    assert [pid for pid in guards if process_of(pid) is not None] == []


async def test_a_library_that_was_frozen_when_its_browser_ended_leaves_no_profile(
    house: BrowserHouse, site: Site
) -> None:
    await house.done("goto", value=site.url + "/login")
    guard = house.hooks.keepers[-1].pid
    profile = profile_of(guard)
    assert profile.is_dir()
    frozen = library()
    freeze(frozen)
    for pid in browser(guard):
        os.kill(pid, signal.SIGKILL)
    await ended([guard])
    await house.runtime.leave(house.run_id)
    for pid in frozen:
        os.kill(pid, signal.SIGKILL)
    await ended(frozen)
    assert not profile.exists(), "it may hold cookies"


async def test_a_page_that_waits_for_a_slow_server_is_not_taken_for_a_frozen_one(
    house: BrowserHouse, site: Site, tmp_path: Path
) -> None:
    """Until the server answers, the browser runs nothing in the page that is left."""
    home = House(tmp_path, clock=SystemClock(), policy=POLICY, browser=house.runtime)
    site.show("/slow-server", "<h1>At last</h1>", delay_s=2 * SHORT.settle_s)
    url = site.show("/before", "<title>Before</title><a href=/slow-server>On</a>")
    on, words = Target(role="link", name="On"), Target(text="At last")
    actions = (
        BrowserAction(verb=BrowserVerb.GOTO, value=url),
        BrowserAction(verb=BrowserVerb.CLICK, target=on),
        BrowserAction(verb=BrowserVerb.READ, target=words, into="words"),
    )
    state = await home.run(plan_of(*(Step(id=one.verb.value, action=one) for one in actions)))
    assert state.status is RunStatus.SUCCEEDED, state.reason
    assert state.steps[2].results.outputs == {"words": "At last"}
    launched = [one.payload for one in home.seen if isinstance(one.payload, ev.AttemptLaunched)]
    assert [one.step_id for one in launched] == ["goto", "click", "read"]
    assert len({one.keeper for one in launched}) == 1, "all in one browser"


async def test_a_run_gets_past_a_browser_that_freezes_while_a_page_is_loaded(
    house: BrowserHouse, site: Site, tmp_path: Path
) -> None:
    home = House(tmp_path, clock=SystemClock(), policy=POLICY, browser=house.runtime)
    guards: list[int] = []

    def freezing(_site: Site, _asked: object) -> Answer:
        launched = [one.payload for one in list(home.seen) if isinstance(one.payload, ev.AttemptLaunched)]
        guards.append(launched[-1].keeper.pid)
        if len(guards) == 1:
            freeze(browser(guards[0]))
        return Answer("<h1>Here</h1>")

    site.pages["/freezing"] = freezing
    go = BrowserAction(verb=BrowserVerb.GOTO, value=site.url + "/freezing")
    limits = msgspec.structs.replace(Step(id="go", action=go).limits, timeout_s=2, max_attempts=2)
    state = await home.run(plan_of(Step(id="go", action=go, limits=limits)))
    assert state.status is RunStatus.SUCCEEDED, state.reason
    assert len(guards) == 2 and guards[0] != guards[1], "the second attempt has a browser of its own"
    (failed,) = [one.payload for one in home.seen if isinstance(one.payload, ev.AttemptFailed)]
    assert failed.facts.kind is FailureKind.WALL_TIMEOUT and "does not answer" in failed.summary


async def test_a_click_during_which_the_browser_froze_is_not_repeated_but_asked_about(
    house: BrowserHouse, site: Site, tmp_path: Path
) -> None:
    home = House(tmp_path, clock=SystemClock(), policy=POLICY, browser=house.runtime)

    def order(_site: Site, _asked: object) -> Answer:
        launched = [one.payload for one in list(home.seen) if isinstance(one.payload, ev.AttemptLaunched)]
        freeze(browser(launched[-1].keeper.pid))
        return Answer("ok")

    site.pages["/order"] = order
    go = BrowserAction(verb=BrowserVerb.GOTO, value=site.show("/shop", BUTTON.format(does=ASKS)))
    click = BrowserAction(verb=BrowserVerb.CLICK, target=Target(role="button", name="Order"))
    expect = (PageTextCheck(TextMatch(text="ordered")),)
    steps = Step(id="go", action=go), Step(id="order", action=click, expect=expect, repeat=Repeat.NEVER)
    state = await home.run(plan_of(*steps))
    assert state.status is RunStatus.ESCALATED
    assert len(site.posts("/order")) == 1
    failed = [
        one.payload
        for one in await home.ledger.read(run_stream("run-1"))
        if isinstance(one.payload, ev.AttemptFailed)
    ]
    assert [one.outcome_known for one in failed] == [False]
