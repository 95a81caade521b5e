"""What is done in a real browser becomes a plan, and the plan does the same again."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.browser_house import needs_browser
from tests.scenario.conftest import Cli, Result, cli

from recoup.documents.yaml_tree import parse_tree
from recoup.runtimes.browser.finding import needed_browser
from recoup.testing.pages import Answer, Site

pytestmark = needs_browser
__all__ = ["cli"]

PASSWORD = "-".join(("correct", "horse", "77"))
LOGIN = """<!doctype html><title>Log in</title><form method=post action=/in>
<label>User <input name=user></label>
<label>PIN <input name=pin type=password oninput="echo.textContent = 'You typed ' + this.value"></label>
<button type=button onclick="document.querySelector('[name=pin]').type = 'text'">Show</button>
<button>Log in</button></form><p id=echo></p>
<a href=# onclick="return false">After</a>"""


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        yield one


def do(what: str, css: str = "body", value: str = "", **more: Any) -> dict[str, Any]:
    return {"do": what, "css": css, "value": value, **more}


def recorded(cli: Cli, url: str, moves: list[dict[str, Any]], *more: str) -> tuple[Result, Any]:
    """What the command said, and the plan that it wrote."""
    script = cli.plan(json.dumps(moves), "moves.json")
    result = cli("record", url, "--headless", "--script", script, "--output", "made.yaml", *more)
    assert result.code == 0, result.err
    return result, parse_tree((cli.folder / "made.yaml").read_text()).data


def run_again(cli: Cli, site: Site, **inputs: str) -> Any:
    """The plan is right, and runs to its end, on a site that forgot what was asked before."""
    assert cli("check", "made.yaml").code == 0
    site.asked.clear()
    cli.obey(page_quiet_s=0.1)
    given = [word for name, value in inputs.items() for word in ("--input", f"{name}={value}")]
    done = cli("run", "made.yaml", *given, "--json", timeout=120)
    assert done.code == 0, done.err
    return done.document


def verbs(plan: Any) -> list[str]:
    return [next(iter(step["browser"])) for step in plan["steps"]]


def said(plan: Any, number: int) -> Any:
    """What stands under the verb of a step, without the full description."""
    told = next(iter(plan["steps"][number]["browser"].values()))
    return {key: told[key] for key in told if key != "recorded"} if isinstance(told, dict) else told


def eventually(holds: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def test_a_form_that_was_filled_by_hand_is_filled_again(cli: Cli, site: Site) -> None:
    (cli.folder / "paper.txt").write_text("paper")
    moves = [
        do("click", "a[href='/form']"),
        do("type", "#who", "Ada"),
        do("type", "[name=password]", PASSWORD),
        do("fill", "[name=note]", "two\nlines of ${{ nothing }}"),
        do("select", "select", "Blue"),
        do("click", "[name=agree]"),
        do("click", "[name=agree]"),
        do("click", "text=Large"),
        do("upload", "[name=papers]", files=[str(cli.folder / "paper.txt")]),
        do("click", "[data-testid=send]"),
    ]
    result, plan = recorded(cli, site.url + "/", moves)
    assert verbs(plan) == [
        *("goto", "click", "fill", "fill", "fill", "select", "check", "uncheck", "check", "upload", "click")
    ]
    assert said(plan, 2) == {"label": "Your name", "value": "Ada"}
    assert said(plan, 3) == {"label": "Password", "value": "${{ inputs.password }}"}
    assert plan["inputs"]["password"] == {"required": True, "secret": True}
    assert plan["steps"][1]["expect"] == [{"url": "**/form"}]
    assert plan["steps"][-1]["expect"] == [{"url": "**/sent"}]
    assert plan["steps"][-1]["browser"]["click"]["recorded"]["test_id"] == "send"
    assert PASSWORD not in (cli.folder / "made.yaml").read_text() + result.out + result.err

    by_hand = site.posts("/sent")[0].form
    run_again(cli, site, password=PASSWORD, papers="paper.txt")
    assert [asked.form for asked in site.posts("/sent")] == [by_hand]
    assert by_hand["note"] == ["two\r\nlines of ${{ nothing }}"]


@pytest.mark.soak
def test_one_of_several_alike_is_named_by_its_row(cli: Cli, site: Site) -> None:
    _, plan = recorded(cli, site.url + "/invoices", [do("click", "#approve-1002"), do("wait", value="0.3")])
    assert said(plan, 1) == {"role": "button", "name": "Approve", "inside": "INV-1002"}
    run_again(cli, site)
    assert len(site.posts("/approved")) == 1


def test_a_secret_that_the_page_shows_is_not_in_the_plan(cli: Cli, site: Site) -> None:
    site.show("/login", LOGIN)
    site.show("/in", "<title>In</title><h1>Welcome</h1>")
    moves = [
        do("type", "[name=user]", "ada"),
        do("type", "[name=pin]", PASSWORD[:5]),
        do("click", "text=Show"),
        do("press", "[name=pin]", "End"),
        do("type", "[name=pin]", PASSWORD[5:]),
        do("click", "text=After"),
        do("press", "[name=pin]", "Enter"),
    ]
    _, plan = recorded(cli, site.url + "/login", moves)
    assert verbs(plan) == ["goto", "fill", "fill", "click", "fill", "click", "press"]
    assert said(plan, 4)["value"].startswith("${{ inputs.pin")
    assert all(spec == {"required": True, "secret": True} for spec in plan["inputs"].values())
    assert PASSWORD not in (cli.folder / "made.yaml").read_text()
    assert plan["steps"][-1]["expect"] == [{"url": "**/in"}]

    by_hand = site.posts("/in")[0].form
    run_again(cli, site, pin=PASSWORD[:5] + "xyz", pin_2=PASSWORD)
    assert [asked.form for asked in site.posts("/in")] == [by_hand]


@pytest.mark.soak
def test_frames_and_shadow_roots_are_recorded_like_the_page(cli: Cli, site: Site) -> None:
    moves = [
        do("click", "button", frame="[name=inner]"),
        do("click", "button", frame="#other"),
        do("type", "#deep", "down"),
        do("click", "text=In the shadow"),
    ]
    _, plan = recorded(cli, site.url + "/frames", moves)
    assert verbs(plan) == ["goto", "click", "click", "fill", "click"]
    assert said(plan, 1) == {"role": "button", "name": "Inner"}
    assert said(plan, 2) == {"role": "button", "name": "Other", "frame": 'iframe[id="other"]'}
    assert said(plan, 3) == {"label": "Deep", "value": "down"}
    assert run_again(cli, site)["status"] == "succeeded"


@pytest.mark.soak
def test_dialogs_are_answered_as_they_were(cli: Cli, site: Site) -> None:
    moves = [
        do("click", "button >> nth=0", dialog="accept"),
        do("click", "button >> nth=0", dialog="dismiss"),
        do("click", "button >> nth=1", dialog="accept", answer="four"),
    ]
    _, plan = recorded(cli, site.url + "/dialogs", moves)
    dialogs = [step["browser"].get("dialog") for step in plan["steps"]]
    assert dialogs == [None, "accept", "dismiss", {"accept": True, "text": "four"}]
    assert run_again(cli, site)["status"] == "succeeded"


@pytest.mark.soak
def test_tabs_and_addresses_are_gone_to(cli: Cli, site: Site) -> None:
    moves = [
        do("click", "text=Invoices"),
        do("tab", value="2"),
        do("click", "#approve-1003"),
        do("tab", value="1"),
        do("click", "text=Form"),
        do("goto", value=site.url + "/app"),
        do("wait", value="0.8"),
        do("click", "text=Items"),
    ]
    _, plan = recorded(cli, site.url + "/", moves)
    assert verbs(plan) == ["goto", "click", "tab", "click", "tab", "click", "goto", "click"]
    assert [said(plan, number) for number in (2, 4, 6)] == ["last", "1", site.url + "/app"]
    assert [step["expect"] for step in plan["steps"] if "expect" in step] == [
        [{"url": "**/form"}],
        [{"url": "**/app#/items"}],
    ]
    run_again(cli, site)
    assert len(site.posts("/approved")) == 1


@pytest.mark.soak
def test_the_page_itself_does_nothing_that_is_recorded(cli: Cli, site: Site) -> None:
    site.show(
        "/self",
        """<title>Self</title><button onclick="late.click()">Go</button><button id=late>Late</button>
        <input id=field><script>
        setTimeout(() => { field.value = 'own'; field.dispatchEvent(new Event('input', {bubbles: true})) }, 50);
        </script>""",
    )
    _, plan = recorded(cli, site.url + "/self", [do("wait", value="0.3"), do("double", "text=Go")])
    assert verbs(plan) == ["goto", "click"]
    assert said(plan, 1) == {"role": "button", "name": "Go", "double": True}


def test_an_interrupt_ends_the_recording_and_writes_the_plan(cli: Cli, site: Site) -> None:
    script = cli.plan(json.dumps([do("click", "text=Form"), do("wait", value="9")]), "moves.json")
    process = cli.start(
        "record", site.url + "/", "--headless", "--script", script, "--output", "made.yaml", "--json"
    )
    eventually(lambda: any(asked.path == "/form" for asked in site.asked))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert json.loads(out)["steps"] == 2
    assert verbs(parse_tree((cli.folder / "made.yaml").read_text()).data) == ["goto", "click"]


@pytest.mark.soak
def test_a_recording_ends_at_its_limit(cli: Cli, site: Site) -> None:
    moves = [do("click", f"#approve-{number}") for number in (1001, 1002, 1003)]
    result, plan = recorded(cli, site.url + "/invoices", [*moves, do("wait", value="5")], "--steps", "2")
    assert len(plan["steps"]) == 2
    assert "ended after 2 steps" in result.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("nowhere",), "is no address"),
        (("http://localhost/", "--headless"), "nobody can do anything"),
        (("http://localhost/", "--script", "none.json"), "cannot be read"),
        (("http://localhost/", "--headless", "--script", "bad.json"), "no 'fly'"),
        (("http://localhost/", "--output", "bad.json"), "there already"),
        (("http://localhost/",), "no display"),
    ],
)
def test_what_cannot_be_recorded_is_said(cli: Cli, words: tuple[str, ...], complaint: str) -> None:
    Path(cli.plan(json.dumps([do("fly")]), "bad.json"))
    # Named, because one that can show a window need not be installed.
    named = {"RECOUP_BROWSER": needed_browser(os.environ).executable}
    result = cli("record", *words, env=named)
    assert result.code != 0
    assert complaint in result.err


def test_a_page_that_is_not_there_is_no_plan(cli: Cli, site: Site) -> None:
    site.pages["/gone"] = lambda _site, _asked: Answer("", 204)
    script = cli.plan("[]", "moves.json")
    result = cli("record", site.url + "/gone", "--headless", "--script", script, "--output", "made.yaml")
    assert result.code == 2
    assert "cannot be opened" in result.err
    assert not (cli.folder / "made.yaml").exists()
