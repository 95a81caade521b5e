"""Three workers share a database and a pipeline. They are killed and frozen, and the numbers come out right."""

import asyncio
import secrets
import shutil
from itertools import cycle
from pathlib import Path

import psycopg

from examples.camera import signed_in
from examples.dying_workers.fleet import Fleet, Worker, lines_of
from examples.dying_workers.history import History
from examples.stage import Stage, until
from recoup.testing.postgres import postgres_server

TITLE = "a data pipeline on three workers and PostgreSQL, while workers are killed and frozen"
PIPELINE = Path(__file__).parent / "pipeline"
OVER = ("succeeded", "failed", "cancelled", "dead_letter")


async def tell(stage: Stage) -> None:
    shutil.copytree(PIPELINE, stage.folder / "pipeline", dirs_exist_ok=True)
    with postgres_server() as server:
        story = Story(stage, server.fresh_database())
        async with story.fleet:
            await story.tell()


class Story:
    """The runs by their days, who drives them, and what has become of them."""

    def __init__(self, stage: Stage, database: str) -> None:
        self.stage, self.database = stage, database
        self.runs: dict[str, str] = {}
        self.lease_s, heartbeat_s = (2.0, 0.25) if stage.short else (5.0, 1.0)
        self.pace_s = 0.0 if stage.short else 0.4
        self.fleet = Fleet(stage, secrets.token_urlsafe(32))
        self.journal, self.outbox, self.gates = (
            stage.folder / name for name in ("journal", "outbox", "gates")
        )
        stage.env |= {
            "RECOUP_DATABASE": database,
            "RECOUP_KEY": secrets.token_urlsafe(32),
            "RECOUP_LEASE_S": f"{self.lease_s:g}",
            "RECOUP_HEARTBEAT_S": f"{heartbeat_s:g}",
            "WAREHOUSE": database,
            "JOURNAL": str(self.journal),
            "OUTBOX": str(self.outbox),
            "GATES": str(self.gates),
        }

    async def picture(self, what: str, path: str) -> None:
        """Of a page of the console, where somebody asked for pictures."""
        fleet = self.fleet
        async with signed_in(self.stage.pictures, "dying-workers", fleet.url, fleet.token) as camera:
            await camera.take(what, path)

    async def tell(self) -> None:
        await self.begin()
        await self.one_is_killed_and_one_is_frozen()
        if not self.stage.short:
            await self.one_dies_while_it_sends()
            await self.all_of_them_in_turn()
        await self.look_back()

    async def begin(self) -> None:
        self.stage.chapter("One database, three workers, three days of sales")
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute((PIPELINE / "warehouse.sql").read_bytes())
        self.journal.touch()
        self.outbox.touch()
        self.gates.mkdir()
        (self.gates / "load").touch()
        days = [f"2026-11-0{number}" for number in (1, 2, 3)]
        await asyncio.gather(self.fleet.open(), *(self.fleet.hire() for _ in days), self.submit(*days))

    async def one_is_killed_and_one_is_frozen(self) -> None:
        self.stage.chapter("One worker is killed, another one is frozen, both in the middle of loading")
        first, second, _ = self.runs
        await self.loading()
        self.stage.say("   The warehouse is busy: each run has loaded three customers of six, and waits.")
        killed, frozen = await until(lambda: self.drivers(first, second), "no two workers drive the two runs")
        self.stage.say(f"   $ kill -9 {killed.pid}; kill -STOP {frozen.pid}")
        frozen.freeze()
        await self.fleet.kill(killed)
        (self.gates / "load").unlink()
        await self.the_frozen_one_is_silent(frozen, second)
        if not self.stage.short:
            await self.fleet.hire()
        await asyncio.gather(self.lost_by(first, killed.pid), self.lost_by(second, frozen.pid))
        self.stage.promise("another worker went on with each of the two runs", True)
        await self.picture("fleet", "/fleet")
        await self.the_frozen_one_wakes(frozen, second)

    async def the_frozen_one_is_silent(self, frozen: Worker, run_id: str) -> None:
        async def silent() -> bool:
            seen = await self.fleet.workers_seen()
            return any((one["pid"], one["state"]) == (frozen.pid, "silent") for one in seen)

        await until(silent, "nobody notices that a worker is frozen")
        page = await self.fleet.page("/fleet")
        self.stage.promise(
            "the fleet page has every worker, its run, and says which one is silent",
            all(f"process {worker.pid}" in page for worker in self.fleet.workers)
            and all(text in page for text in ("silent", run_id)),
        )

    async def the_frozen_one_wakes(self, frozen: Worker, run_id: str) -> None:
        self.stage.say(f"   $ kill -CONT {frozen.pid}")
        frozen.wake()
        words = await until(lambda: answer(frozen.said("lost", run_id)), "the woken worker has not noticed")
        self.stage.say(f"     it says: {words}")
        self.stage.promise(
            "the woken worker may write nothing more, and has stopped what it had", bool(words)
        )

    async def one_dies_while_it_sends(self) -> None:
        self.stage.chapter("A worker dies in the step that must not be repeated")
        (self.gates / "send").touch()
        (run_id,) = await self.submit("2026-11-04")
        await until(lambda: answer(run_id in self.sent()), f"{run_id} does not come to its last step")
        worker = await self.fleet.driver_of(run_id)
        self.stage.say(f"   $ kill -9 {worker.pid}")
        await self.fleet.kill(worker)
        (self.gates / "send").unlink()
        await self.fleet.hire()
        await until(lambda: self.is_(run_id, "escalated"), f"nobody is asked about {run_id}")
        self.stage.promise("nobody knows whether the report was sent, so that a person is asked", True)
        await self.picture("asked", f"/runs/{run_id}")
        await self.settle(run_id)

    async def all_of_them_in_turn(self) -> None:
        self.stage.chapter("Five more days, and every two seconds a worker is killed or frozen")
        new = await self.submit(*(f"2026-11-0{number}" for number in range(5, 10)))
        harms = cycle((self.killed, self.frozen_for_longer_than_its_lease))
        asleep: list[asyncio.Task[None]] = []
        while not await self.all_over(new):
            awake = [worker for worker in self.fleet.workers if not worker.frozen]
            if len(awake) > 1 and len(asleep) < 3:
                asleep += await next(harms)(awake[0])
            await asyncio.sleep(2)
        await asyncio.gather(*asleep)

    async def killed(self, worker: Worker) -> list[asyncio.Task[None]]:
        self.stage.say(f"   $ kill -9 {worker.pid}")
        await self.fleet.kill(worker)
        await self.fleet.hire()
        return []

    async def frozen_for_longer_than_its_lease(self, worker: Worker) -> list[asyncio.Task[None]]:
        self.stage.say(f"   $ kill -STOP {worker.pid}; sleep {self.lease_s + 1:g}; kill -CONT {worker.pid}")
        worker.freeze()

        async def wake() -> None:
            await asyncio.sleep(self.lease_s + 1)
            worker.wake()

        self.fleet.workers.append(self.fleet.workers.pop(self.fleet.workers.index(worker)))
        return [asyncio.create_task(wake())]

    async def look_back(self) -> None:
        self.stage.chapter("What is left")
        await until(lambda: self.all_over(list(self.runs)), "not all runs end")
        events = dict(zip(self.runs, await asyncio.gather(*map(self.fleet.events, self.runs)), strict=True))
        history = History(self.runs, events, self.stage.folder, self.database)
        await self.picture("runs", "/runs")
        self.judge(history, [await self.is_(run_id, "succeeded") for run_id in self.runs])
        listed = {one["runId"]: one["worker"] for one in (await self.fleet.ask("/api/runs"))["items"]}
        self.stage.promise(
            "the list of runs has for each the worker that drove it last",
            listed == {run_id: history.last_driver(run_id) for run_id in self.runs},
        )

    def judge(self, history: History, succeeded: list[bool]) -> None:
        promise = self.stage.promise
        promise(f"all {len(succeeded)} runs have succeeded", all(succeeded))
        promise(
            "each step is recorded as finished once, and none was begun again after that",
            history.each_step_finished_once_and_was_never_begun_again(),
        )
        promise(
            "nothing was done that the ledger does not know of, and no attempt was made twice",
            history.the_journal_knows_nothing_that_the_ledger_does_not(),
        )
        promise(
            "the frozen worker's step wrote nothing after the next attempt had begun",
            history.nobody_wrote_after_the_next_attempt_had_begun(),
        )
        promise(
            "what was loaded by two attempts is there once",
            max(len(history.attempts_of_load(run_id)) for run_id in list(self.runs)[:2]) > 1
            and history.no_row_has_a_twin(),
        )
        promise("each report was sent once", history.each_report_was_sent_once())
        promise("the sums in the warehouse are those of the orders", history.the_warehouse_is_right())

    # What a person does

    async def submit(self, *days: str) -> list[str]:
        said = await asyncio.gather(*(self.stage.recoup(*self.command(day)) for day in days))
        made = [one.out.strip() for one in said]
        self.runs |= dict(zip(made, days, strict=True))
        return made

    def command(self, day: str) -> list[str]:
        inputs = ("--input", f"day={day}", "--input", f"pace={self.pace_s:g}")
        return ["submit", "pipeline/plan.yaml", *inputs, "--dedup-key", day]

    async def settle(self, run_id: str) -> None:
        """The person looks into the outbox, and says what is there."""
        was = "done" if run_id in self.sent() else "not-done"
        words = ("--step", "send", "--as", was, "--reason", "I have looked into the outbox")
        await self.stage.recoup("control", run_id, "settle", *words)

    # What is to be seen

    def sent(self) -> set[str]:
        return {line[0] for line in lines_of(self.outbox)}

    async def loading(self) -> None:
        """Until each run has loaded its first three customers."""
        query = "SELECT split_part(key, '.', 1), count(*) FROM warehouse.sales GROUP BY 1"
        async with await psycopg.AsyncConnection.connect(self.database, autocommit=True) as warehouse:

            async def all_of_them() -> bool:
                rows = await (await warehouse.execute(query)).fetchall()
                return dict(rows) == dict.fromkeys(self.runs, 3)

            await until(all_of_them, "not every run loads")

    async def drivers(self, *runs: str) -> list[Worker] | None:
        """Who drives these runs, if that is a worker of its own for each."""
        found = [await self.fleet.driver_of(run_id) for run_id in runs]
        return found if len({worker.pid for worker in found}) == len(runs) else None

    async def lost_by(self, run_id: str, pid: int) -> None:
        """Until the ledger says that this driver has lost the run to another one."""

        async def taken() -> bool:
            owners = [one["payload"].get("previousOwner") or {} for one in await self.fleet.events(run_id)]
            return any(owner.get("pid") == pid for owner in owners)

        await until(taken, f"nobody goes on with {run_id}")

    async def all_over(self, runs: list[str]) -> bool:
        """Whoever is asked meanwhile answers: a worker may have been cut off while it sent."""
        states = await asyncio.gather(*map(self.fleet.run, runs))
        for state in states:
            if state["status"] == "escalated":
                await self.settle(state["runId"])
        return all(state["status"] in OVER for state in states)

    async def is_(self, run_id: str, *statuses: str) -> bool:
        return (await self.fleet.run(run_id))["status"] in statuses


async def answer(value: bool | str) -> bool | str:
    return value
