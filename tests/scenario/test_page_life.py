"""Pages across gates, kills and resumes, by the real command line and a real browser."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.browser_house import needs_browser
from tests.scenario.conftest import Cli, Result, kill, wait_for

from recoup.processes.process_table import pids_below
from recoup.testing.pages import Answer, Asked, Site

pytestmark = needs_browser
HEAD = "<!doctype html><html lang=en><title>Office</title>"


@pytest.fixture(autouse=True)
def short_waits(cli: Cli) -> None:
    """What is not on a page is not waited for as long as by default."""
    cli.obey(page_check_s=2, backoff_ms=10)


def sign_in(_site: Site, _asked: Asked) -> Answer:
    return Answer(
        f"{HEAD}<button onclick=\"document.cookie = 'user=ann; path=/'; said.textContent = 'signed in'\">"
        "Sign in</button><p id=said>nobody</p>"
    )


def office(_site: Site, asked: Asked) -> Answer:
    if "user=ann" not in asked.cookie:
        return Answer("<title>Refused</title>who are you?", status=403)
    return Answer(f"{HEAD}<h1>Hello ann</h1>")


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        site.pages["/sign-in"] = sign_in
        site.pages["/office"] = office
        yield site


def signed_in_then(site: Site, between: str) -> str:
    return f"""
        version: 1
        name: office
        steps:
          - {{id: open, browser: {{goto: "{site.url}/sign-in"}}}}
          - {{id: sign-in, browser: {{click: Sign in}}, expect: [{{text: signed in}}]}}
          {between}
          - {{id: office, browser: {{goto: "{site.url}/office"}}, expect: [{{text: Hello ann}}]}}
    """


def test_whoever_signed_in_before_a_gate_is_signed_in_after_it(cli: Cli, site: Site) -> None:
    plan = cli.plan(signed_in_then(site, "- {id: ask, approve: 'Go on?'}"))
    assert cli("run", plan).code == 5
    assert cli("control", "last", "approve", "--reason", "yes").code == 0
    resumed = cli("resume", "last")
    assert resumed.code == 0, resumed.out + resumed.err


def test_what_a_page_proved_of_a_value_is_asked_again_after_a_gate(cli: Cli, site: Site) -> None:
    total = ["100 EUR"]
    site.pages["/invoice"] = lambda _site, _asked: Answer(
        f'{HEAD}<p id=total>Total: {total[0]}</p><button onclick="done.textContent = 1">Pay</button><p id=done></p>'
    )
    plan = cli.plan(f"""
        version: 1
        name: pay
        inputs: {{total: {{required: true}}}}
        steps:
          - id: open
            browser: {{goto: "{site.url}/invoice"}}
            expect:
              - text: "Total: ${{{{ inputs.total }}}}"
          - {{id: ask, approve: Pay?}}
          - {{id: pay, browser: {{click: Pay}}}}
    """)
    assert cli("run", plan, "--input", "total=100 EUR").code == 5
    total[0] = "99,999 EUR"
    assert cli("control", "last", "approve", "--reason", "yes").code == 0
    resumed = cli("resume", "last", "--json")
    assert resumed.code != 0
    (invalidated, *_) = resumed.payloads("task.step.invalidated")
    assert "what open has proven does not hold any more" in invalidated["reason"]
    assert not [one for one in resumed.payloads("task.step.attempt.launched") if one["stepId"] == "pay"]


def test_whoever_signed_in_before_a_kill_is_signed_in_after_it(cli: Cli, site: Site) -> None:
    waiting = "- {id: wait, run: 'touch waiting; until test -e go; do sleep 0.02; done'}"
    driver = cli.start("run", cli.plan(signed_in_then(site, waiting)))
    wait_for(cli.folder / "waiting")
    kill(driver)
    (cli.folder / "go").touch()
    resumed = cli("resume", "last")
    assert resumed.code == 0, resumed.out + resumed.err


def test_cookies_that_were_lost_with_the_network_process_are_restored(cli: Cli, site: Site) -> None:
    """The browser starts another one without a word, and everybody is signed out."""
    waiting = "- {id: wait, run: 'touch waiting; until test -e go; do sleep 0.02; done'}"
    driver = cli.start("run", cli.plan(signed_in_then(site, waiting)), "--json")
    wait_for(cli.folder / "waiting")
    (network,) = (pid for pid in pids_below(driver.pid) if is_network_service(pid))
    os.kill(network, signal.SIGKILL)
    (cli.folder / "go").touch()
    out, err = driver.communicate(timeout=60)
    assert driver.returncode == 0, (out, err)


def is_network_service(pid: int) -> bool:
    return b"network.mojom.NetworkService" in Path(f"/proc/{pid}/cmdline").read_bytes()


# What was proven is asked again


def invoice(site: Site, _asked: Asked) -> Answer:
    return Answer(
        f"{HEAD}<p id=total>Total: {'100' if site.version == 1 else '99,999'} EUR</p>"
        "<button onclick=\"fetch('/paid', {method: 'POST'}).then(() => { said.textContent = 'paid' })\">Pay</button>"
        "<p id=said>open</p><input aria-label=Note>"
    )


def paying(site: Site, expect: str, between: str = "") -> str:
    return f"""
        version: 1
        name: invoice
        steps:
          - {{id: open, browser: {{goto: "{site.url}/invoice"}}{expect}}}
          - {{id: total, browser: {{read: {{css: "#total", into: total}}}}}}
          {between}
          - {{id: ask, approve: "Pay? ${{{{ steps.total.outputs.total }}}}"}}
          - {{id: pay, browser: {{click: {{role: button, name: Pay}}}}, expect: [{{text: paid}}]}}
    """


@pytest.fixture
def shop(site: Site) -> Site:
    site.pages["/invoice"] = invoice
    site.pages["/paid"] = lambda _site, _asked: Answer("ok")
    return site


def approve(cli: Cli) -> None:
    assert cli("control", "last", "approve", "--reason", "I saw it").code == 0


@pytest.mark.parametrize("proof", ["expected", "read"])
def test_a_page_that_says_something_else_after_the_approval_is_not_acted_on(
    cli: Cli, shop: Site, proof: str
) -> None:
    expect = ', expect: [{text: "Total: 100 EUR"}]' if proof == "expected" else ""
    cli.obey(backoff_ms=10, page_check_s=0.5, step_max_attempts=1)
    assert cli("run", cli.plan(paying(shop, expect))).code == 5
    shop.version = 2
    approve(cli)
    resumed = cli("resume", "last", "--json")
    assert not shop.posts("/paid"), "the approval was for another amount"
    invalidated = resumed.payloads("task.step.invalidated")
    assert {one["stepId"] for one in invalidated} >= {"total", "ask"}
    if proof == "read":
        assert resumed.code == 5, "the person is asked again, about what the page says now"
        assert "99,999" in resumed.document["reason"]
        approve(cli)
        assert cli("resume", "last").code == 0
        assert len(shop.posts("/paid")) == 1
    else:
        assert resumed.code not in (0, 5)


def test_a_page_that_says_the_same_after_the_approval_is_acted_on_once(cli: Cli, shop: Site) -> None:
    plan = cli.plan(paying(shop, ', expect: [{text: "Total: 100 EUR"}]'))
    assert cli("run", plan).code == 5
    approve(cli)
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert resumed.payloads("task.step.invalidated") == []
    assert len(shop.posts("/paid")) == 1


def test_what_a_reused_step_has_proven_is_asked_again(cli: Cli, shop: Site) -> None:
    plan = cli.plan(paying(shop, ', expect: [{text: "Total: 100 EUR"}]'))
    cli.obey(backoff_ms=10, page_check_s=0.5, step_max_attempts=1)
    first = cli("run", plan, "--json").document["runId"]
    assert cli("control", first, "reject", "--reason", "not yet").code == 0
    shop.version = 2
    again = cli("run", plan, "--reuse", first, "--json")
    assert again.code not in (0, 5), "what it proved does not hold, so nobody is asked to approve it"
    assert not shop.posts("/paid")


# A lost page is got back without repeating what is done


def form(site: Site, _asked: Asked) -> Answer:
    return Answer(
        f'{HEAD}<label>Amount <input id=amount></label><button onclick="panel.hidden = false">More</button>'
        "<div id=panel hidden><label>Note <input></label></div>"
        "<button onclick=\"fetch('/sent/' + amount.value, {method: 'POST'}).then(() => "
        "{ said.textContent = 'sent' })\">Send</button><p id=said>open</p>"
    )


@pytest.fixture
def desk(site: Site) -> Site:
    site.pages["/form"] = form
    site.pages["/sent/70"] = lambda _site, _asked: Answer("ok")
    return site


def filled_then(desk: Site, between: str) -> str:
    return f"""
        version: 1
        name: form
        steps:
          - {{id: open, browser: {{goto: "{desk.url}/form"}}}}
          - {{id: amount, browser: {{fill: {{label: Amount, value: "70"}}}}, expect: [{{value: {{label: Amount, is: "70"}}}}]}}
          - {{id: charge, run: "echo charged >> charges"}}
          {between}
          - {{id: send, browser: {{click: {{role: button, name: Send}}}}, expect: [{{text: sent}}]}}
    """


def foretold(preview: Result) -> tuple[list[str], list[str]]:
    """What a dry run says will be performed, and what performed again to restore the page."""
    assert preview.code == 0, preview.err
    steps = preview.json["steps"]
    performed = [step["stepId"] for step in steps if step["expected"] == "performed"]
    return performed, [step["stepId"] for step in steps if step["repeatedFor"] == "page"]


def done(run: Result) -> tuple[list[str], list[str]]:
    """What was, each step once."""
    starts = run.payloads("task.step.attempt.started")
    main, rebuild = (
        [start["stepId"] for start in starts if start["phase"] == phase] for phase in ("main", "rebuild")
    )
    return list(dict.fromkeys(main)), list(dict.fromkeys(rebuild))


def test_what_was_typed_before_a_gate_is_typed_again_and_nothing_else_is_repeated(
    cli: Cli, desk: Site
) -> None:
    assert cli("run", cli.plan(filled_then(desk, "- {id: ask, approve: Send it?}"))).code == 5
    approve(cli)
    said = foretold(cli("resume", "last", "--dry-run", "--json"))
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert said == done(resumed) == (["send"], ["amount"])
    assert len(desk.posts("/sent/70")) == 1
    assert (cli.folder / "charges").read_text().split() == ["charged"]
    assert resumed.payloads("task.step.invalidated") == []
    (lost,) = resumed.payloads("browser.page_lost")
    assert lost["steps"] == ["amount"]
    found = {step["stepId"]: step["preState"] for step in cli.ledger()["steps"]}
    assert (found["open"], found["charge"]) == ("page:none", None)
    assert all(re.fullmatch("page:[0-9a-f]{64}", found[step]) for step in ("amount", "ask", "send")), found


def test_what_was_typed_before_a_kill_is_typed_again_and_nothing_else_is_repeated(
    cli: Cli, desk: Site
) -> None:
    waiting = "- {id: wait, run: 'touch waiting; until test -e go; do sleep 0.02; done'}"
    driver = cli.start("run", cli.plan(filled_then(desk, waiting)))
    wait_for(cli.folder / "waiting")
    kill(driver)
    (cli.folder / "go").touch()
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert len(desk.posts("/sent/70")) == 1
    assert (cli.folder / "charges").read_text().split() == ["charged"]


def test_what_was_typed_before_a_pause_is_typed_again(cli: Cli, desk: Site) -> None:
    waiting = "- {id: wait, run: 'touch waiting; until test -e go; do sleep 0.02; done'}"
    driver = cli.start("run", cli.plan(filled_then(desk, waiting)))
    wait_for(cli.folder / "waiting")
    assert cli("control", "last", "pause", "--reason", "lunch").code == 0
    (cli.folder / "go").touch()
    driver.wait(60)
    assert cli("control", "last", "resume", "--reason", "back").code == 0
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert len(desk.posts("/sent/70")) == 1


def test_a_click_in_the_page_before_a_gate_is_asked_about_once(cli: Cli, desk: Site) -> None:
    plan = cli.plan(f"""
        version: 1
        name: panel
        steps:
          - {{id: open, browser: {{goto: "{desk.url}/form"}}}}
          - {{id: more, browser: {{click: {{role: button, name: More}}}}, expect: [{{visible: {{label: Note}}}}]}}
          - {{id: ask, approve: Go on?}}
          - {{id: note, browser: {{fill: {{label: Note, value: hello}}}}}}
    """)
    assert cli("run", plan).code == 5
    approve(cli)
    preview = cli("resume", "last", "--dry-run", "--json").json
    assert (preview["page"]["asksAbout"], preview["page"]["unlessShown"]) == (["more"], True)
    assert preview["reused"] == ["open", "more", "ask"]
    question = "stop and ask whether more may be performed again to restore it, unless the page shows that this was done"
    assert f"The run will {question}." in cli("resume", "last", "--dry-run").out
    assert cli("resume", "last").code == 5, "a click must not be repeated by itself"
    settled = cli(
        "control", "last", "settle", "--step", "more", "--as", "not-done", "--reason", "open it again"
    )
    assert settled.code == 0
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert resumed.payloads("task.step.invalidated") == []


def test_an_approval_does_not_count_for_a_page_that_was_made_again_and_differs(cli: Cli, desk: Site) -> None:
    desk.pages["/form"] = lambda site, asked: Answer(
        str(form(site, asked).body).replace("open</p>", f"version {site.version}</p>")
    )
    plan = cli.plan(f"""
        version: 1
        name: panel
        steps:
          - {{id: open, browser: {{goto: "{desk.url}/form"}}}}
          - {{id: more, browser: {{click: {{role: button, name: More}}}}, expect: [{{visible: {{label: Note}}}}]}}
          - {{id: said, browser: {{read: {{css: "#said", into: said}}}}}}
          - {{id: ask, approve: "Go on with ${{{{ steps.said.outputs.said }}}}?"}}
          - {{id: note, browser: {{fill: {{label: Note, value: hello}}}}}}
    """)
    assert cli("run", plan).code == 5
    approve(cli)
    assert cli("resume", "last").code == 5
    desk.version = 2
    settled = cli(
        "control", "last", "settle", "--step", "more", "--as", "not-done", "--reason", "open it again"
    )
    assert settled.code == 0
    again = cli("resume", "last", "--json")
    assert again.code == 5
    assert "ask" in {one["stepId"] for one in again.payloads("task.step.invalidated")}


# One question, about all that must not be repeated


def stages(site: Site, asked: Asked) -> Answer:
    """Two buttons that open something in the page, and a cart that the server remembers."""
    inside = "".join(
        f"<button onclick=\"fetch('/did/{name}', {{method: 'POST'}}).then(() => {{ {name}.hidden = false }})\">{name}"
        f"</button><p id={name} {'hidden' if name != 'cart' or not site.posts('/did/cart') else ''}>{name} is open</p>"
        for name in ("first", "second", "cart")
    )
    return Answer(f"{HEAD}{inside}<label>Note <input></label>{'<p>ready</p>' if site.version == 2 else ''}")


@pytest.fixture
def staged(site: Site) -> Site:
    site.pages["/stages"] = stages
    for name in ("first", "second", "cart"):
        site.pages[f"/did/{name}"] = lambda _site, _asked: Answer("ok")
    return site


def after_clicks(site: Site, *names: str) -> str:
    clicks = "".join(
        f"""
          - {{id: {name}, browser: {{click: {{role: button, name: {name}}}}}, expect: [{{text: {name} is open}}]}}"""
        for name in names
    )
    return f"""
        version: 1
        name: stages
        steps:
          - {{id: open, browser: {{goto: "{site.url}/stages"}}}}{clicks}
          - {{id: ask, approve: Go on?}}
          - {{id: note, browser: {{fill: {{label: Note, value: hello}}}}}}
    """


def settle(cli: Cli, step: str, answer: str) -> None:
    done = cli("control", "last", "settle", "--step", step, "--as", answer, "--reason", "I looked")
    assert done.code == 0, done.err


@pytest.mark.parametrize("answer", ["not-done", "done"])
def test_several_lost_clicks_are_one_question(cli: Cli, staged: Site, answer: str) -> None:
    assert cli("run", cli.plan(after_clicks(staged, "first", "second"))).code == 5
    approve(cli)
    asked = cli("resume", "last", "--json")
    assert asked.code == 5
    assert "only steps first, second can restore it" in asked.document["reason"]
    (escalation,) = asked.payloads("Escalated")
    assert escalation["pageSteps"] == ["first", "second"]
    assert f"settle --step first --as {answer} --reason '...'" in escalation["hint"]
    assert "To perform first, second again, with all effects" in cli("show", "last").out
    settle(cli, "first", answer)
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    times = 2 if answer == "not-done" else 1
    assert [len(staged.posts(f"/did/{name}")) for name in ("first", "second")] == [times, times]
    assert resumed.payloads("task.step.invalidated") == []
    assert [step["verdict"] for step in cli.ledger()["steps"]][1:3] == ["passed", "passed"]


def test_a_click_whose_effect_the_page_shows_by_itself_is_not_asked_about(cli: Cli, staged: Site) -> None:
    assert cli("run", cli.plan(after_clicks(staged, "cart"))).code == 5
    approve(cli)
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert len(staged.posts("/did/cart")) == 1


def test_a_click_that_opened_another_tab_left_nothing_in_the_document_there(cli: Cli, shop: Site) -> None:
    shop.show("/list", f"{HEAD}<a target=_blank href=/invoice>Open invoice</a>")
    opening = "- {id: click, browser: {click: Open invoice}}\n          - {id: tab, browser: {tab: last}}"
    text = (
        paying(shop, "")
        .replace("/invoice", "/list")
        .replace("- {id: total", f"{opening}\n          - {{id: total")
    )
    assert cli("run", cli.plan(text)).code == 5
    approve(cli)
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert resumed.payloads("Escalated") == [] and len(shop.posts("/paid")) == 1


def test_a_consent_counts_for_one_performance_of_each_step(cli: Cli, site: Site) -> None:
    """The sign-in is in a storage that is lost with the browser, and paying touches the document."""
    site.pages["/paid"] = lambda _site, _asked: Answer("ok")
    site.show(
        "/login",
        f"{HEAD}<label>User <input></label>"
        "<button onclick=\"sessionStorage.user = 'ann'; location = '/app'\">Log in</button>",
    )
    site.show(
        "/app",
        f"{HEAD}<script>if (!sessionStorage.user) location = '/login'</script><b id=total>100</b>"
        "<button onclick=\"fetch('/paid', {method: 'POST'}).then(() => { said.textContent = 'paid' })\">Pay</button>"
        "<p id=said>open</p>",
    )
    plan = cli.plan(f"""
        version: 1
        name: stored
        steps:
          - {{id: open, browser: {{goto: "{site.url}/login"}}}}
          - {{id: user, browser: {{fill: {{label: User, value: ann}}}}}}
          - {{id: log-in, browser: {{click: Log in}}, expect: [{{url: "**/app"}}]}}
          - {{id: pay, browser: {{click: Pay}}, expect: [{{text: paid}}]}}
          - {{id: ask, approve: Done?}}
          - {{id: end, browser: {{read: {{css: "#total", into: total}}}}}}
    """)
    cli.obey(backoff_ms=10, page_check_s=0.5)
    assert cli("run", plan).code == 5
    approve(cli)
    (question,) = cli("resume", "last", "--json").payloads("Escalated")
    assert question["pageSteps"] == ["log-in", "pay"]
    settle(cli, "log-in", "not-done")
    resumed = cli("resume", "last", "--json")
    assert len(site.posts("/paid")) == 2, "once in the plan, once by consent"
    assert resumed.code == 0, resumed.out


def test_an_answer_about_a_lost_page_is_remembered_when_the_driver_is_killed(cli: Cli, staged: Site) -> None:
    held = "- {id: hold, browser: {wait: {text: ready}}}\n          - {id: note,"
    assert cli("run", cli.plan(after_clicks(staged, "first").replace("- {id: note,", held))).code == 5
    approve(cli)
    assert cli("resume", "last").code == 5
    settle(cli, "first", "done")
    driver = cli.start("resume", "last", "--json")
    for line in driver.stdout:
        if "task.step.attempt.launched" in str(line) and "hold" in str(line):
            break
    kill(driver)
    staged.version = 2
    again = cli("resume", "last", "--json")
    assert again.payloads("Escalated") == [], "it was answered"
    assert again.code == 0, again.out
    assert len(staged.posts("/did/first")) == 1


def test_a_page_whose_server_is_in_trouble_is_tried_again_and_nobody_is_asked(cli: Cli, staged: Site) -> None:
    assert cli("run", cli.plan(after_clicks(staged, "cart"))).code == 5
    approve(cli)
    answers, well = iter([503, 502]), staged.pages["/stages"]
    staged.pages["/stages"] = lambda site, asked: (
        well(site, asked) if not (status := next(answers, 0)) else Answer("<h1>Not now</h1>", status)
    )
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    failed = resumed.payloads("task.step.attempt.failed")
    assert [one["failureKind"] for one in failed] == ["navigation_failed"] * 2
    assert resumed.payloads("Escalated") == [] and len(staged.posts("/did/cart")) == 1


def test_a_run_that_was_signed_out_while_it_waited_asks_once_whether_to_sign_in_again(
    cli: Cli, site: Site
) -> None:
    """What was typed on the page behind the sign-in is not typed into the form of the sign-in."""
    signed_in: list[str] = []

    def inside(_site: Site, _asked: Asked) -> Answer:
        if not signed_in:
            return Answer("", 302, headers={"location": "/door"})
        return Answer(f"{HEAD}<label>Note <input></label>")

    def enter(_site: Site, _asked: Asked) -> Answer:
        signed_in.append("ann")
        return Answer("", 302, headers={"location": "/inside"})

    site.pages |= {"/inside": inside, "/enter": enter}
    site.show("/door", f"{HEAD}<a href=/enter>Enter</a>")
    plan = cli.plan(f"""
        version: 1
        name: door
        steps:
          - {{id: door, browser: {{goto: "{site.url}/door"}}}}
          - {{id: enter, browser: {{click: Enter}}, expect: [{{url: "**/inside"}}]}}
          - {{id: note, browser: {{fill: {{label: Note, value: hello}}}}}}
          - {{id: ask, approve: Go on?}}
          - {{id: more, browser: {{fill: {{label: Note, value: bye}}}}}}
    """)
    assert cli("run", plan).code == 5
    approve(cli)
    signed_in.clear()
    asked = cli("resume", "last", "--json")
    assert asked.code == 5 and "another address; only step enter" in asked.document["reason"]
    assert asked.payloads("task.step.attempt.failed") == []
    settle(cli, "enter", "not-done")
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert resumed.payloads("Escalated") == []


class Orders:
    """A shop that forgets who is signed in when it is restarted. Each page but the sign-in leads back to it then."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.signed_in: set[str] = set()
        site.pages |= {
            "/login": self.login,
            "/order": self.order,
            "/review": self.review,
            "/place": self.place,
        }

    def login(self, _site: Site, asked: Asked) -> Answer:
        if asked.method == "POST":
            name = f"s{len(self.site.posts('/login'))}"
            self.signed_in.add(name)
            return Answer("", 303, headers={"location": "/home", "set-cookie": f"session={name}; path=/"})
        return Answer(
            f"{HEAD}<form method=post><label>User <input name=user></label><button>Log in</button></form>"
        )

    def order(self, site: Site, asked: Asked) -> Answer:
        form = "<form method=post action=/review><label>Item <input name=item></label><button>Review</button></form>"
        return self.inside(asked, form)

    def review(self, site: Site, asked: Asked) -> Answer:
        place = "<form method=post action=/place><p id=price>12 EUR</p><button>Place</button></form>"
        return self.inside(asked, place if asked.method == "POST" else "<p>Nothing to review</p>")

    def place(self, _site: Site, asked: Asked) -> Answer:
        return self.inside(asked, "<h1>Placed</h1>")

    def inside(self, asked: Asked, body: str) -> Answer:
        if not any(f"session={name}" in asked.cookie for name in self.signed_in):
            return Answer("", 303, headers={"location": "/login"})
        return Answer(f"{HEAD}{body}")

    def plan(self) -> str:
        return f"""
            version: 1
            name: order
            steps:
              - {{id: open, browser: {{goto: "{self.site.url}/login"}}}}
              - {{id: user, browser: {{fill: {{label: User, value: ann}}}}}}
              - {{id: log-in, browser: {{click: {{role: button, name: Log in}}}}}}
              - {{id: new, browser: {{goto: "{self.site.url}/order"}}, expect: [{{visible: {{label: Item}}}}]}}
              - {{id: item, browser: {{fill: {{label: Item, value: screws}}}}}}
              - {{id: review, browser: {{click: {{role: button, name: Review}}}}, expect: [{{url: "**/review"}}]}}
              - {{id: price, browser: {{read: {{css: "#price", into: price}}}}}}
              - {{id: ask, approve: "Place it for ${{{{ steps.price.outputs.price }}}}?"}}
              - {{id: place, browser: {{click: {{role: button, name: Place}}}}, expect: [{{text: Placed}}]}}
        """


@pytest.mark.parametrize("first_answer", ["not-done", "done"])
def test_a_sign_in_that_is_over_is_repeated_with_consent_and_the_run_ends_well(
    cli: Cli, site: Site, first_answer: str
) -> None:
    """It happened before the last `goto`, which leads back to the sign-in now."""
    orders = Orders(site)
    cli.obey(backoff_ms=10, page_check_s=0.5)
    assert cli("run", cli.plan(orders.plan())).code == 5
    approve(cli)
    orders.signed_in.clear()
    asked = cli("resume", "last", "--json")
    (question,) = asked.payloads("Escalated")
    assert question["pageSteps"] == ["log-in", "review"], asked.out
    settle(cli, "log-in", first_answer)
    if first_answer == "done":
        again = cli("resume", "last", "--json")
        assert "cannot be used as it is" in again.document["reason"], again.out
        assert again.document["status"] == "escalated" and again.payloads("task.step.invalidated") == []
        settle(cli, "log-in", "not-done")
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out + resumed.err
    assert resumed.payloads("Escalated") == []
    assert [len(site.posts(path)) for path in ("/login", "/review", "/place")] == [2, 2, 1]


# What a dry run says is what is done


def search(_site: Site, _asked: Asked) -> Answer:
    return Answer(
        f"{HEAD}<p id=who>ann</p><label>Words <input></label><label>Note <input></label><a href=/found>Search</a>"
    )


def test_a_dry_run_says_that_a_page_which_was_left_is_made_anew(cli: Cli, site: Site) -> None:
    site.pages["/search"] = search
    site.show("/found", "<!doctype html><title>Found</title><h1>found</h1>")
    plan = cli.plan(f"""
        version: 1
        name: search
        steps:
          - {{id: open, browser: {{goto: "{site.url}/search"}}}}
          - {{id: who, browser: {{read: {{css: "#who", into: who}}}}}}
          - {{id: search, browser: {{click: Search}}, repeat: safe, expect: [{{text: found}}]}}
          - {{id: check, run: "test -e ok || {{ echo permission denied; exit 1; }}"}}
    """)
    first = cli("run", plan, "--json").document["runId"]
    (cli.folder / "ok").touch()
    preview = cli("resume", first, "--from-step", "search", "--dry-run", "--json")
    assert preview.json["reused"] == ["open", "who"]
    assert (preview.json["frontier"]["stepId"], preview.json["page"]["neededBy"]) == ("search", "search")
    resumed = cli("resume", first, "--from-step", "search", "--json")
    assert resumed.code == 0, resumed.out
    assert foretold(preview) == done(resumed) == (["search", "check"], ["open"])
    assert (
        "reuses 2 of 4 steps" in resumed.err and "(if the page is unchanged); begins at search" in resumed.err
    )


def test_a_dry_run_says_what_is_typed_again_for_a_step_behind_a_shell_step(cli: Cli, site: Site) -> None:
    site.pages["/search"] = search
    cli.obey(backoff_ms=10, step_max_attempts=1)
    plan = cli.plan(f"""
        version: 1
        name: search
        steps:
          - {{id: open, browser: {{goto: "{site.url}/search"}}}}
          - {{id: words, browser: {{fill: {{label: Words, value: shoes}}}}}}
          - {{id: check, run: "test -e ok || {{ echo permission denied; exit 1; }}"}}
          - {{id: note, browser: {{fill: {{label: Note, value: red}}}}}}
    """)
    first = cli("run", plan, "--json").document["runId"]
    (cli.folder / "ok").touch()
    shown = cli("resume", first, "--dry-run").out
    assert "2 of 4 steps would be reused, 2 of them if the page is unchanged" in shown
    assert "If it shows something else, the step that it refutes (open or a later one)" in shown
    said = foretold(cli("resume", first, "--dry-run", "--json"))
    resumed = cli("resume", first, "--json")
    assert resumed.code == 0, resumed.out
    assert said == done(resumed) == (["check", "note"], ["words"])


# Tabs


def tab_page(name: str) -> str:
    return (
        f"<!doctype html><html lang=en><title>{name}</title><h1>{name}</h1><a href=/second target=_blank>More</a>"
        "<label>Note <input id=note></label>"
        f"<button onclick=\"fetch('/paid/{name}/' + note.value, {{method: 'POST'}}).then(() => "
        "{ said.textContent = 'paid' })\">Pay</button><p id=said></p>"
    )


@pytest.fixture
def two_tabs(site: Site) -> Site:
    site.pages["/first"] = lambda _site, _asked: Answer(tab_page("first"))
    site.pages["/second"] = lambda _site, _asked: Answer(tab_page("second"))
    for name in ("first", "second"):
        for note in ("", "mine"):
            site.pages[f"/paid/{name}/{note}"] = lambda _site, _asked: Answer("ok")
    return site


def paid(site: Site) -> list[str]:
    return [
        name for name in ("first", "second") for note in ("", "mine") if site.posts(f"/paid/{name}/{note}")
    ]


def tabs_plan(site: Site, *steps: str) -> str:
    lines = "".join(f"\n          - {step}" for step in steps)
    return f"""
        version: 1
        name: tabs
        steps:
          - {{id: open, browser: {{goto: "{site.url}/first"}}}}{lines}
          - {{id: back, browser: {{tab: 1}}, expect: [{{title: first}}]}}
          - {{id: pay, browser: {{click: {{role: button, name: Pay}}}}, expect: [{{text: paid}}]}}
    """


OPENED_BY_PLAN = ("{id: tab, browser: {tab: new}}", '{id: there, browser: {goto: "URL/second"}}')
OPENED_BY_PAGE = ("{id: more, browser: {click: More}REPEAT}", "{id: turn, browser: {tab: last}}")
ASK = "{id: ask, approve: Pay?}"


def test_tabs_are_opened_again_in_their_order(cli: Cli, two_tabs: Site) -> None:
    """`tab: 1` must not be the only tab that a new browser has."""
    steps = [step.replace("URL", two_tabs.url) for step in OPENED_BY_PLAN]
    assert cli("run", cli.plan(tabs_plan(two_tabs, *steps, ASK))).code == 5
    approve(cli)
    said = foretold(cli("resume", "last", "--dry-run", "--json"))
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert paid(two_tabs) == ["first"]
    assert said == done(resumed) == (["back", "pay"], [])


def test_what_was_typed_in_another_tab_is_typed_again(cli: Cli, two_tabs: Site) -> None:
    steps = [step.replace("URL", two_tabs.url) for step in OPENED_BY_PLAN]
    note = "{id: note, browser: {fill: {label: Note, value: mine}}}"
    assert cli("run", cli.plan(tabs_plan(two_tabs, note, *steps, ASK))).code == 5
    approve(cli)
    said = foretold(cli("resume", "last", "--dry-run", "--json"))
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert len(two_tabs.posts("/paid/first/mine")) == 1
    assert said == done(resumed) == (["back", "pay"], ["open", "note", "tab", "there"])


@pytest.mark.parametrize("answer", ["done", "not-done"])
def test_a_click_that_opened_a_tab_is_asked_about_once(cli: Cli, two_tabs: Site, answer: str) -> None:
    steps = [step.replace("REPEAT", "") for step in OPENED_BY_PAGE]
    assert cli("run", cli.plan(tabs_plan(two_tabs, *steps, ASK))).code == 5
    approve(cli)
    asked = cli("resume", "last", "--json")
    assert asked.code == 5 and "only step more can restore it" in asked.document["reason"]
    assert cli("control", "last", "settle", "--step", "more", "--as", answer, "--reason", "yes").code == 0
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert paid(two_tabs) == ["first"]
    assert len(two_tabs.posts("/paid/first/")) == 1


def test_a_run_that_was_killed_before_a_goto_has_its_tabs_again(cli: Cli, two_tabs: Site) -> None:
    steps = [step.replace("REPEAT", ", repeat: safe") for step in OPENED_BY_PAGE]
    waiting = "{id: wait, run: 'touch waiting; until test -e go; do sleep 0.02; done'}"
    again = f'{{id: again, browser: {{goto: "{two_tabs.url}/second"}}}}'
    driver = cli.start("run", cli.plan(tabs_plan(two_tabs, *steps, waiting, again)))
    wait_for(cli.folder / "waiting")
    kill(driver)
    (cli.folder / "go").touch()
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert paid(two_tabs) == ["first"]


def test_a_step_whose_checks_say_that_it_was_done_has_left_the_page_that_they_saw(
    cli: Cli, site: Site
) -> None:
    """Otherwise the next step would be compared with the page before it, and what was done would be asked about."""
    site.pages["/cart"] = lambda site, _asked: Answer(
        "<!doctype html><html lang=en><title>Empty</title><form method=post action=/add><button>Add</button></form>"
        if site.version == 1
        else "<!doctype html><html lang=en><title>Full</title><button onclick=\"fetch('/pay', {method: 'POST'})"
        ".then(() => { said.textContent = 'paid' })\">Pay</button><p id=said></p>"
    )

    def add(site: Site, _asked: Asked) -> Answer:
        site.version = 2
        return Answer("", status=303, headers={"Location": "/cart"})

    site.pages["/add"] = add
    site.pages["/pay"] = lambda _site, _asked: Answer("ok")
    blocks = "test -e asked || { touch asked; exit 1; }; touch waiting; until test -e go; do sleep 0.02; done"
    plan = cli.plan(f"""
        version: 1
        name: cart
        steps:
          - {{id: open, browser: {{goto: "{site.url}/cart"}}}}
          - {{id: add, browser: {{click: {{role: button, name: Add}}}}, expect: [{{title: Full}}, {{run: "{blocks}"}}]}}
          - {{id: pay, browser: {{click: {{role: button, name: Pay}}}}, expect: [{{text: paid}}]}}
    """)
    driver = cli.start("run", plan)
    wait_for(cli.folder / "waiting")
    kill(driver)
    (cli.folder / "go").touch()
    resumed = cli("resume", "last", "--json")
    assert resumed.code == 0, resumed.out
    assert (len(site.posts("/add")), len(site.posts("/pay"))) == (1, 1)
