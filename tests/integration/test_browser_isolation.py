"""What one run, one page or one moment must not do to another."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.integration.browser_house import (
    FLOORS,
    POLICY,
    BrowserHouse,
    TestHooks,
    button,
    needs_browser,
    site,
)

from recoup.model.failure import FailureKind
from recoup.model.outcome import Looking, Order
from recoup.model.plan import BrowserAction, BrowserVerb
from recoup.model.target import Element, Resolution, Target
from recoup.ports import Pages, Runtime
from recoup.targets.resolver import PageResolver
from recoup.testing.pages import Site

pytestmark = needs_browser
__all__ = ["site"]


async def test_a_crash_concerns_one_run_and_cookies_are_its_own(tmp_path: Path, site: Site) -> None:
    house = BrowserHouse(tmp_path)
    try:
        await house.done("goto", value=site.url + "/login")
        first, hooks = house.run_id, house.hooks
        house.begin()
        await house.done("goto", value=site.url + "/login")
        assert await house.words("h1") == "stranger"
        assert house.hooks.keepers[-1] != hooks.keepers[-1]
        os.kill(hooks.keepers[-1].pid, signal.SIGKILL)
        await house.done("goto", value=site.url + "/login")
        assert await house.words("h1") == "known"
        await house.runtime.leave(first)
        assert await house.runtime.fingerprint(house.run_id) is not None
    finally:
        await house.runtime.close()


class Swapping(PageResolver):
    """Between the choice and the deed the page makes something else of the chosen node, once."""

    house: BrowserHouse
    script: str | None = None

    def resolve(
        self,
        target: Target,
        elements: Sequence[Element],
        looking: Looking,
        css_matches: Sequence[int] | None,
    ) -> Resolution:
        resolution = super().resolve(target, elements, looking, css_matches)
        if resolution.chosen is not None and self.script is not None:
            page = self.house.runtime._sessions[self.house.run_id].page
            assert page is not None
            self.swapping = asyncio.ensure_future(page.evaluate(self.script))
            self.script = None
        return resolution


SWAPS = {
    "b.textContent = 'Delete'": [],
    "b.remove()": [],
    "b.outerHTML = b.outerHTML": ["Approve"],
    "b.style.marginTop = '300px'": ["Approve"],
}


async def test_what_was_chosen_is_looked_at_once_more_before_it_is_clicked(
    tmp_path: Path, site: Site
) -> None:
    """Another meaning, gone, drawn anew, moved: what is clicked is what was chosen, or nothing."""
    resolver = Swapping()
    house = resolver.house = BrowserHouse(tmp_path, resolver=resolver)
    html = "<button id=b onclick=\"log.textContent += this.textContent + ' '\">Approve</button><p id=log>Log: </p>"
    try:
        for script, clicked in SWAPS.items():
            await house.done("goto", value=site.show("/swap", html))
            resolver.script = script
            outcome = await house.do("click", button("Approve"))
            assert (await house.words("#log")).split()[1:] == clicked, script
            assert outcome.kind is (None if clicked else FailureKind.TARGET_NOT_FOUND), script
            assert outcome.outcome_known
    finally:
        await house.runtime.close()


async def test_the_runtime_is_all_that_the_engine_asks_for(tmp_path: Path) -> None:
    house = BrowserHouse(tmp_path)
    runtime: Runtime = house.runtime
    pages: Pages = house.runtime
    assert runtime.inline is False
    assert await pages.fingerprint("nobody") is None and await pages.keep("nobody") is None
    await pages.leave("nobody")
    await house.runtime.close()


async def test_two_runs_are_driven_at_once(tmp_path: Path, site: Site) -> None:
    house = BrowserHouse(tmp_path)

    async def drive(run_id: str) -> bool:
        hooks = TestHooks()
        for action in (
            BrowserAction(verb=BrowserVerb.GOTO, value=site.url + "/slow"),
            BrowserAction(verb=BrowserVerb.CLICK, target=button("Pay now")),
        ):
            order = Order(
                run_id=run_id,
                step_id="s",
                step_index=0,
                attempt=1,
                action=action,
                cwd=str(tmp_path),
                env={"PATH": os.environ["PATH"]},
                policy=POLICY,
                looking=Looking(floors=FLOORS),
            )
            outcome = await house.runtime.perform(order, hooks)
            if outcome.kind is not None:
                return False
        return True

    try:
        assert all(await asyncio.gather(drive("one"), drive("two")))
    finally:
        await house.runtime.close()
