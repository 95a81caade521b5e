"""A night in which a coding agent hangs, loops, loses its driver and is taken over, and a patch in the morning."""

import asyncio
import hashlib
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from examples.camera import Camera, looking
from examples.overnight_agent.model import agent
from examples.stage import Child, Stage, StoryBroken, ended, heard, until

TITLE = "a coding agent is left alone: it hangs, loops, is killed and taken over, and leaves a patch"
HERE = Path(__file__).parent
FILES = ("plan.yaml", "policy.yaml", "policy-short.yaml", "script.json", "by-hand.patch")
WAITS_FOR_AN_OPERATOR = 5
ATTEMPTS_MAX = 4
SHARE = 3
"""The index of the step in which the agent wanders."""
READS_MIN = 2
_AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@localhost", "-c", "commit.gpgsign=false")
Event = dict[str, Any]


async def tell(stage: Stage) -> None:
    repo = await _evening(stage)
    before = _fingerprint(repo)
    async with agent(stage) as who, looking(stage, "overnight-agent") as camera:
        stage.say(f"The agent is {who}.")
        facts = await _alone(stage)
        run_id = facts[0]["runId"]
        facts += await _taken_over(stage, run_id, camera)
        facts += await _goes_on(stage, run_id)
        await camera.take("run", f"/runs/{run_id}?view=timeline")
        await camera.take("changes", f"/runs/{run_id}?view=changes")
    await _morning(stage, repo, run_id, facts)
    stage.promise(
        "the repository itself was never written, not even inside .git", _fingerprint(repo) == before
    )


async def _evening(stage: Stage) -> Path:
    stage.chapter("Evening: a repository with three mistakes, and a plan")
    for name in FILES:
        shutil.copy(HERE / name, stage.folder)
    repo = stage.folder / "repo"
    shutil.copytree(HERE / "repo", repo)
    await _git(repo, "init", "-q", "-b", "main")
    await _git(repo, "add", "-A")
    await _git(repo, *_AUTHOR, "commit", "-q", "-m", "The till")
    policy = "policy-short.yaml" if stage.short else "policy.yaml"
    stage.env["RECOUP_POLICY"] = str(stage.folder / policy)
    return repo


async def _alone(stage: Stage) -> list[Event]:
    """Until the driver is killed, in the middle of the third of the agent's steps."""
    stage.chapter("Night: nobody is there")
    stage.say("   $ recoup run plan.yaml --json")
    driver = await stage.start("run", "plan.yaml", "--json")
    try:
        facts = await heard(driver, _launched("share"), _told(stage))
        run_id = facts[0]["runId"]
        _hang_and_loop(stage, facts)
        await _killed(stage, driver, run_id)
    finally:
        await ended(driver)
    return facts


def _hang_and_loop(stage: Stage, facts: list[Event]) -> None:
    hung, looped = _failures(facts, "cents"), _failures(facts, "leap")
    stage.promise(
        "the hang was noticed, and a soft reset fixed it: a fresh process, the same workspace",
        [(one["failureKind"], one["strategy"]) for one in hung] == [("idle_timeout", "soft_reset")],
    )
    alike = {(one["failureSignature"], one["diffHash"]) for one in looped}
    stage.promise(
        "the loop was noticed: the same failure, the same diff, so no progress",
        (len(looped), len(alike), looped[-1]["failureClass"]) == (2, 1, "stuck_no_progress"),
    )
    restored = [one["payload"] for one in facts if one["type"] == "checkpoint.restored"]
    stage.promise(
        "so the workspace was restored aside from the last checkpoint, and the third try passed",
        looped[-1]["strategy"] == "hard_reset" and len(restored) == 1 and _passed(facts, "leap") == [3],
    )


async def _killed(stage: Stage, driver: Child, run_id: str) -> None:
    stage.chapter("Three o'clock: the driver is killed")

    async def nothing_left() -> bool:
        return not _left_of(run_id)

    await _seen_to_wander(stage, run_id)
    stage.promise("the agent is at work", bool(_left_of(run_id)))
    stage.say(f"   $ kill -9 {driver.pid}")
    driver.kill()
    await driver.wait()
    await until(nothing_left, "the agent ends with its driver")
    stage.promise("nothing of it is left running", not _left_of(run_id))


async def _seen_to_wander(stage: Stage, run_id: str) -> None:
    """The log of the step shows it: in its last attempt the agent reads the same file again and again."""
    log = stage.home / "runs" / run_id / "artifacts" / "logs" / "steps" / f"step-{SHARE:04}.log"

    async def wanders() -> bool:
        attempt = log.read_text().rpartition("--- attempt ")[2] if log.exists() else ""
        return attempt.count('"tool_use"') >= READS_MIN

    await until(wanders, "the agent reads and reads")


async def _taken_over(stage: Stage, run_id: str, camera: Camera) -> list[Event]:
    """Goes on where it was; then a person takes the workspace."""
    stage.say(f"   $ recoup resume {run_id} --json")
    driver = await stage.start("resume", run_id, "--json")
    try:
        facts = await heard(driver, _launched("share"), _told(stage))
        stage.promise(
            "the run goes on at the frontier: what was finished is not repeated",
            {one["payload"]["stepId"] for one in facts if one["type"] == "task.step.attempt.started"}
            == {"share"},
        )
        stage.chapter("Six o'clock: Ada is awake, and sees the agent read the same file again and again")
        await _seen_to_wander(stage, run_id)
        answer = await stage.recoup("control", run_id, "takeover", "--reason", "Fixing the sharing by hand")
        document = (await heard(driver, _is_document, _told(stage)))[-1]
        code = await driver.wait()
    finally:
        await ended(driver)
    stage.promise(
        "the agent was ended, and the run waits for her",
        (code, document["status"], document["liveControl"]["takeover"])
        == (WAITS_FOR_AN_OPERATOR, "waiting", True)
        and not _left_of(run_id),
    )
    await camera.take("takeover", f"/runs/{run_id}")
    await _by_hand(stage, run_id, answer.out)
    return facts


async def _by_hand(stage: Stage, run_id: str, answer: str) -> None:
    workspace = (stage.home / "runs" / run_id / "workspace").resolve()
    mended = (workspace / "till.py").read_text()
    stage.promise(
        "she is told where the workspace is, and the fixes of the night are in it",
        str(workspace) in answer and "round(amount" in mended and "% 400" in mended,
    )
    stage.say("   $ git apply by-hand.patch")
    await _git(workspace, "apply", str(stage.folder / "by-hand.patch"))


async def _goes_on(stage: Stage, run_id: str) -> list[Event]:
    stage.say(f"   $ recoup resume {run_id} --json")
    driver = await stage.start("resume", run_id, "--json")
    try:
        facts = await heard(driver, _is_document, _told(stage))
        code = await driver.wait()
    finally:
        await ended(driver)
    changed = [one["payload"]["changedFiles"] for one in facts if one.get("type") == "workspace.changed"]
    stage.promise(
        "what she changed is recorded as hers, and the run goes on from there", changed == [["till.py"]]
    )
    stage.promise("the run has succeeded", (code, facts[-1]["status"]) == (0, "succeeded"))
    return facts


async def _morning(stage: Stage, repo: Path, run_id: str, facts: list[Event]) -> None:
    stage.chapter("Morning: a patch, and an account of the night")
    if not stage.short:
        await stage.recoup("ledger", run_id)
    patch = stage.home / "runs" / run_id / "workspace" / "night.patch"
    await _patch_is_good(stage, repo, patch)
    started = [one["payload"]["stepId"] for one in facts if one.get("type") == "task.step.attempt.started"]
    document = facts[-1]
    stage.promise(
        "finished steps were done once: the survey once, the leap years in the three tries of the night",
        [started.count(step) for step in ("survey", "cents", "leap", "patch")] == [1, 2, 3, 1],
    )
    stage.promise(
        "every budget was kept: 4 attempts of a step, 1 hard reset, 5 lost drivers, 3 deliveries",
        max(map(started.count, started)) <= ATTEMPTS_MAX
        and (document["hardResets"], document["takeovers"], document["delivery"]) == (1, 1, 1),
    )


async def _patch_is_good(stage: Stage, repo: Path, patch: Path) -> None:
    stage.say("   $ git apply --check night.patch")
    await _git(repo, "apply", "--check", str(patch))
    review = stage.folder / "review"
    await _git(stage.folder, "clone", "-q", str(repo), str(review))
    await _git(review, "apply", str(patch))
    check = await asyncio.create_subprocess_exec("./check.sh", cwd=review, stdout=asyncio.subprocess.PIPE)
    said = (await check.communicate())[0].decode()
    stage.promise(
        "the patch applies to the repository as it was, and nothing is wrong any more", said == "0 wrong\n"
    )


def _launched(step: str) -> Callable[[Event], bool]:
    return lambda one: one.get("type") == "task.step.attempt.launched" and one["payload"]["stepId"] == step


def _is_document(one: Event) -> bool:
    """What `run --json` and `resume --json` end with."""
    return "exitCode" in one


def _told(stage: Stage) -> Callable[[Event], None]:
    def tell_of(one: Event) -> None:
        payload = one.get("payload", {})
        if one.get("type") == "task.step.attempt.failed":
            why, then = payload["summary"], payload["strategy"].replace("_", " ")
            stage.say(f"     {payload['stepId']}: attempt {payload['attempt']} failed: {why}; {then}")
        if one.get("type") == "task.step.attempt.finished":
            stage.say(f"     {payload['stepId']}: passed at attempt {payload['attempt']}")

    return tell_of


def _failures(facts: list[Event], step: str) -> list[Event]:
    failed = [one["payload"] for one in facts if one["type"] == "task.step.attempt.failed"]
    return [one for one in failed if one["stepId"] == step]


def _passed(facts: list[Event], step: str) -> list[int]:
    """At which attempt."""
    done = [one["payload"] for one in facts if one["type"] == "task.step.attempt.finished"]
    return [one["attempt"] for one in done if (one["stepId"], one["verdict"]) == (step, "passed")]


def _left_of(run_id: str) -> list[int]:
    """Processes that belong to a step of the run: each has its id in its environment."""
    return [int(one.name) for one in Path("/proc").glob("[0-9]*") if _belongs(one, run_id)]


def _belongs(process: Path, run_id: str) -> bool:
    with suppress(OSError):
        return f"RECOUP_RUN_ID={run_id}\0".encode() in (process / "environ").read_bytes()
    return False


def _fingerprint(repo: Path) -> dict[str, str]:
    """Every byte of the repository, .git included."""
    files = sorted(one for one in repo.rglob("*") if one.is_file())
    return {str(one): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


async def _git(folder: Path, *words: str) -> None:
    child = await asyncio.create_subprocess_exec("git", "-C", str(folder), *words)
    if await child.wait():
        raise StoryBroken(f"git {' '.join(words)} ended with {child.returncode}")
