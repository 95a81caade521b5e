"""People's own Playwright tests, run by a real pytest in a real Chromium, before and after their site has changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from recoup.pytest_plugin.report import Heal, Written, summary, write_report
from recoup.redaction.redactor import SecretRedactor
from recoup.runtimes.browser.finding import needed_browser
from recoup.testing.pages import Site

RUN_S: Final = 60
START_S: Final = 20
SECRET: Final = "correct" + "-horse-" + "battery"

CONFTEST: Final = """
import os
import pytest
from playwright.sync_api import expect

expect.set_options(timeout=1500)

@pytest.fixture(scope="session")
def browser(playwright):
    browser = playwright.chromium.connect_over_cdp(os.environ["INNER_BROWSER"])
    yield browser
    browser.close()

@pytest.fixture(scope="session")
def page(browser):
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(10_000 if os.environ["INNER_VERSION"] == "1" else 1000)
    page.set_default_navigation_timeout(20_000)
    yield page
    context.close()

@pytest.fixture
def shop(page):
    page.goto(os.environ["INNER_SITE"] + "/shop")
    return page
"""

TESTS: Final = """
import os
from playwright.sync_api import expect

def test_save(shop):
    shop.locator("#who").fill("Ada")
    shop.get_by_label("Secret").fill(os.environ["INNER_SECRET"])
    shop.get_by_role("button", name="Save order").click()
    expect(shop.locator("#state")).to_have_text("Saved Ada")

def test_save_by_selectors(shop):
    shop.fill("[name=customer]", "Bob", strict=True)
    assert shop.select_option("#size", "l") == ["l"]
    shop.click("text=Save order")
    expect(shop.locator("#state")).to_have_text("Saved Bob")

def test_approve(page):
    page.goto(os.environ["INNER_SITE"] + "/invoices")
    page.locator("#approve-1002").click()
    expect(page.locator("#state")).to_have_text("Approved 1002")

def test_swapped(shop):
    shop.locator("#first").click()
    expect(shop.locator("#state")).to_have_text("Paid")

def test_drag(shop):
    shop.locator("#card").drag_to(shop.locator("#basket"))
    expect(shop.locator("#state")).to_have_text("Dropped")
"""
FRAMES: Final = """
from playwright.sync_api import expect

def test_frame(shop):
    shop.frame_locator("#payment").get_by_role("button", name="Confirm").click()
    expect(shop.frame_locator("#payment").locator("p")).to_have_text("Confirmed")

def test_dialog(shop):
    shop.once("dialog", lambda dialog: dialog.accept())
    shop.get_by_text("Ask me").click()
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


def shop(version: int) -> str:
    """Version 2 has other ids, other words, other wrappers; one button and one row are gone, two ids are exchanged."""
    old = version == 1
    rows = "".join(
        f"<tr><td>Item-{n}</td><td><button id={'remove' if old else 'rm'}-{n}"
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
    {"Confirm" if old else "Please confirm the payment"}</button><p>Open</p>"></iframe>
    <div id={"card" if old else "item-card"} draggable=true
      ondragstart="event.dataTransfer.setData('text', 'x')">Teapot, blue</div>
    <div id=basket style="height: 60px" ondragover="event.preventDefault()"
      ondrop="event.preventDefault(); say('Dropped')">Basket</div>
    <script>function say(words) {{ state.textContent = words }}</script></body></html>"""


@dataclass
class Ran:
    text: str
    outcomes: dict[str, str]
    folder: dict[str, str]
    """What is learned, by file."""
    report: dict[str, Any]

    def heal(self, test: str, action: str = "") -> dict[str, Any]:
        [found] = [
            heal
            for heal in self.report["heals"]
            if heal["test"] == f"{test}[chromium]" and action in ("", heal["action"])
        ]
        return dict(found)


class Project:
    """A folder of tests, run again and again while the site changes."""

    def __init__(self, root: Path, site: Site, browser: str) -> None:
        self.root, self.site, self.browser = root, site, browser
        (root / "pytest.ini").write_text(
            "[pytest]\nfilterwarnings =\n  error\n  ignore::pytest.PytestRemovedIn10Warning\n"
        )
        (root / "conftest.py").write_text(CONFTEST)
        (root / "test_shop.py").write_text(TESTS)
        (root / "frames").mkdir(exist_ok=True)
        (root / "frames/test_frames.py").write_text(FRAMES)
        (root / "test_failing.py").write_text(FAILING)

    def run(self, version: int, *args: str) -> Ran:
        self.site.version = version
        self.site.show("/shop", shop(version))
        report = self.root / "heals.json"
        report.unlink(missing_ok=True)
        environ = {
            **os.environ,
            "INNER_BROWSER": self.browser,
            "INNER_SITE": self.site.url,
            "INNER_SECRET": SECRET,
            "INNER_VERSION": str(version),
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:asyncio",
            "-p",
            "no:hypothesispytest",
            "-p",
            "no:anyio",
            "-rA",
            "--tb=short",
            "--heal-report=heals.json",
            *args,
        ]
        ran = subprocess.run(
            command, cwd=self.root, env=environ, capture_output=True, text=True, timeout=RUN_S
        )
        return Ran(
            ran.stdout + ran.stderr,
            _outcomes(ran.stdout),
            self.folder(),
            json.loads(report.read_text()) if report.exists() else {},
        )

    def folder(self) -> dict[str, str]:
        root = self.root / ".recoup/heals"
        return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def _outcomes(text: str) -> dict[str, str]:
    lines = [line.split(" - ")[0].split() for line in text.splitlines()]
    return {
        words[1].split("::")[1].removesuffix("[chromium]"): words[0].lower()
        for words in lines
        if len(words) == 2 and words[0] in ("PASSED", "FAILED", "ERROR") and "::" in words[1]
    }


@dataclass
class History:
    """The runs of one project, in this order: before the site changed, and three times afterwards."""

    learned: Ran
    reported: Ran
    applied: Ran
    """By two workers."""
    again: Ran


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site() as open_site:
        yield open_site


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One for all the runs; gives the address that they connect to."""
    home = tmp_path_factory.mktemp("browser")
    options = ("--headless=new", "--no-sandbox", "--remote-debugging-port=0", f"--user-data-dir={home}")
    process = subprocess.Popen(
        [needed_browser(os.environ).executable, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port_of(home)}"
    finally:
        process.terminate()
        process.wait(20)


def port_of(home: Path) -> int:
    """The browser writes it down when it listens."""
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        with suppress(OSError, ValueError, IndexError):
            return int((home / "DevToolsActivePort").read_text().split()[0])
        time.sleep(0.05)
    raise TimeoutError(f"the browser did not listen within {START_S} s")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, site: Site, browser: str) -> History:
    project = Project(tmp_path_factory.mktemp("project"), site, browser)
    learned = project.run(1, "--heal=apply")
    beside = Project(shutil.copytree(project.root, tmp_path_factory.mktemp("beside") / "it"), site, browser)
    with ThreadPoolExecutor() as at_once:
        reported = at_once.submit(beside.run, 2, "--heal=report", "-k", "approve or swapped")
        applied = project.run(2, "--heal=apply", "-n2")
    return History(
        learned=learned,
        reported=reported.result(),
        applied=applied,
        again=project.run(2, "--heal=apply", "-k", "approve or swapped or dialog"),
    )


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
    assert {name: history.applied.outcomes[name] for name in HEALED} == dict.fromkeys(HEALED, "passed")
    save = history.applied.heal("test_save", "click")
    assert save["taken"] == "button 'Save the order'"
    assert (save["outcome"], save["verified"], save["learned"]) == ("healed", True, True)
    assert history.applied.heal("test_approve")["taken"] == "button 'Approve invoice'"
    assert history.applied.heal("test_drag")["taken"] == "div 'Teapot, blue'"


def the_row_that_was_meant_is_taken(history: History, site: Site) -> None:
    approved = {name for asked in site.posts("/approved") for name in asked.form.get("n", [])}
    assert approved == {"1002"}


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
    assert "Locator.click: Timeout 1000ms exceeded" in history.applied.text
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


def test_a_history_of_runs_is_as_promised(history: History, site: Site) -> None:
    """One test: the history takes a minute to make, and workers that share the tests would each make it again."""
    for check in CHECKS:
        check(history)
    the_row_that_was_meant_is_taken(history, site)


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
    assert "--heal needs playwright: install recoup[browser]" in asked.stderr


def run_pytest(
    root: Path, *args: str, start: tuple[str, ...] = ("-m", "pytest")
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *start, "-p", "no:cacheprovider", "-p", "no:asyncio", *args],
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
