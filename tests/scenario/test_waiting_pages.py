"""Pages of runs that wait for a person, with real workers: kept open, closed, and proven again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.commands import Started
from tests.integration.browser_house import needs_browser
from tests.scenario.conftest import kill, processes_of
from tests.scenario.fleets import Fleet, eventually

from recoup.testing.pages import Answer, Asked, Site

pytestmark = needs_browser


def invoice(site: Site, _asked: Asked) -> Answer:
    total = "100" if site.version == 1 else "99,999"
    return Answer(
        f"<!doctype html><html lang=en><title>Invoice</title><p id=total>Total: {total} EUR</p>"
        '<button onclick="panel.hidden = false">More</button>'
        "<div id=panel hidden><label>Note <input id=note></label>"
        "<button onclick=\"fetch('/paid/' + note.value, {method: 'POST'}).then(() => { said.textContent = 'paid' })\">"
        "Pay</button></div><p id=said>open</p>"
    )


@pytest.fixture
def site(fleet: Fleet) -> Iterator[Site]:
    fleet.cli.env |= {
        "RECOUP_KEY": "-".join(["a", "key", "for", "this", "fleet"]),
        "RECOUP_LEASE_S": "10",  # a worker that loses its lease on a busy machine loses the page with it
    }
    with Site() as site:
        site.pages["/invoice"] = invoice
        site.pages["/paid/mine"] = lambda _site, _asked: Answer("ok")
        yield site


@pytest.fixture(autouse=True)
def short_waits(fleet: Fleet) -> None:
    """What is not on a page is not waited for as long as by default."""
    fleet.cli.obey(page_check_s=2, backoff_ms=10)


def plan(fleet: Fleet, site: Site) -> str:
    """The click that opens the panel must not be repeated, and what is typed is typed into the panel."""
    return fleet.cli.plan(f"""
        version: 1
        name: invoice
        steps:
          - {{id: open, browser: {{goto: "{site.url}/invoice"}}}}
          - {{id: total, browser: {{read: {{css: "#total", into: total}}}}}}
          - {{id: more, browser: {{click: {{role: button, name: More}}}}, expect: [{{visible: {{label: Note}}}}]}}
          - {{id: note, browser: {{fill: {{label: Note, value: mine}}}}}}
          - {{id: charge, run: 'echo charged >> "$JOURNAL"'}}
          - {{id: ask, approve: "Pay? ${{{{ steps.total.outputs.total }}}}"}}
          - {{id: pay, browser: {{click: {{role: button, name: Pay}}}}, expect: [{{text: paid}}]}}
    """)


def events(fleet: Fleet, run_id: str, kind: str) -> list[Any]:
    lines = fleet.cli("events", run_id, "--json").lines
    return [line["payload"] for line in lines if line["type"] == kind]


def approve(fleet: Fleet, run_id: str) -> None:
    assert fleet.cli("control", run_id, "approve", "--reason", "I saw it").code == 0


def has_page(fleet: Fleet, run_id: str) -> list[int]:
    """The workers that say that they keep the page of the run open, by their process ids."""
    return [one["pid"] for one in fleet.cli("workers", "--json").json if run_id in one["waitingPages"]]


def waiting_run(fleet: Fleet, site: Site, *workers: Started) -> str:
    run_id = fleet.submit(plan(fleet, site))
    fleet.until(run_id, "waiting")
    assert eventually(lambda: len(has_page(fleet, run_id)) == 1)
    assert len(fleet.cli("workers", "--json").json) == len(workers)
    return run_id


def test_of_two_workers_the_one_with_the_page_continues_on_it(fleet: Fleet, site: Site) -> None:
    workers = fleet.worker(number=1), fleet.worker(number=2)
    assert eventually(lambda: len(fleet.cli("workers", "--json").json) == 2)
    run_id = waiting_run(fleet, site, *workers)
    approve(fleet, run_id)
    fleet.until(run_id, "succeeded")
    assert len(site.posts("/paid/mine")) == 1, "what was typed before the gate was still there"
    assert fleet.lines() == ["charged"]
    assert events(fleet, run_id, "browser.page_lost") == [], "nothing had to be restored"
    assert events(fleet, run_id, "Escalated") == []
    (began,) = events(fleet, run_id, "task.run.started")
    (resumed,) = events(fleet, run_id, "task.run.resumed")
    assert resumed["worker"] == began["worker"]
    assert eventually(lambda: not processes_of(run_id))


@pytest.mark.parametrize("fleet", ["sqlite"], indirect=True)
def test_a_page_that_stayed_open_is_compared_with_what_its_address_says_now(fleet: Fleet, site: Site) -> None:
    run_id = waiting_run(fleet, site, fleet.worker())
    site.version = 2
    approve(fleet, run_id)
    asked = fleet.until(run_id, "escalated")
    assert not site.posts("/paid/mine"), "the approval was for another amount"
    assert {"total", "ask"} <= {one["stepId"] for one in events(fleet, run_id, "task.step.invalidated")}
    assert "more" in asked["reason"] and "says something else now" in asked["reason"]
    settled = fleet.cli(
        "control", run_id, "settle", "--step", "more", "--as", "not-done", "--reason", "open it again"
    )
    assert settled.code == 0, settled.err
    assert "99,999" in fleet.until(run_id, "waiting")["reason"], "the person is asked about what it says now"
    assert fleet.cli("control", run_id, "reject", "--reason", "too much").code == 0
    assert not site.posts("/paid/mine")
    assert fleet.lines() == ["charged"] * 2, "a step that may be repeated, after what it may rest on changed"


def test_a_page_whose_worker_was_killed_is_asked_about_once(fleet: Fleet, site: Site) -> None:
    first = fleet.worker(number=1)
    run_id = waiting_run(fleet, site, first)
    kill(first)
    assert eventually(lambda: not processes_of(run_id)), "its browser went with it"
    fleet.worker(number=1)
    approve(fleet, run_id)
    asked = fleet.until(run_id, "escalated")
    assert "only step more can restore it" in asked["reason"]
    settled = fleet.cli(
        "control", run_id, "settle", "--step", "more", "--as", "not-done", "--reason", "open it again"
    )
    assert settled.code == 0, settled.err
    fleet.until(run_id, "succeeded")
    assert len(site.posts("/paid/mine")) == 1
    assert fleet.lines() == ["charged"]
    assert len(events(fleet, run_id, "Escalated")) == 1
    assert events(fleet, run_id, "task.step.invalidated") == []


@pytest.mark.parametrize("fleet", ["sqlite"], indirect=True)
def test_no_more_browsers_are_kept_than_the_policy_says_and_none_for_a_run_that_has_ended(
    fleet: Fleet, site: Site
) -> None:
    fleet.cli.obey(waiting_browsers_max=1)
    fleet.worker()
    first = waiting_run(fleet, site, *fleet.cli.started[-1:])
    second = waiting_run(fleet, site, *fleet.cli.started[-1:])
    assert eventually(lambda: not processes_of(first)), "one browser may be kept, the latest"
    assert processes_of(second)
    assert fleet.cli("control", second, "cancel", "--reason", "enough").code == 0
    assert eventually(lambda: not processes_of(second))
