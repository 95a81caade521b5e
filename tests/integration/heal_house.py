"""A shop whose buttons were renamed: runs with heals, in the home of a command line."""

from __future__ import annotations

import textwrap
from pathlib import Path

from recoup.documents.plan_file import read_plan
from recoup.model.run import RunState
from recoup.model.target import Element
from recoup.testing.browser import Guess, ScriptedBrowser, ScriptedPage, ScriptedSite
from recoup.testing.house import House

PLAN = """\
    # Every morning.
    version: 1
    name: shop
    heal: apply

    steps:
      - {id: open, browser: {goto: "http://site/"}}
      - id: approve     # the one that matters
        browser:
          click:
            # as the page says it
            role: button   # no link

            name: "Approve"
        expect: [{text: Approved}]


      - {id: save,  browser: {click: {role: button, name: Save, double: true}}, expect: [{text: Saved}]}
      - id: print
        browser: {click: Print}   # proves nothing
    # The end.
"""


def button(name: str, **more: str) -> Element:
    return Element(tag="button", role="button", name=name, text=name, **more)  # type: ignore[arg-type]


APPROVE, STORE, PAPER = button("Approve invoice", id="k4"), button("Store"), button("To paper")
GUESSES = {"Approve": Guess("Approve invoice", 0.97), "Save": Guess("Store", 0.8)}


class Shop(House):
    """With a plan that lies in a file."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        pages = {
            "http://site/": ScriptedPage("Home", (APPROVE, button("Reject"))),
            "http://site/approved": ScriptedPage("Approved", (STORE,), "Approved"),
            "http://site/saved": ScriptedPage("Saved", (PAPER, button("Print")), "Saved"),
        }
        clicks = {"Approve invoice": "http://site/approved", "Store": "http://site/saved"}
        super().__init__(home, browser=ScriptedBrowser(ScriptedSite(pages, clicks), GUESSES))

    async def run_file(self, path: Path, run_id: str) -> RunState:
        await self.submit(read_plan(path), run_id, str(path))
        return await (await self.driver(run_id)).drive()


def plan_file(folder: Path, text: str = PLAN) -> Path:
    path = folder / "plan.yaml"
    path.write_text(textwrap.dedent(text))
    return path
