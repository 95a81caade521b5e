"""Last week's ledger under a stricter policy: what would have been is known before the policy is in force."""

import asyncio
import shutil
from pathlib import Path
from typing import Any, Final

from examples.asking import Gateway, pictures, serving
from examples.camera import signed_in
from examples.stage import Stage

TITLE = "last week's runs, decided again under a stricter policy"
HERE = Path(__file__).parent
POLICIES: Final = ("policy.yaml", "too-strict.yaml", "stricter.yaml")
FILES: Final = ("rates.yaml", "payments.yaml", "fetch.sh", "pay.sh", *POLICIES)
WEEK: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
SHORT_WEEK: Final = ("mon", "tue", "wed")
PLANS: Final = ("rates", "payments")


async def tell(stage: Stage) -> None:
    for name in FILES:
        shutil.copy(HERE / name, stage.folder)
    if stage.short:
        hurry(stage)
    stage.env["RECOUP_POLICY"] = str(stage.folder / "policy.yaml")
    days = SHORT_WEEK if stage.short else WEEK
    async with serving(stage, "--workers", "2") as gateway:
        await last_week(stage, gateway, days)
        await first_draft(stage, gateway, days)
        await second_draft(stage, gateway)
        await in_force(stage, gateway)


def hurry(stage: Stage) -> None:
    """The same policies with shorter waits."""
    for file in map(stage.folder.joinpath, POLICIES):
        file.write_text(file.read_text().replace("backoff_ms: 50", "backoff_ms: 5\nbackoff_cap_ms: 5"))


async def last_week(stage: Stage, gateway: Gateway, days: tuple[str, ...]) -> None:
    stage.chapter("Last week: every day the rates are fetched, and the payments go to the bank")
    ends = dict[tuple[str, str], str]()
    for day in days:
        runs = await asyncio.gather(*(submitted(stage, gateway, plan, day) for plan in PLANS))
        ends |= {(plan, day): run["status"] for plan, run in zip(PLANS, runs, strict=True)}
        stage.say(f"   {day}: " + ", ".join(f"{plan} {ends[plan, day]}" for plan in PLANS))
    rates = [ends["rates", day] for day in days]
    stage.promise("the rates came every day, if not at the first try", set(rates) == {"succeeded"})
    stage.promise("the bank sent us away on Tuesday", ends["payments", "tue"] != "succeeded")


async def submitted(stage: Stage, gateway: Gateway, plan: str, day: str) -> dict[str, Any]:
    return await gateway.run(planPath=str(stage.folder / f"{plan}.yaml"), inputs={"day": day})


async def first_draft(stage: Stage, gateway: Gateway, days: tuple[str, ...]) -> None:
    stage.chapter("A first draft: two tries, and a workflow that fails twice is stopped")
    found = await tried(stage, gateway, "too-strict.yaml")
    of = {one["workflow"]: one["verdicts"] for one in found["workflows"]}
    lost = [one for run in found["different"] for one in run["differences"] if one.get("recoveryLost")]
    stage.promise(f"all {2 * len(days)} runs were decided again", found["runs"] == 2 * len(days))
    stage.promise("hopeless payments would have been given up earlier", of["payments"]["stops_earlier"] > 0)
    stage.promise("but Tuesday's rates came at the third try: one recovery would be LOST", len(lost) == 1)
    stage.promise("that is told of the right step", lost[0]["stepId"] == "fetch")
    begun = {one["workflow"]: [change["mode"] for change in one["wouldHaveBegun"]] for one in found["modes"]}
    stage.promise("payments would have been put into quarantine", begun.get("payments") == ["quarantined"])
    await what_if_page(stage, gateway)


async def second_draft(stage: Stage, gateway: Gateway) -> None:
    stage.chapter("A second draft: three tries")
    found = await tried(stage, gateway, "stricter.yaml")
    differences = [one for run in found["different"] for one in run["differences"]]
    steps = {one["stepId"] for one in differences}
    stage.promise("only payments would have ended otherwise", steps == {"pay"})
    stage.promise("no recovery is lost", not any(one.get("recoveryLost") for one in differences))
    saved = sum(one.get("attemptsSaved") or 0 for one in differences)
    stage.promise(f"{saved} attempts that came to nothing would have been saved", saved > 0)


async def tried(stage: Stage, gateway: Gateway, policy: str) -> Any:
    """As people see it on the command line, and as the console asks for it: the same."""
    text = (stage.folder / policy).read_text()
    asked = gateway.ask("/api/policy/what-if", {"policy": text, "limit": 50})
    _, found = await asyncio.gather(stage.recoup("simulate", "--policy", policy, "--since", "7d"), asked)
    return found


async def in_force(stage: Stage, gateway: Gateway) -> None:
    stage.chapter("The second draft is put in force, and the bank is still moving")
    stage.say("   $ cp stricter.yaml policy.yaml")
    shutil.copy(stage.folder / "stricter.yaml", stage.folder / "policy.yaml")
    await stage.recoup("run", "payments.yaml", "--input", "day=fri", "--quiet", codes=(75, 1))
    newest = (await gateway.ask("/api/runs?workflow=payments&limit=1"))["items"][0]
    tries = await gateway.facts(newest["runId"], "task.step.attempt.started")
    stage.promise("the next run that fails is given up after three tries, not six", len(tries) == 3)
    digests = {
        one["policyDigest"] for one in await gateway.facts(newest["runId"], "task.self_heal.exhausted")
    }
    policy = await gateway.ask("/api/policy")
    stage.promise("the decision names the policy that it was made under", digests == {policy["digest"]})
    await held_back(stage, gateway)


async def held_back(stage: Stage, gateway: Gateway) -> None:
    mode = await gateway.ask("/api/workflows/payments/mode")
    stage.promise("payments is in quarantine, as was foretold", mode["mode"] == "quarantined")
    blocked, rates = await asyncio.gather(
        stage.recoup("run", "payments.yaml", "--input", "day=sat", "--quiet", codes=(4,)),
        submitted(stage, gateway, "rates", "tue"),
    )
    stage.promise("nothing goes to the bank until somebody has looked: exit code 4", blocked.code == 4)
    stage.promise("the rates of a bad day still come, at the third try", rates["status"] == "succeeded")
    await pictures(stage, gateway, "stricter-policy", {"quarantine": "/workflows/payments"})


async def what_if_page(stage: Stage, gateway: Gateway) -> None:
    """The same in the console."""
    async with signed_in(stage.pictures, "stricter-policy", gateway.url, gateway.token) as camera:
        if camera.page is None:
            return
        page = camera.page
        await page.goto(gateway.url + "/policy")
        await page.fill("#what-if-policy", (stage.folder / "too-strict.yaml").read_text())
        await page.click("#what-if [type=submit]")
        await page.wait_for_selector("#what-if-answer table")
        await page.evaluate(
            "document.querySelector('#what-if-policy').scrollIntoView({block: 'start'}); scrollBy(0, -76)"
        )
        await camera.snap("what-if")
