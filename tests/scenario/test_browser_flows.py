"""Flows in a real browser by the real command line: pages change, targets are gone, drivers are killed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.browser_house import needs_browser
from tests.integration.test_browser_processes import gone_within
from tests.scenario.conftest import Cli, Result, kill
from tests.scenario.test_kills import asked, run_ids

from recoup.model.ids import targets_stream
from recoup.processes.process_table import descendants, process_table
from recoup.testing.pages import Answer, Site

pytestmark = needs_browser
HEAD = "<!doctype html><html lang=en><title>Desk</title><h1>Desk</h1>"


def does(what: str) -> str:
    """A click that the server hears of, and that is then to be read on the page."""
    return f"onclick=\"fetch('/did/{what}', {{method: 'POST'}}).then(() => {{ said.textContent = 'done {what}' }})\""


def desk(site: Site) -> str:
    """Two versions: in the second, ids, classes, layout and wording are others."""
    if site.version == 1:
        return (
            f"{HEAD}<div><button id=approve class='btn a1' {does('approve')}>Approve</button>"
            f"<button id=save class='btn a2' {does('save')}>Save report</button></div><p id=said>nothing</p>"
        )
    return (
        f"{HEAD}<div><button id=k4 class=css-12 {does('approve')}>Approve invoice</button></div><p>New look</p>"
        f"<section><div><button id=k3 class=css-77 {does('save')}>Save report</button></div></section>"
        "<p id=said>nothing</p>"
    )


def framed(site: Site) -> str:
    return f"{HEAD}<iframe name=inner src=/inside width=500 height=200></iframe>"


def inside(site: Site) -> str:
    word = "Pay" if site.version == 1 else "Pay now"
    return f"<!doctype html><title>In</title><button {does('pay')}>{word}</button><p id=said>nothing</p>"


def shadowed(site: Site) -> str:
    word = "Sign" if site.version == 1 else "Sign contract"
    return (
        f"{HEAD}<p id=said>nothing</p><my-box></my-box><script>customElements.define('my-box', class extends "
        "HTMLElement { connectedCallback() { const root = this.attachShadow({mode: 'open'}); root.innerHTML = "
        f"'<button class=v{site.version}>{word}</button>'; root.querySelector('button').onclick = () => "
        "fetch('/did/sign', {method: 'POST'}).then(() => { said.textContent = 'done sign' }) } })</script>"
    )


def built_late(site: Site) -> str:
    """A page that its script builds when a slow answer has come; until then something else tempts."""
    word = "Book room" if site.version == 1 else "Book this room"
    return (
        f"{HEAD}<div id=place><button {does('wrong')}>Book later</button></div><p id=said>nothing</p><script>"
        "fetch('/late').then(() => { place.innerHTML = `<button class=v"
        f"{site.version} {does('book')}>{word}</button>` }})</script>"
    )


def restless(site: Site) -> str:
    """The button turns into another one again and again, the last time into itself: whoever looked may not click at once."""
    return (
        f"{HEAD}<div id=place></div><p id=said>nothing</p><script>let turns = 0; const draw = () => {{ place.innerHTML = "
        f"turns++ % 2 || turns > 9 ? `<button {does('send')}>Send offer</button>` : "
        f"`<button {does('wrong')}>Withdraw offer</button>` }}; draw();"
        "const again = setInterval(() => { draw(); if (turns > 9) clearInterval(again) }, 90)</script>"
    )


PAGES = {
    "/desk": desk,
    "/framed": framed,
    "/inside": inside,
    "/shadowed": shadowed,
    "/built": built_late,
    "/restless": restless,
}


@pytest.fixture(autouse=True)
def _pages_on_loopback(cli: Cli) -> None:
    """What is on them is there soon, or not at all."""
    cli.obey(page_quiet_s=0.1, page_target_s=1, page_heal_s=0.4)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        for path, page in PAGES.items():
            one.pages[path] = lambda site, _asked, page=page: Answer(page(site))  # type: ignore[misc]
        one.pages["/late"] = lambda _site, _asked: Answer("{}", delay_s=0.7)
        for what in ("approve", "save", "pay", "sign", "book", "send", "wrong"):
            one.pages[f"/did/{what}"] = lambda _site, _asked: Answer("{}")
        yield one


def done(site: Site) -> Counter[str]:
    return Counter(one.path.removeprefix("/did/") for one in site.asked if one.path.startswith("/did/"))


def loads(site: Site, path: str) -> int:
    return sum(one.path == path for one in site.asked)


def flow(url: str) -> str:
    return f"""
    version: 1
    name: desk
    heal: {{mode: apply}}
    steps:
      - browser: {{goto: "{url}/desk"}}
      - id: approve
        browser: {{click: {{role: button, name: Approve}}}}
        expect: [{{text: done approve}}]
      - id: save
        browser: {{click: {{css: "#save"}}}}
        expect: [{{text: done save}}]
      - browser: {{goto: "{url}/framed"}}
      - id: pay
        browser: {{click: {{role: button, name: Pay, frame: inner}}}}
        expect: [{{visible: {{text: done pay, frame: inner}}}}]
      - browser: {{goto: "{url}/shadowed"}}
      - id: sign
        browser: {{click: {{role: button, name: Sign}}}}
        expect: [{{text: done sign}}]
      - browser: {{goto: "{url}/built"}}
      - id: book
        browser: {{click: {{role: button, name: Book room}}}}
        expect: [{{text: done book}}]
      - browser: {{goto: "{url}/restless"}}
      - id: send
        browser: {{click: {{role: button, name: Send offer}}}}
        expect: [{{text: done send}}]
    """


def told(result: Result) -> str:
    """What there is to say of a run that did not end as it should."""
    failed = [
        event["payload"]
        for event in result.events
        if "failed" in event["type"] or "rejected" in event["type"]
    ]
    return f"{result.err}\n{failed}"


def observed(cli: Cli, workflow: str) -> set[str]:
    events = asked(cli, lambda ledger: ledger.read(targets_stream(workflow)))
    return {str(getattr(one.payload, "step_id", "")) for one in events if one.type == "target.observed"}


def test_a_flow_that_was_seen_once_heals_on_changed_pages_and_clicks_nothing_wrong(
    cli: Cli, site: Site
) -> None:
    plan = cli.plan(flow(site.url))
    clicks = ["approve", "save", "pay", "sign", "book", "send"]
    first = cli("run", plan, "--json", timeout=120)
    assert first.code == 0, told(first)
    assert done(site) == Counter(clicks)
    assert first.payloads("target.healed") == []
    assert observed(cli, "desk") == set(clicks)

    site.version = 2
    site.asked.clear()
    second = cli("run", plan, "--json", timeout=120)
    assert done(site)["wrong"] == 0
    assert second.code == 0, told(second)
    assert done(site) == Counter(clicks)
    healed = {one["stepId"]: one for one in second.payloads("target.healed")}
    assert set(healed) == {"approve", "save", "pay", "sign", "book"}, (
        "what did not change is found as written"
    )
    assert all(one["verified"] and one["confidence"] >= 0.72 for one in healed.values())
    assert healed["approve"]["after"]["name"] == "Approve invoice"
    assert healed["approve"]["before"]["name"] == "Approve"


def test_a_target_that_is_gone_is_not_replaced(cli: Cli, site: Site) -> None:
    """Its opposite has its place, id and class, and two that are alike have nearly its name."""
    plan = f"""
    version: 1
    name: gone
    heal: {{mode: apply}}
    defaults: {{max_attempts: 1}}
    steps:
      - browser: {{goto: "{site.url}/gone"}}
      - id: approve
        browser: {{click: {{role: button, name: Approve}}}}
        expect: [{{text: done approve}}]
    """
    path, own = cli.plan(plan), "id=approve class='btn a1'"
    site.show("/gone", f"{HEAD}<button {own} {does('approve')}>Approve</button><p id=said>nothing</p>")
    first = cli("run", path, "--json")
    assert first.code == 0, told(first)
    assert observed(cli, "gone") == {"approve"}
    site.asked.clear()
    tempting = (
        f"<button {own} {does('wrong')}>Reject</button>" + 2 * f"<button {does('wrong')}>Approve all</button>"
    )
    site.show("/gone", f"{HEAD}{tempting}<p id=said>nothing</p>")
    result = cli("run", path, "--json")
    assert (result.code != 0, done(site)) == (True, Counter())
    rejected = result.payloads("target.rejected")
    assert rejected and all(one["reason"] for one in rejected)
    assert {one["before"]["name"] for one in rejected} == {"Approve"}, "what it was compared with is told"
    assert result.payloads("target.healed") == []
    assert cli.ledger()["frontier"]["stepId"] == "approve"


def test_a_timeout_of_a_step_is_how_long_its_target_is_waited_for(cli: Cli, site: Site) -> None:
    """Longer than the policy lets others wait; and one that never comes is told as missing, not as a timeout."""
    late = "setTimeout(() => { place.innerHTML = '<button>Report ready</button>' }, 2500)"
    site.show("/late", f"{HEAD}<div id=place></div><script>{late}</script>")
    plan = f"""
    version: 1
    name: late
    defaults: {{max_attempts: 1}}
    steps:
      - browser: {{goto: "{site.url}/late"}}
      - {{id: ready, browser: {{click: Report ready}}, timeout: 1m}}
      - {{id: never, browser: {{click: Never ready}}, timeout: 2s}}
    """
    result = cli("run", cli.plan(plan), "--json")
    (failed,) = result.payloads("task.step.attempt.failed")
    assert (failed["stepId"], failed["facts"]["kind"]) == ("never", "target_not_found"), told(result)
    assert "text 'Never ready': no element matches the target (waited " in failed["summary"]
    assert failed["evidence"]
    assert loads(site, "/late") == 1


def three_steps(url: str, name: str) -> str:
    return f"""
    version: 1
    name: three
    defaults: {{max_attempts: 1}}
    steps:
      - {{id: open, browser: {{goto: "{url}/desk"}}}}
      - {{id: look, browser: {{read: {{css: "#said", into: words}}}}}}
      - id: approve
        browser: {{click: {{role: button, name: {name}}}}}
        repeat: safe
        expect: [{{text: done approve}}]
    """


def performed(result: Result) -> list[str]:
    return [one["stepId"] for one in result.payloads("task.step.attempt.started")]


def test_a_wrong_target_is_corrected_and_what_was_good_before_it_is_not_repeated(
    cli: Cli, site: Site
) -> None:
    first = cli("run", cli.plan(three_steps(site.url, "Aprove")), "--json")
    assert first.code != 0
    ledger = cli.ledger()
    assert (ledger["knownGoodPrefixLength"], ledger["frontier"]["stepId"]) == (2, "approve")
    assert ledger["steps"][1]["outputs"] == {"words": "nothing"}
    assert (loads(site, "/desk"), done(site)) == (1, Counter())

    run_id, corrected = first.document["runId"], cli.plan(three_steps(site.url, "Approve"), "corrected.yaml")
    second = cli("run", corrected, "--reuse", run_id, "--json")
    assert second.code == 0, told(second)
    assert [one["stepId"] for one in second.payloads("task.step.reused")] == ["open", "look"]
    assert performed(second) == ["approve"]
    assert loads(site, "/desk") == 2, "once to come back to the page"
    assert done(site) == Counter(["approve"])
    ledger = cli.ledger()
    assert (ledger["status"], ledger["knownGoodPrefixLength"], ledger["frontier"]) == ("succeeded", 3, None)
    assert ledger["steps"][1]["outputs"] == {"words": "nothing"}

    other = f"<title>Please sign in</title><h1>Sign in</h1><button {does('approve')}>Approve</button><p id=said>stranger"
    site.show("/desk", f"<!doctype html>{other}")
    third = cli("run", corrected, "--reuse", run_id, "--json")
    assert third.code == 0, told(third)
    invalidated = {one["stepId"]: one["reason"] for one in third.payloads("task.step.invalidated")}
    assert set(invalidated) == {"open", "look"}
    assert all("page" in reason for reason in invalidated.values()), invalidated
    assert performed(third) == ["open", "look", "approve"]
    assert cli.ledger()["steps"][1]["outputs"] == {"words": "stranger"}, "what is read is read anew"


def test_a_flow_whose_driver_is_killed_goes_on_and_leaves_no_browser_behind(cli: Cli, site: Site) -> None:
    site.pages["/slow-once"] = lambda site, _asked: Answer(
        desk(site), delay_s=30 * (loads(site, "/slow-once") < 2)
    )
    plan = f"""
    version: 1
    name: killed
    steps:
      - {{id: open, browser: {{goto: "{site.url}/desk"}}}}
      - {{id: save, browser: {{click: {{css: "#save"}}}}, expect: [{{text: done save}}]}}
      - {{id: wait, browser: {{goto: "{site.url}/slow-once"}}}}
      - {{id: approve, browser: {{click: {{role: button, name: Approve}}}}, expect: [{{text: done approve}}]}}
    """
    driver = cli.start("run", cli.plan(plan), "--quiet")
    until(lambda: loads(site, "/slow-once") > 0)
    family = [one.pid for one in descendants(process_table(), driver.pid)]
    assert any(b"chrom" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in family), (
        "the browser is one of them"
    )
    kill(driver)
    assert gone_within(family, 15) == []
    (run_id,) = run_ids(cli)
    result = cli("resume", run_id, "--json", timeout=120)
    assert result.code == 0, told(result)
    assert performed(result) == ["wait", "approve"]
    assert done(site) == Counter(["save", "approve"]), "nothing is clicked twice"
    assert loads(site, "/desk") == 1, "what is left for another address is not come back to"
    ledger = cli.ledger(run_id)
    assert (ledger["status"], ledger["knownGoodPrefixLength"]) == ("succeeded", 4)


def until(happened: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
