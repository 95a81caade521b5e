"""People's own Playwright tests, run by a real pytest in a real Chromium, before and after their site has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from recoup.pytest_plugin.report import Heal, Written, summary, write_report
from recoup.redaction.redactor import SecretRedactor
from recoup.runtimes.browser.finding import needed_browser
from recoup.testing.pages import Site

RUN_S: Final = 600
SECRET: Final = "correct" + "-horse-" + "battery"
TOKEN: Final = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"

STORY: Final = """
import contextlib, io, json, os, sys
import pytest

for run in json.load(sys.stdin):
    os.environ.update(run["environ"])
    with contextlib.redirect_stdout(io.StringIO()) as said:
        pytest.main(run["args"])
    folder = {}
    for where, _, names in os.walk(".recoup/heals"):
        for name in names:
            with open(os.path.join(where, name)) as file:
                folder[os.path.relpath(file.name, ".recoup/heals")] = file.read()
    with open("heals.json") as file:
        report = json.load(file)
    print(json.dumps({"text": said.getvalue(), "folder": folder, "report": report}), flush=True)
"""
"""Several runs of pytest by one interpreter: it is started, and has everything loaded, once."""

BROWSER: Final = """
import atexit, functools, os
from playwright.sync_api import sync_playwright

@functools.cache
def browser():
    playwright = sync_playwright().start()
    atexit.register(playwright.stop)
    return playwright.chromium.launch(executable_path=os.environ["INNER_BROWSER"])
"""
CONFTEST: Final = """
import os
import pytest
from playwright.sync_api import expect
from one_browser import browser as one_browser

expect.set_options(timeout=10_000)

@pytest.fixture(scope="session")
def browser():
    return one_browser()

@pytest.fixture(scope="session")
def page(browser, browser_name):
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(10_000 if os.environ["INNER_VERSION"] == "1" else 500)
    page.set_default_navigation_timeout(20_000)
    yield page
    context.close()

@pytest.fixture
def shop(page):
    page.goto(os.environ["INNER_SITE"] + "/shop")
    return page
"""
ASYNC_CONFTEST: Final = """
import os
import pytest
from playwright.async_api import async_playwright, expect

expect.set_options(timeout=10_000)

@pytest.fixture(scope="session")
async def browser():
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=os.environ["INNER_BROWSER"])
        yield browser
        await browser.close()

@pytest.fixture
async def opened(browser):
    context = await browser.new_context()
    context.set_default_timeout(10_000 if os.environ["INNER_VERSION"] == "1" else 500)
    context.set_default_navigation_timeout(20_000)

    async def opened(path="/shop"):
        page = await context.new_page()
        await page.goto(os.environ["INNER_SITE"] + path)
        return page

    yield opened
    await context.close()
"""

TESTS: Final = """
import os
from playwright.sync_api import expect

def test_save(shop):
    shop.locator("#who").fill("Ada")
    shop.get_by_label("Secret").fill(os.environ["INNER_SECRET"], timeout=10_000)
    shop.get_by_role("button", name="Save order").click()
    expect(shop.locator("#state")).to_have_text("Saved Ada")

def test_save_by_selectors(shop):
    shop.fill("[name=customer]", "Bob", strict=True, timeout=10_000)
    assert shop.select_option("#size", "l") == ["l"]
    shop.click("text=Save order")
    expect(shop.locator("#state")).to_have_text("Saved Bob")

def test_approve(page):
    page.goto(os.environ["INNER_SITE"] + "/invoices")
    page.locator("#approve-1002").click()
    expect(page.locator("#state")).to_have_text("Approved 1002")

def test_swapped(shop):
    shop.locator("#first").click(timeout=10_000)
    expect(shop.locator("#state")).to_have_text("Paid", timeout=700)

def test_drag(shop):
    shop.locator("#card").drag_to(shop.locator("#basket"))
    expect(shop.locator("#state")).to_have_text("Dropped")
"""
FRAMES: Final = """
from playwright.sync_api import expect

def test_frame(shop):
    shop.frame_locator("#payment").get_by_role("button", name="Confirm", exact=True).click()
    expect(shop.frame_locator("#payment").locator("p")).to_have_text("Confirmed")

def test_dialog(shop):
    shop.once("dialog", lambda dialog: dialog.accept())
    shop.get_by_text("Ask me").click(timeout=10_000)
    expect(shop.locator("#state")).to_have_text("Asked")
"""
FAILING: Final = """
import os
from playwright.sync_api import expect

def test_gone(shop):
    shop.locator("#archive").click()
    expect(shop.locator("#state")).to_have_text("Archived")

def test_row_that_is_gone(shop):
    shop.locator("#remove-3").click()
    expect(shop.locator("#state")).to_have_text("Removed 3")

def test_assertion(shop):
    expect(shop.get_by_text("Nothing yet")).to_be_visible(timeout=300)
    assert shop.locator("#who").count() == 1

def test_fails_after_a_heal(shop):
    shop.locator("#who").fill("Eve")
    expect(shop.locator("h1")).to_have_text("Order 17", timeout=300)

def test_never_there(shop):
    if os.environ["INNER_VERSION"] == "2":
        shop.locator("#never").click(timeout=300)
"""
ASYNC_TESTS: Final = """
import asyncio
from playwright.async_api import expect

async def save(shop):
    await shop.locator("#who").fill("Ada")
    await shop.get_by_role("button", name="Save order").click()
    await expect(shop.locator("#state")).to_have_text("Saved Ada")

async def save_by_selectors(shop):
    await shop.fill("[name=customer]", "Bob", strict=True, timeout=10_000)
    assert await shop.select_option("#size", "l") == ["l"]
    await shop.click("text=Save order")
    await expect(shop.locator("#state")).to_have_text("Saved Bob")

async def pay(shop):
    await shop.locator("#first").click(timeout=10_000)
    await expect(shop.locator("#state")).to_have_text("Paid", timeout=700)

async def drag(shop):
    await shop.locator("#card").drag_to(shop.locator("#basket"))
    await expect(shop.locator("#state")).to_have_text("Dropped")

async def confirm(shop):
    await shop.frame_locator("#payment").get_by_role("button", name="Confirm", exact=True).click()
    await expect(shop.frame_locator("#payment").locator("p")).to_have_text("Confirmed")

async def test_at_once(opened):
    told = (save, save_by_selectors, pay, drag, confirm)
    await asyncio.gather(*[one(await opened()) for one in told])

async def test_approve(opened):
    page = await opened("/invoices")
    await page.locator("#approve-1002").click()
    await expect(page.locator("#state")).to_have_text("Approved 1002")

async def test_dialog(opened):
    shop = await opened()
    shop.once("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
    await shop.get_by_text("Ask me").click(timeout=10_000)
    await expect(shop.locator("#state")).to_have_text("Asked")

async def test_row_that_is_gone(opened):
    await (await opened()).locator("#remove-3").click()

async def test_assertion(opened):
    await expect((await opened()).get_by_text("Nothing yet")).to_be_visible(timeout=300)

async def test_fails_after_a_heal(opened):
    shop = await opened()
    await shop.locator("#who").fill("Eve")
    await expect(shop.locator("h1")).to_have_text("Order 17", timeout=300)
"""


def shop(version: int) -> str:
    """Version 2 has other ids, other words, other wrappers; one button and one row are gone, two ids are exchanged."""
    old = version == 1
    rows = "".join(
        f"<tr><td>Item-{n}{'' if old else ' ' + TOKEN}</td><td><button id={'remove' if old else 'rm'}-{n}"
        f" onclick=\"say('Removed {n}')\">Remove</button></td></tr>"
        for n in ((1, 2, 3) if old else (1, 2))
    )
    pay, drop = ("first", "second") if old else ("second", "first")
    archive = "<button id=archive onclick=\"say('Archived')\">Archive order</button>" if old else ""
    return f"""<!doctype html><html lang=en><head><title>Shop</title></head><body>
    <h1>Order {17 if old else 18}</h1><p id=state>{"Nothing yet" if old else "Nothing so far"}</p>
    <{"form" if old else "section"} onsubmit="return false">
    <label for={"who" if old else "customer"}>{"Customer" if old else "Customer name"}</label>
    <input id={"who" if old else "customer"} name=customer class=name>
    <label>Secret <input type=password name=secret oninput="echo.textContent = this.value"></label><i id=echo></i>
    {archive}
    <button type=button id=save class=main onclick="say('Saved ' + document.querySelector('.name').value)">
    {"Save order" if old else "Save the order"}</button></{"form" if old else "section"}>
    <button id={pay} onclick="say('Paid')">Pay order</button>
    <button id={drop} onclick="say('Deleted')">Delete order</button>
    <select id={"size" if old else "sizes"} name=size aria-label=Size><option value=s>Small<option value=l>Large</select>
    <button onclick="if (confirm('Really?')) say('Asked')">Ask me</button>
    <table>{rows}</table>
    <iframe id=payment srcdoc="<button onclick='document.querySelector(`p`).textContent = `Confirmed`'>
    {"Confirm" if old else "Confirm payment"}</button><p>Open</p>"></iframe>
    <div id={"card" if old else "item-card"} draggable=true
      ondragstart="event.dataTransfer.setData('text', 'x')">Teapot, blue</div>
    <div id=basket style="height: 60px" ondragover="event.preventDefault()"
      ondrop="event.preventDefault(); say('Dropped')">Basket</div>
    <script>function say(words) {{ state.textContent = words }}</script></body></html>"""


@dataclass
class Ran:
    """One run of pytest."""

    text: str
    folder: dict[str, str]
    """What is learned, by file."""
    report: dict[str, Any]

    @property
    def outcomes(self) -> dict[str, str]:
        lines = [line.split(" - ")[0].split() for line in self.text.splitlines()]
        return {
            words[1].split("::")[1].removesuffix("[chromium]"): words[0].lower()
            for words in lines
            if len(words) == 2 and words[0] in ("PASSED", "FAILED", "ERROR") and "::" in words[1]
        }

    def heals(self, test: str) -> list[dict[str, Any]]:
        return [heal for heal in self.report["heals"] if heal["test"].removesuffix("[chromium]") == test]

    def heal(self, test: str, action: str = "") -> dict[str, Any]:
        [found] = [heal for heal in self.heals(test) if action in ("", heal["action"])]
        return found


@dataclass(frozen=True)
class Asked:
    """A run to be made: how the site looks then, and what pytest is told."""

    version: int
    args: tuple[str, ...]


@dataclass(frozen=True)
class Sites:
    """The site before and after it was changed."""

    before: Site
    after: Site

    def environ(self, version: int) -> dict[str, str]:
        site = self.before if version == 1 else self.after
        return {"INNER_SITE": site.url, "INNER_VERSION": str(version)}


WITHOUT: Final = ("cacheprovider", "hypothesispytest", "anyio", "schemathesis")
"""Plugins that have nothing to do with it, and take longer to load than all the rest."""
PLAIN: Final = tuple(word for name in WITHOUT for word in ("-p", f"no:{name}"))
COMMON: Final = (*PLAIN, "-rA", "--tb=short")
HEALING: Final = ("--heal-after=0.3", "--heal-report=heals.json")


def told(root: Path, files: dict[str, str], sites: Sites, plugin: str, *runs: Asked) -> list[Ran]:
    """A folder of tests, run again and again while the site changes."""
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    asked = [
        {
            "environ": sites.environ(run.version),
            "args": [*COMMON, "-p", f"no:{plugin}", *HEALING, *run.args],
        }
        for run in runs
    ]
    browser = needed_browser(os.environ).executable
    environ = {**os.environ, "INNER_BROWSER": browser, "INNER_SECRET": SECRET}
    ran = subprocess.run(
        [sys.executable, "-c", STORY], cwd=root, env=environ, input=json.dumps(asked),
        capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    made = [Ran(**json.loads(line)) for line in ran.stdout.splitlines()]
    assert len(made) == len(runs), ran.stdout + ran.stderr
    return made


INI: Final = "[pytest]\nfilterwarnings =\n  error\n  ignore::pytest.PytestRemovedIn10Warning\n"
ASYNC_INI: Final = f"""{INI}asyncio_mode = auto
asyncio_default_fixture_loop_scope = session
asyncio_default_test_loop_scope = session
"""


@dataclass
class History:
    """The runs of one project, in this order: before the site changed, and three times afterwards."""

    learned: Ran
    reported: Ran
    applied: Ran
    """By two workers."""
    again: Ran


@dataclass
class ShortHistory:
    """Of tests with the asynchronous API: what decides is the same."""

    learned: Ran
    applied: Ran


def sync_history(root: Path, sites: Sites) -> History:
    files = {
        "pytest.ini": INI, "conftest.py": CONFTEST, "one_browser.py": BROWSER, "test_shop.py": TESTS,
        "frames/test_frames.py": FRAMES, "test_failing.py": FAILING,
    }  # fmt: skip
    return History(
        *told(
            root,
            files,
            sites,
            "asyncio",
            Asked(1, ("--heal=apply",)),
            Asked(2, ("--heal=report", "-k", "approve or swapped")),
            Asked(2, ("--heal=apply", "-n2")),
            Asked(2, ("--heal=apply", "-k", "approve or swapped or dialog")),
        )
    )


def async_history(root: Path, sites: Sites) -> ShortHistory:
    files = {"pytest.ini": ASYNC_INI, "conftest.py": ASYNC_CONFTEST, "test_shop.py": ASYNC_TESTS}
    return ShortHistory(
        *told(
            root,
            files,
            sites,
            "playwright",
            Asked(1, ("--heal=apply",)),
            Asked(2, ("--heal=apply",)),
        )
    )


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    with Site() as before, Site() as after:
        after.version = 2
        before.show("/shop", shop(1))
        after.show("/shop", shop(2))
        yield Sites(before, after)


HEALED: Final = (
    "test_save",
    "test_save_by_selectors",
    "test_approve",
    "test_swapped",
    "test_drag",
    "test_frame",
)


def what_passes_is_learned_and_nothing_is_said(history: History) -> None:
    ran = history.learned
    assert set(ran.outcomes.values()) == {"passed"}
    assert sorted(ran.folder) == ["frames/test_frames.py.json", "test_failing.py.json", "test_shop.py.json"]
    assert ran.report["heals"] == []
    assert "HealWarning" not in ran.text
    tests = json.loads(ran.folder["test_shop.py.json"])["tests"]
    places = {
        (one["place"]["action"], one["place"]["locator"]) for one in tests["test_save[chromium]"]["actions"]
    }
    assert places == {
        ("fill", "#who"),
        ("fill", 'internal:label="Secret"i'),
        ("click", 'internal:role=button[name="Save order"i]'),
    }


def a_changed_site_heals(history: History) -> None:
    outcomes = {name: history.applied.outcomes[name] for name in HEALED}
    assert outcomes == dict.fromkeys(HEALED, "passed"), history.applied.text
    save = history.applied.heal("test_save", "click")
    assert save["taken"] == "button 'Save the order'"
    assert (save["outcome"], save["verified"], save["learned"]) == ("healed", True, True)
    assert history.applied.heal("test_approve")["taken"] == "button 'Approve invoice'"
    assert history.applied.heal("test_drag")["taken"] == "div 'Teapot, blue'"


def the_row_that_was_meant_is_taken(sites: Sites) -> None:
    posted = [*sites.before.posts("/approved"), *sites.after.posts("/approved")]
    assert {name for asked in posted for name in asked.form.get("n", [])} == {"1002"}


def a_locator_that_finds_another_element_heals(history: History) -> None:
    swapped = history.applied.heal("test_swapped")
    assert swapped["taken"] == "button 'Pay order'"
    assert "it says 'Delete order', not 'Pay order'" in swapped["why"]


def a_heal_is_a_warning_at_the_line_of_the_action(history: History) -> None:
    line = next(n for n, text in enumerate(TESTS.splitlines(), 1) if "Save order" in text)
    said = 'HealWarning: recoup healed click: took button \'Save the order\' for get_by_role("button", name="Save order")'
    assert f"test_shop.py:{line}: {said}" in history.applied.text
    assert history.applied.heal("test_save", "click")["line"] == line
    assert history.applied.heal("test_save", "click")["file"] == "test_shop.py"


def what_is_gone_stays_gone(history: History) -> None:
    for name, reason in (
        ("test_gone", "the likeliest is not taken"),
        ("test_row_that_is_gone", "it was in 'Item-3'"),
    ):
        assert history.applied.outcomes[name] == "failed"
        heal = history.applied.heal(name)
        assert heal["outcome"] == "abstained"
        assert reason in heal["reason"]
    assert "Locator.click: Timeout 500ms exceeded" in history.applied.text
    assert "recoup took nothing for locator" in history.applied.text


def assertions_and_unknown_locators_are_left_alone(history: History) -> None:
    for name in ("test_assertion", "test_never_there"):
        assert history.applied.outcomes[name] == "failed"
        assert not [heal for heal in history.applied.report["heals"] if heal["test"].startswith(name)]


def a_heal_in_a_test_that_fails_is_not_learned(history: History) -> None:
    heal = history.applied.heal("test_fails_after_a_heal")
    assert (heal["outcome"], heal["verified"], heal["learned"]) == ("healed", False, False)
    assert "unverified: the test did not pass afterwards" in history.applied.text
    assert history.applied.folder["test_failing.py.json"] == history.learned.folder["test_failing.py.json"]


def a_report_says_what_would_be_taken_and_lets_the_test_fail(history: History) -> None:
    ran = history.reported
    assert ran.outcomes == {"test_approve": "failed", "test_swapped": "failed"}
    assert ran.heal("test_approve")["outcome"] == "reported"
    assert ran.heal("test_swapped")["outcome"] == "reported"
    assert "recoup would have healed click: button 'Approve invoice' for" in ran.text
    assert ran.folder == history.learned.folder


def a_verified_heal_is_learned_beside_what_was_there_before(history: History) -> None:
    tests = json.loads(history.applied.folder["test_shop.py.json"])["tests"]
    [approve] = tests["test_approve[chromium]"]["actions"]
    assert approve["element"]["name"] == "Approve invoice"
    assert approve["healed"]["element"]["name"] == "Approve"
    assert approve["healed"]["confidence"] >= 0.9


def an_unsure_heal_is_verified_but_not_learned(history: History) -> None:
    heals = [heal for heal in history.applied.report["heals"] if heal["verified"]]
    unsure = [heal for heal in heals if heal["confidence"] < 0.9]
    assert [heal["learned"] for heal in unsure] == [False] * len(unsure)
    assert all(heal["learned"] for heal in heals if heal["confidence"] >= 0.9)


def a_second_run_without_workers_heals_alike_and_changes_nothing(history: History) -> None:
    assert set(history.again.outcomes.values()) == {"passed"}
    assert history.again.folder == history.applied.folder
    for name in ("test_approve", "test_swapped"):
        assert history.again.heal(name)["taken"] == history.applied.heal(name)["taken"]
    assert "2 healed, 2 of them verified, 2 learned, 0 only reported, 0 not found again" in history.again.text


def what_is_typed_into_a_password_field_is_kept_nowhere(history: History) -> None:
    for ran in (history.learned, history.applied, history.again):
        assert SECRET not in json.dumps([ran.folder, ran.report])
    assert "[redacted]" in history.learned.folder["test_shop.py.json"]


def what_is_added_to_an_error_is_redacted(applied: Ran) -> None:
    notes = [line for line in applied.text.splitlines() if "recoup took nothing for" in line]
    telling = [line for line in notes if "this one is in 'Item-2 " in line]
    assert len(telling) >= 3, "in the traceback, as a warning and in the plugin's section"
    assert all("'Item-2 [redacted]'" in line for line in telling)
    assert TOKEN not in "".join(telling)


CHECKS = (
    what_passes_is_learned_and_nothing_is_said,
    a_changed_site_heals,
    a_locator_that_finds_another_element_heals,
    a_heal_is_a_warning_at_the_line_of_the_action,
    what_is_gone_stays_gone,
    assertions_and_unknown_locators_are_left_alone,
    a_heal_in_a_test_that_fails_is_not_learned,
    a_report_says_what_would_be_taken_and_lets_the_test_fail,
    a_verified_heal_is_learned_beside_what_was_there_before,
    an_unsure_heal_is_verified_but_not_learned,
    a_second_run_without_workers_heals_alike_and_changes_nothing,
    what_is_typed_into_a_password_field_is_kept_nowhere,
)


def the_asynchronous_api_heals_alike(history: ShortHistory, sync: History) -> None:
    assert set(history.learned.outcomes.values()) == {"passed"}
    assert history.applied.outcomes == {
        "test_at_once": "passed",
        "test_approve": "passed",
        "test_dialog": "passed",
        "test_row_that_is_gone": "failed",
        "test_assertion": "failed",
        "test_fails_after_a_heal": "failed",
    }, history.applied.text
    healed = {(heal["action"], heal["locator"]): heal for heal in history.applied.heals("test_at_once")}
    before = ("test_save", "test_save_by_selectors", "test_swapped", "test_drag", "test_frame")
    for test in before:
        for heal in sync.applied.heals(test):
            mine = healed.pop((heal["action"], heal["locator"]))
            for told in ("outcome", "taken", "why", "verified", "learned"):
                assert mine[told] == heal[told]
    assert not healed


def of_actions_at_once_each_has_its_own_line(history: ShortHistory) -> None:
    lines = dict(enumerate(ASYNC_TESTS.splitlines(), 1))
    for heal in history.applied.heals("test_at_once"):
        assert f".{heal['action']}(" in lines[heal["line"]]
        words = heal["locator"].split('"')
        assert words[1 if len(words) > 1 else 0] in lines[heal["line"]]


def what_fails_asynchronously_fails_alike(history: ShortHistory) -> None:
    assert "it was in 'Item-3'" in history.applied.heal("test_row_that_is_gone")["reason"]
    assert history.applied.heal("test_fails_after_a_heal")["verified"] is False
    assert not history.applied.heals("test_assertion")
    learned = json.loads(history.learned.folder["test_shop.py.json"])["tests"]
    applied = json.loads(history.applied.folder["test_shop.py.json"])["tests"]
    assert applied["test_fails_after_a_heal"] == learned["test_fails_after_a_heal"]
    assert applied["test_approve"]["actions"][0]["healed"]["element"]["name"] == "Approve"


@pytest.mark.timeout(2 * RUN_S)
def test_a_history_of_runs_is_as_promised(tmp_path: Path, sites: Sites) -> None:
    """One test: the histories take a while to make, and workers that share the tests would each make them again."""
    roots = [tmp_path / "sync", tmp_path / "async"]
    for root in roots:
        root.mkdir()
    with ThreadPoolExecutor() as at_once:
        other = at_once.submit(async_history, roots[1], sites)
        history = sync_history(roots[0], sites)
    for check in CHECKS:
        check(history)
    the_row_that_was_meant_is_taken(sites)
    the_asynchronous_api_heals_alike(other.result(), history)
    of_actions_at_once_each_has_its_own_line(other.result())
    what_fails_asynchronously_fails_alike(other.result())
    for ran in (history.applied, other.result().applied):
        what_is_added_to_an_error_is_redacted(ran)


def test_without_the_option_nothing_is_loaded_and_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    loaded = {name for name in sys.modules if name.split('.')[0] in ('playwright', 'numpy', 'msgspec')}\n"
        "    ours = {name for name in sys.modules if name.split('.')[0] == 'recoup'}\n"
        "    assert (loaded, ours) == (set(), {'recoup', 'recoup.pytest_plugin', 'recoup.pytest_plugin.plugin'})\n"
    )
    ran = run_pytest(tmp_path, "-p", "no:playwright")
    assert "1 passed" in ran.stdout, ran.stdout
    assert not (tmp_path / ".recoup").exists()


def test_without_the_library_other_tests_run_and_healing_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    without = "import sys, pytest; sys.modules['playwright'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    plain = run_pytest(tmp_path, "-p", "no:playwright", start=("-c", without))
    assert "1 passed" in plain.stdout, plain.stdout
    asked = run_pytest(tmp_path, "-p", "no:playwright", "--heal=apply", start=("-c", without))
    assert asked.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--heal needs playwright: pip install 'recoup[browser]'" in asked.stderr


def run_pytest(
    root: Path, *args: str, start: tuple[str, ...] = ("-m", "pytest")
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *start, *PLAIN, "-p", "no:asyncio", *args],
        cwd=root, capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip


def test_a_report_can_be_a_page(tmp_path: Path) -> None:
    heal = Heal(
        outcome="abstained", file="test_it.py", line=3, test="test_it", action="click", locator="<b>", why="gone"
    )  # fmt: skip
    written = SecretRedactor().seal(Written("apply", summary([heal]), (heal,)))
    write_report(tmp_path / "made" / "heals.html", written)
    page = (tmp_path / "made" / "heals.html").read_text()
    assert "test_it.py:3" in page
    assert "click &lt;b&gt;" in page
    assert "0 healed, 0 of them verified, 0 learned, 0 only reported, 1 not found again" in page
