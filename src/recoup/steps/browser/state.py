"""Browser steps as the engine and workers know them, beyond performing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from recoup.kernel.outset import Outset
from recoup.model.run import StepRecord
from recoup.ports import Pages, Recalls, Secrets
from recoup.steps.browser.hooks import BrowserHooks
from recoup.steps.browser.kept_page import inherited, kept_page
from recoup.steps.hooks import RunInHand


class BrowserState:
    """What the browser steps of all runs keep in this process: open pages, and what was learned about targets."""

    def __init__(self, pages: Pages, recalls: Recalls) -> None:
        self._pages = pages
        self._recalls = recalls

    def of_run(self, run: RunInHand) -> BrowserHooks:
        return BrowserHooks(run, self._pages, self._recalls)

    def waiting(self) -> Mapping[str, int]:
        return self._pages.waiting()

    async def leave(self, run_id: str) -> None:
        await self._pages.leave(run_id)

    def inherited(self, secrets: Secrets, reused: Sequence[StepRecord]) -> Mapping[str, str]:
        return inherited(secrets, reused)

    def foreseen(self, run: Outset, secrets: Secrets) -> Outset:
        return msgspec.structs.replace(run, kept=kept_page(self._pages, secrets))
