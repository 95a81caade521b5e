"""The same plan, night after night, on each release of the shop: real engine, real browser."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from playwright.async_api import Page, async_playwright

from benchmarks.drift.releases import Release
from benchmarks.drift.shop import FLOW, NUMBER, WRONG, Shop
from recoup.clock import SystemClock
from recoup.documents.plan_file import plan_from_data
from recoup.model import events as ev
from recoup.model.ids import run_stream
from recoup.model.instant import Instant
from recoup.model.outcome import Order
from recoup.model.plan import BrowserAction, Plan, Step
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.target import Element, Heal, HealMode, Target
from recoup.processes.guard import Guard
from recoup.redaction.redactor import SecretRedactor
from recoup.runtimes.browser.collector import collect
from recoup.runtimes.browser.finding import needed_browser
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.runtime import BrowserRuntime
from recoup.runtimes.step_log import StepLog
from recoup.targets.resolver import PageResolver
from recoup.testing.house import House

DAY_US: Final = 86_400_000_000
WORKFLOW: Final = "order-a-lamp"
LIMITS: Final = BrowserLimits(look_s=0.05, after_s=1)
POLICY: Final = Policy(
    step_timeout_seconds=60,
    backoff_ms=1,
    page_quiet_s=0.05,
    page_target_s=0.5,
    page_heal_s=0.2,
    page_check_s=5,
)
"""For pages on loopback, which are there at once."""


@dataclass(frozen=True)
class Arm:
    """One way of going through the nights."""

    name: str
    heal: HealMode
    remembers: bool


LEARNING: Final = Arm("learning", HealMode.APPLY, remembers=True)
FORGETTING: Final = Arm("healing-only", HealMode.APPLY, remembers=False)
EXACT: Final = Arm("heal-off", HealMode.OFF, remembers=False)
Recorded = Mapping[str, Element]
"""Elements by the parts that they are."""
Pages = Mapping[str, Sequence[Element]]
"""Elements by the address that they are at."""


@dataclass(frozen=True)
class Night:
    """What became of one run, by the site's own account and the ledger's."""

    release: int
    gone: str
    """The part that was missing: the flow cannot be done."""
    succeeded: bool
    deeds: tuple[str, ...]
    read: str | None
    healed: Mapping[str, str]
    """How each step that healed was found."""
    steps_ms: Mapping[str, int]
    """Of each step that passed on a target."""
    failed_at: str
    why: str

    @property
    def needs_repair(self) -> bool:
        """A target was there, and not found."""
        return self.failed_at in ASKED and self.failed_at != self.gone

    @property
    def wrong(self) -> tuple[str, ...]:
        """What the site saw done to another element than the one that was meant."""
        wrong = tuple(deed for deed in self.deeds if deed.startswith(WRONG))
        return wrong if self.read in (None, NUMBER) else (*wrong, f"read {self.read}")

    @property
    def done(self) -> bool:
        """The whole flow, and nothing else."""
        return self.succeeded and self.deeds == FLOW and self.read == NUMBER

    @property
    def right(self) -> bool:
        """Done; or, where that could not be, stopped before what was missing."""
        if not self.gone:
            return self.done
        return not self.succeeded and self.deeds == FLOW[: FLOW.index(self.gone)]


class NightClock(SystemClock):
    """The machine's time, some nights later; it was off meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.night = 0

    def now(self) -> Instant:
        now = super().now()
        return Instant(now.wall_us + self.night * DAY_US, now.boot_us, f"night-{self.night}")


@dataclass
class Nights:
    """One arm, as long as it lasts."""

    arm: Arm
    plan: Plan
    folder: Path
    shop: Shop
    browser: BrowserRuntime
    policy: Policy = POLICY
    clock: NightClock = field(default_factory=NightClock)
    _house: House | None = None

    async def night(self, release: Release) -> Night:
        self.clock.night += 1
        house = self.house()
        self.shop.release = release
        self.shop.asked.clear()
        state = await house.run(self.plan, f"{self.arm.name}-{os.getpid()}-{self.clock.night}")
        night = await _account(house, state, release, self.shop.deeds)
        if not self.arm.remembers:
            await self.close()
        return night

    def house(self) -> House:
        if self._house is None:
            root = self.folder / f"{self.arm.name}-{self.clock.night}"
            root.mkdir(parents=True)
            self._house = House(root, browser=self.browser, clock=self.clock, policy=self.policy)
        return self._house

    async def close(self) -> None:
        if self._house is not None:
            await self._house.ledger.close()
        self._house = None


@asynccontextmanager
async def nights_of(
    arm: Arm, first: Release, seen: Recorded, folder: Path, policy: Policy = POLICY
) -> AsyncIterator[Nights]:
    """With a shop and a browser of its own, and a plan that was recorded on the first release."""
    browser = _browser(folder)
    try:
        with Shop(first) as shop:
            plan = recorded_plan(shop.url, first, seen, arm.heal)
            nights = Nights(arm, plan, folder, shop, browser, policy)
            try:
                yield nights
            finally:
                await nights.close()
    finally:
        await browser.close()


async def go_through(arms: Sequence[Arm], shown: Sequence[Release], folder: Path) -> dict[str, list[Night]]:
    """All arms side by side, each in a shop of its own. After a night that failed without need somebody records the
    step that it failed at anew, as people do."""
    pages = await pages_of(shown)
    seen = {release.number: parts_in(release, pages[release.number]) for release in shown}

    async def one(arm: Arm) -> list[Night]:
        made = []
        async with nights_of(arm, shown[0], seen[shown[0].number], folder) as nights:
            for release in shown:
                made.append(await nights.night(release))
                if made[-1].needs_repair:
                    nights.plan = repaired(nights.plan, made[-1].failed_at, release, seen[release.number])
        return made

    made = await asyncio.gather(*map(one, arms))
    return {arm.name: nights for arm, nights in zip(arms, made, strict=True)}


def _browser(folder: Path) -> BrowserRuntime:
    redactor = SecretRedactor()

    def log(order: Order) -> StepLog:
        return StepLog(folder / "logs" / order.run_id / order.step_id, redactor, 1 << 20, "---")

    return BrowserRuntime(Guard, lambda _run_id: PageResolver(), log, dict(os.environ), limits=LIMITS)


# The plan


class Asked(NamedTuple):
    """One step: what it does, how it names its target, where that is, and the words that prove it."""

    verb: str
    short: Mapping[str, str]
    """With `{}` for the words of the release."""
    more: Mapping[str, str]
    page: str
    tag: str
    proof: str


ASKED: Final = {
    "query": Asked("fill", {"label": "{}"}, {"value": "lamp"}, "/", "input", "looking for lamp"),
    "search": Asked("click", {"role": "button", "name": "{}"}, {}, "/", "button", "Results for lamp"),
    "choose": Asked(
        "click",
        {"role": "button", "name": "{}", "inside": "LX-200"},
        {},
        "/results",
        "button",
        "Order LX-200",
    ),
    "delivery": Asked("select", {"label": "{}"}, {"option": "Express"}, "/order", "select", "express it is"),
    "email": Asked(
        "fill", {"label": "{}"}, {"value": "ada@example.org"}, "/order", "input", "receipt to ada"
    ),
    "terms": Asked("check", {"label": "{}"}, {}, "/order", "input", "agreed"),
    "place": Asked("click", {"role": "button", "name": "{}"}, {}, "/order", "button", "Thank you"),
    "number": Asked(
        "read", {"role": "status", "name": "{}"}, {"into": "number"}, "/done", "output", "Thank you"
    ),
}


def recorded_plan(url: str, release: Release, seen: Recorded, heal: HealMode) -> Plan:
    """As `recoup record` writes it: every target in short, and in full where that was seen."""
    opened = {"id": "open", "browser": {"goto": url}, "expect": [{"text": "Lamps and more"}]}
    steps = [opened, *(_written(key, asked) for key, asked in ASKED.items())]
    plan = plan_from_data({"version": 1, "name": WORKFLOW, "steps": steps})
    for key in ASKED:
        plan = repaired(plan, key, release, seen)
    return msgspec.structs.replace(plan, heal=Heal(mode=heal))


def repaired(plan: Plan, key: str, release: Release, seen: Recorded) -> Plan:
    """With the target of one step as this release shows it."""
    steps = [_retargeted(step, release, seen) if step.id == key else step for step in plan.steps]
    return msgspec.structs.replace(plan, steps=tuple(steps))


def _written(key: str, asked: Asked) -> dict[str, Any]:
    return {
        "id": key,
        "browser": {asked.verb: {**asked.short, **asked.more}},
        "expect": [{"text": asked.proof}],
    }


def _retargeted(step: Step, release: Release, seen: Recorded) -> Step:
    words = release.looks[step.id].words
    short = {name: said.format(words) for name, said in ASKED[step.id].short.items()}
    target = msgspec.convert({**short}, Target)
    target = msgspec.structs.replace(target, recorded=seen.get(step.id))
    assert isinstance(step.action, BrowserAction), "all steps of this plan are in the browser"
    return msgspec.structs.replace(step, action=msgspec.structs.replace(step.action, target=target))


async def pages_of(shown: Sequence[Release]) -> dict[int, Pages]:
    """Each release as the collector sees it."""
    async with async_playwright() as playwright:
        executable = needed_browser(os.environ).executable
        browser = await playwright.chromium.launch(
            executable_path=executable, chromium_sandbox=os.geteuid() != 0
        )
        page = await browser.new_page()
        with Shop(shown[0]) as shop:
            made = {release.number: await _looked_at(page, shop, release) for release in shown}
        await browser.close()
    return made


async def _looked_at(page: Page, shop: Shop, release: Release) -> Pages:
    shop.release = release
    found = {}
    for path in dict.fromkeys(asked.page for asked in ASKED.values()):
        await page.goto(shop.url + path)
        found[path] = (await collect(page.main_frame)).elements
    return found


def parts_in(release: Release, pages: Pages) -> Recorded:
    """The parts that are there, in full."""
    names = {(asked.page, release.looks[key].id, asked.tag): key for key, asked in ASKED.items()}
    there = [((path, one.id, one.tag), one) for path, elements in pages.items() for one in elements]
    return {names[name]: element for name, element in there if name in names}


# What became of it


async def _account(house: House, state: RunState, release: Release, deeds: tuple[str, ...]) -> Night:
    facts = [event.payload for event in await house.ledger.read(run_stream(state.run_id))]
    passed = [fact for fact in facts if isinstance(fact, ev.AttemptFinished)]
    failed = [fact for fact in facts if isinstance(fact, ev.AttemptFailed)]
    read = [fact.outputs.get("number") for fact in passed if fact.step_id == "number"]
    succeeded = state.status is RunStatus.SUCCEEDED
    return Night(
        release=release.number,
        gone=release.gone,
        succeeded=succeeded,
        deeds=deeds,
        read=str(read[0]) if read else None,
        healed={fact.step_id: fact.found_by for fact in facts if isinstance(fact, ev.TargetHealed)},
        steps_ms={fact.step_id: fact.duration_ms for fact in passed if fact.resolution is not None},
        failed_at=failed[-1].step_id if failed and not succeeded else "",
        why=str(failed[-1].summary) if failed and not succeeded else "",
    )
