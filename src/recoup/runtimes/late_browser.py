"""The browsers of runs, made when the first one is needed: most processes never need any."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from recoup.model.failure import FailureKind
from recoup.model.outcome import Order, Outcome, PageClaim, PageQuestion, Restored, Scene
from recoup.model.policy import Policy
from recoup.model.target import Fingerprint
from recoup.ports import Hooks, Lifeline

if TYPE_CHECKING:
    from recoup.runtimes.browser.runtime import BrowserRuntime

NO_PAGE = "there is no page"
_NO_LIBRARY = "browser steps need the package {}: pip install 'recoup[browser]', then recoup browser install"


class LateBrowser:
    """A runtime and pages, like the one that it makes."""

    inline = False

    def __init__(self, make: Callable[[], BrowserRuntime]) -> None:
        self._make = make
        self._made: BrowserRuntime | None = None
        self._making = asyncio.Lock()

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        try:
            return await (await self._browser()).perform(order, hooks)
        except ModuleNotFoundError as error:
            return Outcome(kind=FailureKind.SPAWN_FAILED, detail=_NO_LIBRARY.format(error.name))

    async def examine(self, run_id: str, question: PageQuestion, scene: Scene) -> tuple[bool | None, str]:
        if self._made is None:
            return None, NO_PAGE
        return await self._made.examine(run_id, question, scene)

    async def fingerprint(self, run_id: str) -> Fingerprint | None:
        return await self._made.fingerprint(run_id) if self._made else None

    async def keep(self, run_id: str) -> bytes | None:
        return await self._made.keep(run_id) if self._made else None

    def touched_in(self, kept: bytes) -> tuple[str, ...] | None:
        from recoup.runtimes.browser import kept_pages  # without the library

        return kept_pages.decode(kept).touched_by

    def touched_in_other_tabs(self, kept: bytes) -> tuple[str, ...]:
        from recoup.runtimes.browser import kept_pages  # without the library

        return kept_pages.decode(kept).touched_elsewhere

    async def restore(
        self, run_id: str, kept: bytes, policy: Policy, lifeline: Lifeline, *, with_tabs: bool = False
    ) -> Restored:
        try:
            return await (await self._browser()).restore(run_id, kept, policy, lifeline, with_tabs=with_tabs)
        except ModuleNotFoundError as error:
            return Restored(None, _NO_LIBRARY.format(error.name))

    async def refuted(self, run_id: str, claims: Sequence[PageClaim], wait_s: float = 0) -> Sequence[str]:
        if self._made is None:
            return [NO_PAGE] * len(claims)
        return await self._made.refuted(run_id, claims, wait_s)

    async def remember(self, run_id: str, kept: bytes) -> None:
        with contextlib.suppress(ModuleNotFoundError):  # the step that needs it says so
            await (await self._browser()).remember(run_id, kept)

    async def touched_by(self, run_id: str) -> tuple[str, ...]:
        return await self._made.touched_by(run_id) if self._made else ()

    @contextlib.asynccontextmanager
    async def fresh_copy(self, run_id: str, policy: Policy) -> AsyncIterator[Fingerprint | None]:
        if self._made is None:
            yield None
            return
        async with self._made.fresh_copy(run_id, policy) as shown:
            yield shown

    async def leave(self, run_id: str) -> None:
        if self._made is not None:
            await self._made.leave(run_id)

    async def wait(self, run_id: str, epoch: int, policy: Policy) -> None:
        if self._made is not None:
            await self._made.wait(run_id, epoch, policy)

    async def take_up(self, run_id: str, epoch: int, lifeline: Lifeline) -> bool:
        return self._made is not None and await self._made.take_up(run_id, epoch, lifeline)

    def waiting(self) -> Mapping[str, int]:
        return self._made.waiting() if self._made is not None else {}

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()

    async def _browser(self) -> BrowserRuntime:
        """Loading the automation library takes seconds on a busy machine: in a thread, because the event loop renews
        the leases of all runs meanwhile."""
        async with self._making:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
        return self._made
