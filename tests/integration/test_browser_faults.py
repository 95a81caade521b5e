"""What goes wrong in a browser, and how it is told."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import msgspec
import pytest
from tests.integration.browser_house import (
    LIMITS,
    POLICY,
    BrowserHouse,
    button,
    house,
    needs_browser,
    shared,
    site,
)

from recoup.errors import LeaseLost
from recoup.kernel.classify import classify
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.outcome import Outcome, Restored
from recoup.model.plan import UrlCheck
from recoup.model.policy import Policy
from recoup.model.target import Target
from recoup.processes.process_table import descendants, process_table
from recoup.testing.pages import Site

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]
__all__ = ["house", "shared", "site"]


def class_of(outcome: Outcome) -> FailureClass:
    assert outcome.kind is not None
    facts = Facts(
        kind=outcome.kind,
        agent_event=outcome.agent_event,
        retry_after_s=outcome.retry_after_s,
        excerpt=outcome.detail,
    )
    return classify(facts, Policy())


@pytest.mark.parametrize(
    ("path", "kind", "cls"),
    [
        ("/nowhere", FailureKind.HTTP_ERROR, FailureClass.DETERMINISTIC_CONTRACT),
        ("/broken", FailureKind.HTTP_ERROR, FailureClass.TRANSIENT_RUNTIME),
        ("/busy", FailureKind.RATE_LIMITED, FailureClass.COOLDOWN),
    ],
)
async def test_an_answer_that_is_an_error_fails_the_goto(
    house: BrowserHouse, site: Site, path: str, kind: FailureKind, cls: FailureClass
) -> None:
    outcome = await house.do("goto", value=site.url + path)
    assert outcome.kind is kind and class_of(outcome) is cls and outcome.outcome_known
    assert outcome.retry_after_s == (7 if path == "/busy" else None)
    assert any(word in outcome.detail for word in ("404", "500", "503"))


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://nowhere.invalid/", FailureKind.NAVIGATION_FAILED),
        ("http://127.0.0.1:{free}/", FailureKind.NAVIGATION_FAILED),
        ("nonsense://x", FailureKind.INVALID_INPUT),
    ],
)
async def test_a_page_that_cannot_be_loaded_is_told(
    house: BrowserHouse, unused_tcp_port: int, url: str, kind: FailureKind
) -> None:
    outcome = await house.do("goto", value=url.format(free=unused_tcp_port))
    assert outcome.kind is kind, outcome.detail


async def test_a_navigation_that_hangs_ends_with_the_steps_time(house: BrowserHouse, site: Site) -> None:
    began = time.monotonic()
    outcome = await house.do("goto", value=site.url + "/hanging", policy=Policy(step_timeout_seconds=0.7))
    assert outcome.kind is FailureKind.WALL_TIMEOUT and time.monotonic() - began < 20
    await house.done("goto", value=site.url + "/form", attempt=2)


async def test_silence_is_noticed_before_the_steps_time_is_over(house: BrowserHouse, site: Site) -> None:
    policy = Policy(step_timeout_seconds=30, step_idle_timeout_seconds=0.6)
    outcome = await house.do("goto", value=site.url + "/hanging", policy=policy)
    assert outcome.kind is FailureKind.IDLE_TIMEOUT and outcome.idle_ms >= 600


async def test_a_page_whose_scripts_never_end_does_not_hold_the_driver(
    house: BrowserHouse, site: Site
) -> None:
    url = site.show("/endless", "<button>Go</button><script>setTimeout(() => { for (;;); }, 400)</script>")
    outcome = await house.do("goto", value=url)
    if outcome.kind is None:  # on a slow machine the page is stuck before it was looked at
        await asyncio.sleep(0.5)
        outcome = await house.do("click", button("Go"))
    assert outcome.kind in (FailureKind.WATCHDOG, FailureKind.TARGET_BLOCKED), outcome.detail
    await house.done("goto", value=site.url + "/form", attempt=2)
    assert await house.words("button") == "Send"


async def test_stop_ends_an_attempt_at_once_and_concludes_nothing(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/form")
    asyncio.get_running_loop().call_later(0.3, house.hooks.stop.set)
    began = time.monotonic()
    outcome = await house.do("wait", button("Never"))
    assert outcome.interrupted and outcome.kind is None and time.monotonic() - began < 15


async def test_nothing_is_clicked_when_the_lease_has_run_out(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/invoices")
    # As after a freeze of the driver: time has passed since the lease was last renewed, and nobody has noticed yet.
    attempt = button("Approve", near="INV-1001")
    house.ahead_s = 1000
    try:
        with pytest.raises(LeaseLost):
            await house.do("click", attempt)
    finally:
        house.ahead_s = 0
    assert not site.posts("/approved")


async def test_a_crashed_page_is_loaded_anew_by_the_next_attempt(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/invoices")
    kill_renderers(house)
    outcome = await house.do("click", button("Approve", near="INV-1001"))
    assert outcome.kind is FailureKind.BROWSER_CRASHED or outcome.kind is None, outcome.detail
    await house.done("click", button("Approve", near="INV-1001"), attempt=2)
    assert await house.words("#state") == "Approved 1001"


async def test_tabs_keep_their_numbers_when_one_crashes(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/invoices")
    await house.done("tab", value="new")
    await house.done("goto", value=site.url + "/form")
    await house.done("tab", value="1")
    kill_renderers(house)
    for which, address in (("1", "**/invoices"), ("2", "**/form"), ("1", "**/invoices")):
        for attempt in range(1, 5):
            if (await house.do("tab", value=which, attempt=attempt)).kind is None:
                break
        held, words = await house.examine(UrlCheck(address))
        assert held, words


async def test_a_browser_that_was_killed_is_opened_again_with_its_cookies(
    house: BrowserHouse, site: Site
) -> None:
    await house.done("goto", value=site.url + "/login")
    keeper = house.hooks.keepers[-1]
    os.kill(keeper.pid, signal.SIGKILL)
    outcome = await house.do("read", Target(css="h1"), into="who")
    if outcome.kind is not None:
        assert (
            outcome.kind is FailureKind.BROWSER_CRASHED
            and class_of(outcome) is FailureClass.TRANSIENT_RUNTIME
        )
        outcome = await house.do("read", Target(css="h1"), into="who", attempt=2)
    assert outcome.kind is None and outcome.outputs == {"who": "known"}
    assert house.hooks.keepers[-1] != keeper


async def test_what_was_typed_into_a_lost_page_is_not_forgotten_in_silence(
    house: BrowserHouse, site: Site
) -> None:
    """A form that comes back empty must not be sent."""
    await house.done("goto", value=site.url + "/form")
    await house.done("fill", Target(label="Your name"), value="Ada")
    os.kill(house.hooks.keepers[-1].pid, signal.SIGKILL)
    kinds = []
    for attempt in (1, 2, 3):
        outcome = await house.do("click", Target(test_id="send"), attempt=attempt)
        kinds.append(outcome.kind)
    assert kinds[-1] is FailureKind.RUNTIME_DRIFT
    assert not site.posts("/sent")
    await house.done("goto", value=site.url + "/form")


async def test_the_third_attempt_loads_the_page_again_unless_something_was_done_in_it(
    house: BrowserHouse, site: Site
) -> None:
    """The second one goes on with the page: its target may come late."""
    await house.done("goto", value=site.url + "/form")
    loads, policy = [], msgspec.structs.replace(POLICY, page_target_s=0.1, page_heal_s=0.1)
    for attempt in (1, 2, 3):
        await house.do("click", button("Never"), attempt=attempt, policy=policy)
        loads.append([asked.path for asked in site.asked].count("/form"))
    assert loads == [1, 1, 2]
    await house.done("fill", Target(label="Your name"), value="Ada")
    for attempt in (1, 2, 3):
        await house.do("click", button("Not even now"), attempt=attempt, policy=policy)
    assert [asked.path for asked in site.asked].count("/form") == 2
    field = await house.done("read", Target(label="Your name"), into="name")
    assert field.outputs == {"name": "Ada"}


async def test_a_hard_reset_keeps_nothing(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/login")
    await house.done("goto", value=site.url + "/login")
    assert await house.words("h1") == "known"
    await house.runtime.leave(house.run_id)
    await house.done("goto", value=site.url + "/login")
    assert await house.words("h1") == "stranger"


async def test_a_run_goes_on_elsewhere_with_its_cookies_and_storage(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/login")
    before, kept = await house.runtime.fingerprint(house.run_id), await house.runtime.keep(house.run_id)
    assert kept is not None and before is not None
    await house.runtime.leave(house.run_id)
    assert await house.runtime.keep(house.run_id) is None
    restored = await house.runtime.restore(house.run_id, kept, POLICY, house.hooks.lifeline)
    assert restored == Restored(before)
    outcome = await house.done("read", Target(css="h1"), into="who")
    assert outcome.outputs == {"who": "known"}
    assert await house.words("#who") == "somebody"


async def test_a_form_does_not_come_back_empty_as_if_nothing_had_been_typed(
    house: BrowserHouse, site: Site
) -> None:
    await house.done("goto", value=site.url + "/form")
    await house.done("fill", Target(label="Your name"), value="Ada")
    typed = await house.runtime.keep(house.run_id)
    await house.done("click", Target(test_id="send"))
    sent = await house.runtime.keep(house.run_id)
    assert typed is not None and sent is not None
    lifeline = house.hooks.lifeline
    assert (await house.runtime.restore(house.run_id, typed, POLICY, lifeline)).missing == ("step",)
    assert (await house.runtime.restore(house.run_id, sent, POLICY, lifeline)).missing == ()


async def test_without_a_browser_the_step_says_what_to_do(house: BrowserHouse) -> None:
    house.environ["RECOUP_BROWSER"] = "/nowhere/chromium"
    try:
        await house.runtime.leave(house.run_id)
        outcome = await house.do("goto", value="about:blank")
    finally:
        del house.environ["RECOUP_BROWSER"]
    assert outcome.kind is FailureKind.SPAWN_FAILED and "RECOUP_BROWSER" in outcome.detail


@pytest.mark.parametrize(
    ("ends", "cls"),
    [
        ("kill -9 $$", FailureClass.TRANSIENT_RUNTIME),
        (
            "echo 'chromium: error while loading shared libraries: libnss3.so' >&2; exit 127",
            FailureClass.DETERMINISTIC_CONTRACT,
        ),
    ],
    ids=["killed", "incomplete"],
)
async def test_a_browser_that_was_killed_while_it_started_is_tried_again_and_one_that_lacks_something_is_not(
    house: BrowserHouse, tmp_path: Path, ends: str, cls: FailureClass
) -> None:
    program = tmp_path / "chromium"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "Chromium 140.0" && exit\n{ends}\n')
    program.chmod(0o755)
    house.environ["RECOUP_BROWSER"] = str(program)
    try:
        await house.runtime.leave(house.run_id)
        outcome = await house.do("goto", value="about:blank")
    finally:
        del house.environ["RECOUP_BROWSER"]
    assert "the browser did not start" in outcome.detail
    assert class_of(outcome) is cls, outcome.detail


async def test_a_browser_that_opens_no_context_in_time_did_not_start(tmp_path: Path) -> None:
    house = BrowserHouse(tmp_path, msgspec.structs.replace(LIMITS, open_s=0))
    try:
        outcome = await house.do("goto", value="about:blank")
        assert (
            outcome.detail == "the browser did not start: it did not answer in time; the machine may be busy"
        )
        assert class_of(outcome) is FailureClass.TRANSIENT_RUNTIME
    finally:
        await house.runtime.close()


async def test_a_css_that_is_none_is_the_plans_fault(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/form")
    outcome = await house.do("click", Target(css="p[[["))
    assert outcome.kind is FailureKind.INVALID_INPUT and "p[[[" in outcome.detail


async def test_cookies_from_before_and_after_the_loss_of_the_network_process_are_kept(
    house: BrowserHouse, site: Site
) -> None:
    set_cookies = "".join(
        f"<button onclick=\"document.cookie = '{name}=1'; said.textContent = '{name} is set'\">{name}</button>"
        for name in ("first", "second")
    )
    await house.done("goto", value=site.show("/cookies", f"{set_cookies}<p id=said>none</p>"))
    await house.done("click", Target(role="button", name="first"))
    kill_below(house, b"network.mojom.NetworkService")
    await house.done("click", Target(role="button", name="second"))
    kept = await house.runtime.keep(house.run_id)
    assert kept is not None
    _url, _touched_by, storage = json.loads(kept)
    assert {cookie["name"] for cookie in storage["cookies"]} == {"first", "second"}
    assert await house.runtime.fingerprint(house.run_id) is None, "the browser is of no use any more"


def kill_renderers(house: BrowserHouse) -> None:
    """As the system does when memory runs out."""
    kill_below(house, b"--type=renderer")


def kill_below(house: BrowserHouse, mark: bytes) -> None:
    for process in descendants(process_table(), house.hooks.keepers[-1].pid):
        if mark in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            os.kill(process.pid, signal.SIGKILL)
