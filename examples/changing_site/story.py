"""A flow on a site that changes every night: it heals, abstains, is reviewed, learns, errs, and takes that back."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.asking import Gateway, pictures, serving
from examples.stage import Stage, ended

TITLE = "a flow in the browser, on a site that changes every night"
HERE = Path(__file__).parent
FILES = ("invoices.yaml", "archive.yaml", "policy.yaml")
START_S_MAX = 30
FIRST = "v000001"
GONE = "Close month"
SHORT_WAITS = "page_quiet_s: 0.05\npage_target_s: 0.1\npage_heal_s: 0\npage_check_s: 0.1 "
"""What the policy says instead where seconds count."""


async def tell(stage: Stage) -> None:
    for name in FILES:
        shutil.copy(HERE / name, stage.folder)
    policy_file = stage.folder / "policy.yaml"
    if stage.short:
        policy_file.write_text(policy_file.read_text().replace("page_check_s: 3 ", SHORT_WAITS))
    policy = {"RECOUP_POLICY": str(policy_file)}
    async with site(stage) as url, serving(stage, "--workers", "2", env=policy) as gateway:
        nights = Nights(stage, gateway, url)
        if not stage.short:
            await as_recorded(nights)
        await review(nights, *await new_release(nights))
        if not stage.short:
            await learned(nights)
        await led_astray(nights)
        await taken_back(nights)
        await works_again(nights)


@dataclass(frozen=True)
class Nights:
    """The site, and the runs on it."""

    stage: Stage
    gateway: Gateway
    url: str

    def put_on(self, *pages: str) -> None:
        """The site has another release from now on: `2-desk` is what it shows as /desk."""
        for page in pages:
            shown = page.partition("-")[2]
            shutil.copy(HERE / "nights" / f"{page}.html", self.stage.folder / "site" / f"{shown}.html")

    async def run(self, plan: str = "invoices") -> dict[str, Any]:
        self.stage.say(f"   The timer submits {plan}.yaml.")
        path = str(self.stage.folder / f"{plan}.yaml")
        return await self.gateway.run(planPath=path, inputs={"site": self.url})

    async def heals(self, run: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """What was taken for targets that had changed, by step."""
        return {one["stepId"]: one for one in await self.gateway.facts(run["runId"], "target.healed")}

    def clicks(self) -> list[str]:
        """What was really done, as the site itself wrote it down; what was read is forgotten."""
        log = self.stage.folder / "site" / "did.log"
        done = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return done


async def as_recorded(nights: Nights) -> None:
    stage = nights.stage
    stage.chapter("Night 1: the site is as it was when the flows were recorded")
    nights.put_on("1-desk", "1-archive")
    runs = await asyncio.gather(nights.run(), nights.run("archive"))
    healed = [await nights.heals(run) for run in runs]
    stage.promise("both runs succeeded", all(run["status"] == "succeeded" for run in runs))
    stage.promise("every button was found as it is written: nothing was healed", healed == [{}, {}])
    stage.promise(
        "the site heard of every click once", sorted(nights.clicks()) == ["approve", "close", "list", "send"]
    )


async def new_release(nights: Nights) -> tuple[dict[str, Any], dict[str, Any]]:
    stage = nights.stage
    stage.chapter("Night 2: a new release, with other words, other ids and another order")
    nights.put_on("2-desk", "2-archive")
    run, gone = await asyncio.gather(nights.run(), nights.run("archive"))
    heals = await nights.heals(run)
    _tell_heals(stage, heals)
    stage.promise("the run succeeded all the same", run["status"] == "succeeded")
    stage.promise("both buttons were healed", set(heals) == {"approve", "send"})
    proven = all(one["verified"] for one in heals.values())
    stage.promise("each heal is proven by what its step expects", proven)
    await abstained(nights, gone)
    await pictures(stage, nights.gateway, "changing-site", {"heal": f"/heals/{run['runId']}/approve/1"})
    return run, gone


async def abstained(nights: Nights, run: dict[str, Any]) -> None:
    """A button of the archive is gone: its opposite has its id, and two that are alike have nearly its words."""
    stage = nights.stage
    (rejected,) = await nights.gateway.facts(run["runId"], "target.rejected")
    _tell_heals(stage, await nights.heals(run))
    stage.say(f"   close: {rejected['reason']}")
    stage.promise("where a button is really gone, the run stops", run["status"] == "dead_letter")
    stage.promise("what was looked for, and why none was taken, is kept", rejected["before"]["name"] == GONE)
    waiting = [one["runId"] for one in (await nights.gateway.ask("/api/escalations"))["escalations"]]
    stage.promise("and waits for a person", run["runId"] in waiting)
    clicks = sorted(nights.clicks())
    stage.promise("the site heard of nothing that resembles it", clicks == ["approve", "prices", "send"])


async def review(nights: Nights, run: dict[str, Any], other: dict[str, Any]) -> None:
    stage, plan = nights.stage, nights.stage.folder / "invoices.yaml"
    stage.chapter("The next morning: somebody looks through the heals")
    if not stage.short:
        await stage.recoup("heals", "list")
        await stage.recoup("heals", "show", f"{run['runId']}/approve")
    before = plan.read_text()
    await stage.recoup("heals", "accept", f"{run['runId']}/approve", "--yes")
    accepted = plan.read_text()
    stage.promise("the plan says the new words now", "        name: Approve invoice\n" in accepted)
    only = _but_for_target(accepted) == _but_for_target(before)
    stage.promise("only the target of that step was changed", only)
    _, said = await asyncio.gather(
        stage.recoup("heals", "accept", f"{run['runId']}/send", "--patch", "send.patch"),
        stage.recoup("heals", "reject", f"{other['runId']}/print", "--reason", "the wrong list", "--json"),
    )
    stage.promise("a patch for a pull request leaves the plan alone", plan.read_text() == accepted)
    stage.promise("what was proven only weakly is forbidden from now on", said.json()["state"] == "rejected")
    await pictures(stage, nights.gateway, "changing-site", {"heals": "/heals"})
    await at_hand(nights)


def _but_for_target(plan: str) -> tuple[str, str]:
    """The parts of the plan before and after the target of its step `approve`."""
    return plan.partition("        name: Approve")[0], plan.partition("    expect: [{text: INV-1001 is")[2]


async def at_hand(nights: Nights) -> None:
    """What the workflow remembers, and the version from before it did."""
    stage = nights.stage
    if not stage.short:
        await stage.recoup("memory", "show", "invoices")
        await stage.recoup("memory", "versions", "invoices")
    stage.promise("the workflow remembers both buttons", await _lessons(nights) == {"approve", "send"})
    versions = await nights.gateway.ask("/api/workflows/invoices/memory")
    names = [one["version_id"] for one in versions["items"]]
    stage.promise("what it knew before is a version to go back to", names == [FIRST])


async def _lessons(nights: Nights) -> set[str]:
    """The steps for whose targets something was learned since the first version."""
    found = await nights.gateway.ask(f"/api/workflows/invoices/memory/diff?old={FIRST}")
    return {one["step_id"] for one in found["items"]}


async def learned(nights: Nights) -> None:
    stage = nights.stage
    stage.chapter("Night 3: the same release; the flow knows it by now")
    heals = await nights.heals(run := await nights.run())
    _tell_heals(stage, heals)
    stage.promise("the run succeeded", run["status"] == "succeeded")
    stage.promise("what was accepted into the plan needs no heal", "approve" not in heals)
    stage.promise("the other button was taken from memory", heals["send"]["foundBy"] == "memory")
    stage.promise("one approval, one report", nights.clicks() == ["approve", "send"])


async def led_astray(nights: Nights) -> None:
    stage = nights.stage
    stage.chapter("Night 4: the button that was learned is there, and only keeps a draft")
    nights.put_on("3-desk")
    heals = await nights.heals(run := await nights.run())
    _tell_heals(stage, heals)
    stage.promise("what was accepted into the plan needs no heal", "approve" not in heals)
    stage.promise("the learned button was taken from memory", heals["send"]["foundBy"] == "memory")
    stage.promise("it did not bring about what the step expects", not heals["send"]["verified"])
    stage.promise("nobody clicks twice: the run is handed to a person", run["status"] == "escalated")
    stage.promise("the site heard of the approval and of one draft", nights.clicks() == ["approve", "draft"])


async def taken_back(nights: Nights) -> None:
    stage = nights.stage
    stage.chapter("What was learned made it worse: it is taken back, without a person")
    if not stage.short:
        await stage.recoup("mode", "invoices")
    mode = await nights.gateway.ask("/api/workflows/invoices/mode")
    stage.promise("the workflow is degraded: careful, and it learns nothing", mode["mode"] == "degraded")
    stage.promise("the ledger says why", f"after {FIRST} was taken back" in mode["reason"])
    stage.promise(f"what it knows is again what it knew at {FIRST}", not await _lessons(nights))
    await pictures(stage, nights.gateway, "changing-site", {"workflow": "/workflows/invoices"})


async def works_again(nights: Nights) -> None:
    stage = nights.stage
    stage.chapter("Night 5: the same page again")
    heals = await nights.heals(run := await nights.run())
    _tell_heals(stage, heals)
    stage.promise("the run succeeded", run["status"] == "succeeded")
    stage.promise(
        "the right button was found, by what it was like before", heals["send"]["foundBy"] != "memory"
    )
    stage.promise("and that is proven", heals["send"]["verified"])
    stage.promise("one approval, one report", nights.clicks() == ["approve", "send"])


def _tell_heals(stage: Stage, heals: dict[str, dict[str, Any]]) -> None:
    for step, one in heals.items():
        proven = "proven" if one["verified"] else "NOT what was expected"
        words = f"'{one['after']['name']}' for '{one['before']['name']}'"
        stage.say(f"   {step}: {words}, {one['confidence']:.0%} sure, found by {one['foundBy']}: {proven}")


@asynccontextmanager
async def site(stage: Stage) -> AsyncIterator[str]:
    """`site.py` in a process of its own."""
    folder = stage.folder / "site"
    folder.mkdir(exist_ok=True)
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / "site.py"), str(folder), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        line = await asyncio.wait_for(child.stdout.readline(), START_S_MAX)
        yield line.decode().strip()
    finally:
        await ended(child)
