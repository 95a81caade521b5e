"""People's own Playwright tests, run by a real pytest in a real Chromium, before and after their site has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from recoup.runtimes.browser.finding import needed_browser
from recoup.testing.pages import Site

RUN_S: Final = 60
SECRET: Final = "correct" + "-horse-" + "battery"

CONFTEST: Final = """
import os
import pytest

@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    return {**browser_type_launch_args, "executable_path": os.environ["INNER_BROWSER"], "args": ["--no-sandbox"]}

@pytest.fixture
def shop(page):
    page.set_default_timeout(500)
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
    shop.fill("#who", "Bob", strict=True)
    shop.click("text=Save order")
    expect(shop.locator("#state")).to_have_text("Saved Bob")

def test_approve(page):
    page.set_default_timeout(500)
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
    expect(shop.get_by_text("Nothing yet")).to_be_visible()
    assert shop.locator("#who").count() == 1

def test_fails_after_a_heal(shop):
    shop.locator("#who").fill("Eve")
    expect(shop.locator("h1")).to_have_text("Order 17")

def test_never_there(shop):
    if os.environ["INNER_VERSION"] == "2":
        shop.locator("#never").click()
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
    <label>Secret <input type=password name=secret></label>
    {archive}
    <button type=button id=save class=main onclick="say('Saved ' + document.querySelector('.name').value)">
    {"Save order" if old else "Save the order"}</button></{"form" if old else "section"}>
    <button id={pay} onclick="say('Paid')">Pay order</button>
    <button id={drop} onclick="say('Deleted')">Delete order</button>
    <table>{rows}</table>
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

    def __init__(self, root: Path, site: Site) -> None:
        self.root, self.site = root, site
        (root / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
        (root / "conftest.py").write_text(CONFTEST)
        (root / "test_shop.py").write_text(TESTS)
        (root / "test_failing.py").write_text(FAILING)

    def run(self, version: int, *args: str) -> Ran:
        self.site.version = version
        self.site.show("/shop", shop(version))
        report = self.root / "heals.json"
        report.unlink(missing_ok=True)
        environ = {
            **os.environ,
            "INNER_BROWSER": needed_browser(os.environ).executable,
            "INNER_SITE": self.site.url,
            "INNER_SECRET": SECRET,
            "INNER_VERSION": str(version),
        }
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--tb=short", *args]
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
    """The runs of one project, in this order."""

    learned: Ran
    again: Ran
    off: Ran
    reported: Ran
    applied: Ran
    parallel: Ran


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site() as open_site:
        yield open_site


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, site: Site) -> History:
    project = Project(tmp_path_factory.mktemp("project"), site)
    told = "--heal-report=heals.json"
    return History(
        learned=project.run(1, "--heal=apply", told),
        again=project.run(1, "--heal=apply", told, "-n2"),
        off=project.run(2, "test_shop.py"),
        reported=project.run(2, "--heal=report", told, "test_shop.py", "-n2"),
        applied=project.run(2, "--heal=apply", told),
        parallel=project.run(2, "--heal=apply", told, "-n2", "test_shop.py"),
    )


def test_show(history: History) -> None:
    for name in ("learned", "again", "off", "reported", "applied", "parallel"):
        print("=====", name)
        print(getattr(history, name).text)
    print(json.dumps(history.applied.report, indent=1))
    print(history.applied.folder)
