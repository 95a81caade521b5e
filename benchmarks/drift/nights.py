"""The same plan, night after night, on each release of the shop: real engine, real browser."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.drift.releases import Release
from benchmarks.drift.shop import FLOW, NUMBER, WRONG, Shop
from recoup.clock import SystemClock
from recoup.documents.plan_file import plan_from_data
from recoup.model import events as ev
from recoup.model.ids import run_stream, targets_stream
from recoup.model.instant import Instant
from recoup.model.outcome import Order
from recoup.model.plan import BrowserAction, Plan, Step
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.target import Element, Heal, HealMode
from recoup.processes.guard import Guard
from recoup.redaction.redactor import SecretRedactor
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.runtime import BrowserRuntime
from recoup.runtimes.step_log import StepLog
from recoup.targets.resolver import PageResolver
from recoup.testing.house import House

DAY_US: Final = 86_400_000_000
WORKFLOW: Final = "order-a-lamp"
LIMITS: Final = BrowserLimits(target_s=0.5, heal_s=0.2, quiet_s=0.05, look_s=0.05, after_s=1)
"""For pages on loopback, which are there at once."""
POLICY: Final = Policy(step_timeout_seconds=60, backoff_ms=1, page_check_s=5)


@dataclass(frozen=True)
class Arm:
    """One way of going through the nights."""

    name: str
    heal: HealMode
    remembers: bool


LEARNING: Final = Arm("learning", HealMode.APPLY, remembers=True)
FORGETTING: Final = Arm("healing only", HealMode.APPLY, remembers=False)
EXACT: Final = Arm("heal off", HealMode.OFF, remembers=False)
RECORDING: Final = Arm("recording", HealMode.OFF, remembers=True)
Recorded = Mapping[str, Element]


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
    why: str

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
        run_id = f"night-{self.clock.night}"
        state = await house.run(self.plan, run_id)
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
    """With a shop and a browser of its own."""
    browser = _browser(folder)
    try:
        with Shop(first) as shop:
            nights = Nights(arm, _plan(shop.url, seen, arm.heal), folder, shop, browser, policy)
            try:
                yield nights
            finally:
                await nights.close()
    finally:
        await browser.close()


async def go_through(arms: Sequence[Arm], shown: Sequence[Release], folder: Path) -> dict[str, list[Night]]:
    """All arms side by side, each in a shop of its own, with what was recorded on the first release."""
    seen = await recorded(shown[0], folder)

    async def one(arm: Arm) -> list[Night]:
        async with nights_of(arm, shown[0], seen, folder) as nights:
            return [await nights.night(release) for release in shown]

    made = await asyncio.gather(*map(one, arms))
    return {arm.name: nights for arm, nights in zip(arms, made, strict=True)}


async def recorded(first: Release, folder: Path) -> Recorded:
    """The target of each step in full, as the first release shows it."""
    async with nights_of(RECORDING, first, {}, folder) as nights:
        night = await nights.night(first)
        assert night.done, f"the flow fits the first release: {night}"
        facts = [event.payload for event in await nights.house().ledger.read(targets_stream(WORKFLOW))]
    return {fact.step_id: fact.element for fact in facts if isinstance(fact, ev.TargetObserved)}


def _browser(folder: Path) -> BrowserRuntime:
    redactor = SecretRedactor()

    def log(order: Order) -> StepLog:
        return StepLog(folder / "logs" / order.run_id / order.step_id, redactor, 1 << 20, "---")

    return BrowserRuntime(Guard, PageResolver(), log, dict(os.environ), limits=LIMITS)


# The plan


def _plan(url: str, seen: Recorded, heal: HealMode) -> Plan:
    plan = _written(url)
    steps = tuple(_in_full(step, seen.get(step.id)) for step in plan.steps)
    return msgspec.structs.replace(plan, steps=steps, heal=Heal(mode=heal))


def _in_full(step: Step, element: Element | None) -> Step:
    assert isinstance(step.action, BrowserAction), "all steps of this plan are in the browser"
    if step.action.target is None or element is None:
        return step
    target = msgspec.structs.replace(step.action.target, recorded=element)
    return msgspec.structs.replace(step, action=msgspec.structs.replace(step.action, target=target))


def _written(url: str) -> Plan:
    def step(key: str, action: dict[str, Any], words: str) -> dict[str, Any]:
        return {"id": key, "browser": action, "expect": [{"text": words}]}

    steps = [
        step("open", {"goto": url}, "Lamps and more"),
        step("query", {"fill": {"label": "Search the catalogue", "value": "lamp"}}, "looking for lamp"),
        step("search", {"click": {"role": "button", "name": "Search"}}, "Results for lamp"),
        step("choose", {"click": {"role": "button", "name": "Choose", "inside": "LX-200"}}, "Order LX-200"),
        step("delivery", {"select": {"label": "Delivery", "option": "Express"}}, "express it is"),
        step("email", {"fill": {"label": "E-mail", "value": "ada@example.org"}}, "receipt to ada"),
        step("terms", {"check": {"label": "I accept the terms"}}, "agreed"),
        step("place", {"click": {"role": "button", "name": "Place order"}}, "Thank you"),
        step("number", {"read": {"role": "status", "name": "Order number", "into": "number"}}, "Thank you"),
    ]
    return plan_from_data({"version": 1, "name": WORKFLOW, "steps": steps})


# What became of it


async def _account(house: House, state: RunState, release: Release, deeds: tuple[str, ...]) -> Night:
    facts = [event.payload for event in await house.ledger.read(run_stream(state.run_id))]
    passed = [fact for fact in facts if isinstance(fact, ev.AttemptFinished)]
    read = [fact.outputs.get("number") for fact in passed if fact.step_id == "number"]
    return Night(
        release=release.number,
        gone=release.gone,
        succeeded=state.status is RunStatus.SUCCEEDED,
        deeds=deeds,
        read=str(read[0]) if read else None,
        healed={fact.step_id: fact.found_by for fact in facts if isinstance(fact, ev.TargetHealed)},
        steps_ms={fact.step_id: fact.duration_ms for fact in passed if fact.resolution is not None},
        why=next((str(fact.reason) for fact in reversed(facts) if isinstance(fact, ev.TargetRejected)), ""),
    )
