"""A browser for tests: the real one, with limits that suit a page on loopback."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Error

from recoup.checks.registry import question_of
from recoup.model.outcome import Looking, Order, Outcome, Progress, Scene
from recoup.model.plan import BrowserAction, BrowserVerb, Check
from recoup.model.policy import Policy
from recoup.model.redacted import Redacted
from recoup.model.target import Element, Floors, Resolution, Target
from recoup.processes.guard import Guard
from recoup.redaction.redactor import SecretRedactor
from recoup.runtimes.browser.finding import find_browser, has_library
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.matching import Resolver
from recoup.runtimes.browser.runtime import BrowserRuntime
from recoup.runtimes.browser.session import Past
from recoup.runtimes.step_log import StepLog
from recoup.targets.resolver import PageResolver
from recoup.testing.browser_suite import SuiteHooks
from recoup.testing.pages import Site

LIMITS = BrowserLimits(
    open_s=4,
    ready_s=3,
    act_s=2,
    after_s=1,
    download_idle_s=1.2,
    settle_s=3,
)
POLICY = Policy(step_timeout_seconds=20, page_quiet_s=0.1, page_target_s=0.8, page_heal_s=0.3)
FLOORS = Floors(0.72, 0.0)
needs_browser = pytest.mark.skipif(
    not has_library() or find_browser(os.environ) is None,
    reason="there is no Chromium: recoup browser install",
)
_numbers = itertools.count(1)
_OF_THE_ORDER = ("regions", "claims", "secret_values", "env", "has_own_timeout")


class TestHooks(SuiteHooks):
    """And what people who watch were told."""

    __test__ = False

    def __init__(self, deadline_s: float = 60) -> None:
        super().__init__(boot_s() + deadline_s)
        self.words = ""

    def said(self, stream: str, chunk: Redacted) -> None:
        del stream
        self.words += chunk.text

    def progressed(self, progress: Progress) -> None:
        self.words += progress.note.text


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class BrowserHouse:
    """One run after another in one runtime."""

    def __init__(
        self, folder: Path, limits: BrowserLimits = LIMITS, resolver: Resolver | None = None, **more: Any
    ) -> None:
        self.folder = folder
        self.redactor = SecretRedactor()
        self.environ = dict(os.environ)
        self.ahead_s = 0.0
        """How much later it is than the lease's holder has noticed."""
        self.runtime = BrowserRuntime(
            Guard,
            lambda _run_id: resolver or PageResolver(),
            self._log,
            self.environ,
            limits=limits,
            boot_s=self._boot_s,
            hide_of=lambda _run_id: lambda text: self.redactor.redact(text).text,
            **more,
        )
        self.run_id = ""
        self.hooks = TestHooks()
        self.begin()

    def begin(self) -> None:
        self.run_id = f"run-{os.getpid()}-{next(_numbers)}"
        self.hooks = TestHooks()

    async def empty(self) -> None:
        """The same browser without cookies, storage or a page: it takes longer to start one than a test lasts."""
        past = self.runtime._pasts[self.run_id] = Past()
        session = self.runtime._sessions.get(self.run_id)
        if session is None:
            return
        session.past = past
        try:
            async with asyncio.timeout(LIMITS.close_s):
                await session.open_context(None)
        except (Error, TimeoutError):  # a test may have ended its browser
            await self.runtime._drop(self.run_id)

    def _boot_s(self) -> float:
        return boot_s() + self.ahead_s

    def _log(self, order: Order) -> StepLog:
        return StepLog(self.folder / "log", self.redactor, 1 << 20, "---")

    async def do(self, verb: str, target: Target | None = None, *, attempt: int = 1, **how: Any) -> Outcome:
        policy = how.pop("policy", POLICY)
        looking = how.pop("looking", Looking(floors=FLOORS))
        order_more = {name: how.pop(name) for name in _OF_THE_ORDER if name in how}
        order = Order(
            run_id=self.run_id,
            step_id="step",
            step_index=0,
            attempt=attempt,
            action=BrowserAction(verb=BrowserVerb(verb), target=target, **how),
            cwd=str(self.folder),
            policy=policy,
            looking=looking,
            **{"env": {"PATH": os.environ["PATH"]}, **order_more},
        )
        return await self.runtime.perform(order, self.hooks)

    async def done(self, verb: str, target: Target | None = None, **how: Any) -> Outcome:
        outcome = await self.do(verb, target, **how)
        assert outcome.kind is None and outcome.exit_code == 0, f"{outcome.kind}: {outcome.detail}"
        return outcome

    async def examine(self, check: Check, check_timeout_s: float = 2) -> tuple[bool | None, str]:
        scene = Scene(
            run_id=self.run_id, cwd=str(self.folder), env={}, policy=POLICY, check_timeout_s=check_timeout_s
        )
        question = question_of(check)
        assert question is not None, "this check does not look at the page"
        return await self.runtime.examine(self.run_id, question, scene)

    async def words(self, css: str) -> str:
        """What is to be read there now."""
        outcome = await self.done("read", Target(css=css), into="words")
        return str(outcome.outputs["words"])


class Renaming(PageResolver):
    """Heals one name into another, as certain as one likes: what follows from a heal is the subject, not how it is found."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__()
        self._old, self._new = old, new

    def resolve(
        self,
        target: Target,
        elements: Sequence[Element],
        looking: Looking,
        css_matches: Sequence[int] | None,
    ) -> Resolution:
        as_written = super().resolve(target, elements, looking, css_matches)
        if as_written.chosen is not None or target.name != self._old:
            return as_written
        renamed = msgspec.structs.replace(target, name=self._new)
        healed = super().resolve(renamed, elements, looking, css_matches)
        return msgspec.structs.replace(healed, strategy="model") if healed.chosen else as_written


def button(name: str, **more: Any) -> Target:
    return Target(role="button", name=name, **more)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BrowserHouse]:
    """One browser for all tests of a module."""
    house = BrowserHouse(tmp_path_factory.mktemp("browser"))
    yield house
    await house.runtime.close()


@pytest_asyncio.fixture(loop_scope="module")
async def house(shared: BrowserHouse, site: Site) -> BrowserHouse:
    """The shared browser with nothing kept from the test before."""
    await shared.empty()
    shared.hooks = TestHooks()
    site.version = 1
    site.asked.clear()
    return shared
