"""What a person has approved holds until the run acts on it, by the real command line and a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.browser_house import needs_browser
from tests.scenario.conftest import Cli, Result, kill, wait_for
from tests.scenario.fleets import Fleet, eventually

from recoup.testing.pages import Answer, Site

pytestmark = needs_browser
PAGE = (
    "<!doctype html><html lang=en><title>Invoice</title><p>Total <b id=total>100</b> EUR</p>"
    "<p id=state>open</p><label>Note <input id=note></label><button id=pay>Pay</button><p id=said></p><script>"
    "pay.onclick = async () => { await fetch('/paid/' + total.textContent, {method: 'POST'});"
    " said.textContent = 'Payment received' };"
    "const fresh = async () => (await fetch('/price')).text();"
)
READ = '{id: total, browser: {read: {css: "#total", into: total}}}'
ASK = '{id: ask, approve: "Pay ${{ steps.total.outputs.total }}?"}'
NOTE = "{id: note, browser: {fill: {label: Note, value: hello}}}"
PAY = "{id: pay, browser: {click: {role: button, name: Pay}}, expect: [{text: Payment received}]}"


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        site.pages["/price"] = lambda site, _asked: Answer("100" if site.version == 1 else "99999")
        for total in ("100", "99999"):
            site.pages[f"/paid/{total}"] = lambda _site, _asked: Answer("ok")
        yield site


def plan(cli: Cli, site: Site, script: str, *steps: str, expect: str = "") -> str:
    site.show("/invoice", f"{PAGE}{script}</script>")
    lines = "".join(f"\n          - {step}" for step in steps)
    return cli.plan(f"""
        version: 1
        name: invoice
        steps:
          - {{id: open, browser: {{goto: "{site.url}/invoice"}}{expect}}}{lines}
    """)


def approve(cli: Cli) -> Result:
    assert cli("control", "last", "approve", "--reason", "I saw it").code == 0
    return cli("resume", "last", "--json")


def paid(site: Site) -> list[str]:
    return [asked.path.removeprefix("/paid/") for asked in site.asked if asked.path.startswith("/paid/")]


ON_INPUT = "note.oninput = async () => { total.textContent = await fresh() };"


def test_a_total_that_changes_while_a_note_is_typed_after_the_approval_is_asked_about_again(
    cli: Cli, site: Site
) -> None:
    cli.obey(page_check_s=0.5, backoff_ms=10)
    assert cli("run", plan(cli, site, ON_INPUT, READ, ASK, NOTE, PAY)).code == 5
    site.version = 2
    asked = approve(cli)
    assert paid(site) == [] and asked.code == 5, asked.out
    assert "Pay 99999?" in asked.document["reason"]
    assert approve(cli).code == 0
    assert paid(site) == ["99999"], (
        "the second approval was for this amount, and nobody is asked a third time"
    )


@pytest.mark.parametrize("expect", [", expect: [{text: open}]", ""])
def test_a_page_that_a_safe_step_changes_on_purpose_is_asked_about_at_most_once_more(
    cli: Cli, site: Site, expect: str
) -> None:
    """What is typed changes what `open` expects, every time."""
    cli.obey(page_check_s=0.3, backoff_ms=10)
    script = "note.oninput = () => { state.textContent = 'edited' };"
    assert cli("run", plan(cli, site, script, READ, ASK, NOTE, PAY, expect=expect)).code == 5
    first = approve(cli)
    if expect:
        assert first.code == 5 and "Pay 100?" in first.document["reason"], first.out
        assert {one["stepId"] for one in first.payloads("task.step.invalidated")} == {"ask", "note"}
        first = approve(cli)
    assert first.code == 0, first.out
    assert paid(site) == ["100"]


def test_a_value_that_a_later_fill_replaces_is_asked_about_once_more(cli: Cli, site: Site) -> None:
    cli.obey(page_check_s=0.3, backoff_ms=10)
    read = "{id: total, browser: {read: {label: Note, into: total}}}"
    assert cli("run", plan(cli, site, "", read, ASK, NOTE, PAY)).code == 5
    again = approve(cli)
    assert again.code == 5 and "Pay hello?" in again.document["reason"], again.out
    assert approve(cli).code == 0
    assert paid(site) == ["100"]


def test_what_the_approved_click_itself_changes_keeps_no_later_click_waiting(cli: Cli, site: Site) -> None:
    """The total goes away with the click, as on the next page of a shop."""
    cli.obey(page_check_s=0.3, backoff_ms=10)
    script = "pay.addEventListener('click', () => { state.textContent = 'sent' });" + (
        "const close = document.createElement('button'); close.textContent = 'Close'; document.body.append(close);"
        "close.onclick = () => { said.textContent = 'closed' };"
        "pay.addEventListener('click', () => setTimeout(() => total.remove(), 50));"
    )
    close = "{id: close, browser: {click: {role: button, name: Close}}, expect: [{text: closed}]}"
    steps = (READ, ASK, PAY, close)
    assert cli("run", plan(cli, site, script, *steps, expect=", expect: [{text: open}]")).code == 5
    assert approve(cli).code == 0
    assert paid(site) == ["100"]


def test_a_quoted_total_that_a_first_click_changes_is_not_paid_by_the_second(cli: Cli, site: Site) -> None:
    cli.obey(page_check_s=0.3, backoff_ms=10)
    script = (
        "const agree = document.createElement('button'); agree.textContent = 'Agree'; document.body.append(agree);"
        "agree.onclick = async () => { total.textContent = await fresh() };"
    )
    agree = "{id: agree, browser: {click: {role: button, name: Agree}}}"
    assert cli("run", plan(cli, site, script, READ, ASK, agree, PAY)).code == 5
    site.version = 2
    asked = approve(cli)
    assert asked.code == 5 and paid(site) == [], asked.out
    assert "what total has read says something else now" in asked.document["reason"]


FLICKER = (
    "note.oninput = () => { total.textContent = '…'; pay.disabled = true;"
    " setTimeout(async () => { total.textContent = await fresh(); pay.disabled = false }, 900) };"
)


@pytest.mark.parametrize("changes", ["before the gate", "after the gate", "never"])
def test_a_passing_state_of_the_page_does_not_cost_a_gate_its_proof(
    cli: Cli, site: Site, changes: str
) -> None:
    cli.obey(page_check_s=3, backoff_ms=10)
    path = plan(cli, site, FLICKER, READ, NOTE, ASK, PAY)
    site.version = 2 if changes == "before the gate" else 1
    asked = cli("run", path, "--json")
    assert asked.code == 5
    assert f"Pay {'99999' if site.version == 2 else '100'}?" in asked.document["reason"]
    site.version = 2 if changes == "after the gate" else site.version
    resumed = approve(cli)
    if changes == "after the gate":
        assert resumed.code == 5 and "Pay 99999?" in resumed.document["reason"], resumed.out
        assert paid(site) == []
        resumed = approve(cli)
    assert resumed.code == 0, resumed.out
    assert paid(site) == ["100" if changes == "never" else "99999"]


LATE = "pay.disabled = true; setTimeout(async () => { total.textContent = await fresh(); pay.disabled = false }, 1500);"


def test_a_price_that_changes_while_the_click_waits_for_its_button_is_asked_about_again(
    cli: Cli, site: Site
) -> None:
    cli.obey(page_check_s=0.5, backoff_ms=10, step_max_attempts=1)
    assert cli("run", plan(cli, site, LATE, READ, ASK, PAY)).code == 5
    site.version = 2
    asked = approve(cli)
    assert asked.code == 5 and paid(site) == [], asked.out
    assert "Pay 99999?" in asked.document["reason"]


def test_a_gate_does_not_wait_for_what_the_page_before_said(cli: Cli, site: Site) -> None:
    """As after a sign-in. The command would not end in time if it waited."""
    cli.obey(page_check_s=600)
    site.show(
        "/start",
        "<!doctype html><html lang=en><title>Start</title><p>Who are you?</p><a href=/invoice>Sign in</a>",
    )
    site.show("/invoice", f"{PAGE}</script>")
    written = cli.plan(f"""
        version: 1
        name: invoice
        steps:
          - {{id: open, browser: {{goto: "{site.url}/start"}}, expect: [{{text: Who are you?}}]}}
          - {{id: sign-in, browser: {{click: Sign in}}, expect: [{{url: "**/invoice"}}]}}
          - {READ}
          - {ASK}
    """)
    assert cli("run", written).code == 5


def test_of_many_proofs_the_oldest_is_not_forgotten(cli: Cli, site: Site) -> None:
    cli.obey(page_check_s=0.5, backoff_ms=10)
    reads = [f"{{id: r{number}, browser: {{read: {{css: '#state', into: v}}}}}}" for number in range(22)]
    texts = ", ".join("{text: open}" for _ in range(22))
    path = plan(
        cli,
        site,
        "fresh().then((one) => { total.textContent = one });",
        READ,
        *reads,
        ASK,
        PAY,
        expect=f", expect: [{texts}]",
    )
    assert cli("run", path).code == 5
    site.version = 2
    asked = approve(cli)
    assert asked.code == 5 and paid(site) == [], asked.out
    assert "Pay 99999?" in asked.document["reason"]


def test_an_approval_holds_for_the_same_page_after_a_kill_behind_it(cli: Cli, site: Site) -> None:
    """Killed between the approval and the click, with a safe step between the two done and lost."""
    cli.obey(page_check_s=0.5, backoff_ms=10)
    hold = "{id: hold, run: 'touch waiting; until test -e go; do sleep 0.02; done'}"
    assert cli("run", plan(cli, site, ON_INPUT, READ, ASK, NOTE, hold, PAY)).code == 5
    assert cli("control", "last", "approve", "--reason", "I saw it").code == 0
    driver = cli.start("resume", "last")
    wait_for(cli.folder / "waiting")
    kill(driver)
    (cli.folder / "go").touch()
    site.version = 2
    asked = cli("resume", "last", "--json")
    assert asked.code == 5 and paid(site) == [], asked.out
    assert "Pay 99999?" in asked.document["reason"]
    assert approve(cli).code == 0
    assert paid(site) == ["99999"]


def test_an_approved_total_is_asked_again_when_the_approval_is_reused(cli: Cli, site: Site) -> None:
    cli.obey(page_check_s=0.5, backoff_ms=10, step_max_attempts=1)
    check = "{id: check, run: 'test -e ok || { echo permission denied; exit 1; }'}"
    assert cli("run", plan(cli, site, ON_INPUT, READ, ASK, check, NOTE, PAY)).code == 5
    assert approve(cli).code not in (0, 5)
    (cli.folder / "ok").touch()
    site.version = 2
    asked = cli("resume", "last", "--json")
    assert paid(site) == [], asked.out
    assert asked.code == 5 and "Pay 99999?" in asked.document["reason"], asked.out


# With a worker that keeps the page


@pytest.mark.parametrize("fleet", ["sqlite"], indirect=True)
@pytest.mark.parametrize("script", [ON_INPUT, LATE], ids=["fill after the gate", "late price"])
def test_a_page_that_stayed_open_is_asked_about_again_when_it_changes_after_the_approval(
    fleet: Fleet, site: Site, script: str
) -> None:
    fleet.cli.env["RECOUP_KEY"] = "-".join(["a", "key", "for", "this", "fleet"])
    fleet.cli.obey(page_check_s=0.5, backoff_ms=10)
    late = script is LATE
    script = script.replace("setTimeout(", "note.onfocus = () => setTimeout(") if late else script
    run_id = fleet.submit(plan(fleet.cli, site, script, READ, ASK, NOTE, PAY))
    fleet.worker()
    fleet.until(run_id, "waiting")
    site.version = 2
    for total in ("100", "99999"):
        assert f"Pay {total}?" in fleet.until(run_id, "waiting")["reason"] and paid(site) == []
        assert fleet.cli("control", run_id, "approve", "--reason", "I saw it").code == 0
        if total == "100":
            assert eventually(lambda: "Pay 99999?" in str(fleet.cli("show", run_id, "--json").json))
    fleet.until(run_id, "succeeded")
    assert paid(site) == ["99999"]
