"""Several processes on one queue: taking side by side, killed, and while somebody deletes it."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from queue import Queue

import psycopg
import pytest

from recoup.clock import SystemClock
from recoup.dispatch.opening import open_dispatch, queue_path
from recoup.model.dispatch import Hint
from recoup.ports import Dispatch
from recoup.testing.postgres import PostgresServer

CHILD = Path(__file__).with_name("dispatch_child.py")
HOLD_S = 10.0
PATIENCE_S = 60.0


class Child:
    def __init__(self, where: str, hold_s: float, mode: str) -> None:
        command = [sys.executable, str(CHILD), str(hold_s), mode]
        pipe = subprocess.PIPE
        # Not as an argument: an address may hold a password, which no list of processes shall show.
        environment = {**os.environ, "QUEUE": where}
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        self.lines: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    async def next(self) -> str:
        return await asyncio.to_thread(self.lines.get, timeout=PATIENCE_S)

    def end(self) -> list[tuple[str, str, int]]:
        """What it has said since."""
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0
        while self.lines.get(timeout=PATIENCE_S) != "over":
            pass
        return self.said

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()

    def _read(self) -> None:
        self.said: list[tuple[str, str, int]] = []
        assert self.process.stdout
        for line in self.process.stdout:
            sign, run_id, at = line.split()
            self.said.append((sign, run_id, int(at)))
            self.lines.put(f"{sign} {run_id}")
        self.lines.put("over")


Starter = Callable[..., Child]


@pytest.fixture(params=["local", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "ledger.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.fresh_database()


@pytest.fixture
def start(where: str) -> Iterator[Starter]:
    children: list[Child] = []

    def starter(mode: str = "work", hold_s: float = HOLD_S) -> Child:
        children.append(Child(where, hold_s, mode))
        return children[-1]

    yield starter
    for child in children:
        child.kill()


@pytest.fixture
async def dispatch(where: str) -> AsyncIterator[Dispatch]:
    opened = await opener(where, HOLD_S)
    yield opened
    await opened.close()


async def opener(where: str, hold_s: float) -> Dispatch:
    return await open_dispatch(where if "://" in where else Path(where), SystemClock(), hold_s=hold_s)


async def delete_all(where: str) -> None:
    if "://" in where:
        async with await psycopg.AsyncConnection.connect(where, autocommit=True) as connection:
            await connection.execute("truncate recoup.pgqueuer")
        return
    # As a shell would: the file first, then what belongs to it.
    for path in sorted(queue_path(Path(where)).parent.glob("queue.db*")):
        path.unlink(missing_ok=True)
        await asyncio.sleep(0.002)


async def emptied(dispatch: Dispatch) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while await dispatch.depths():
        assert time.monotonic() < deadline_s, await dispatch.depths()
        await asyncio.sleep(0.02)


async def taken_alone(
    dispatch: Dispatch, run_id: str, children: list[Child], last_hint: dict[str, int]
) -> None:
    """Returns when an idle process has taken it."""
    last_hint[run_id] = time.monotonic_ns()
    await dispatch.hint([Hint(run_id)])
    while not any(name == run_id for child in children for _, name, _ in list(child.said)):
        await asyncio.sleep(0.005)
    await emptied(dispatch)


async def test_each_hint_is_taken_and_none_by_two_at_a_time(
    where: str, start: Starter, dispatch: Dispatch
) -> None:
    children = [start(), start()]
    for child in children:
        assert await child.next() == "ready -"
    chance = random.Random(3)
    last_hint: dict[str, int] = {}
    for _ in range(60):
        some = [f"run-{chance.randrange(150)}" for _ in range(chance.randint(1, 15))]
        now = time.monotonic_ns()
        await dispatch.hint([Hint(run_id, priority=chance.randint(0, 3)) for run_id in some])
        last_hint |= dict.fromkeys(some, now)
        await asyncio.sleep(chance.random() * 0.01)
    await emptied(dispatch)
    for number in range(15):
        await taken_alone(dispatch, f"single-{number}", children, last_hint)
    told = [child.end() for child in children]
    takings: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
    for number, said in enumerate(told):
        for sign, run_id, at in said[1:]:
            takings[run_id].append((at, sign, number))
    assert set(takings) == set(last_hint)
    for run_id, found in takings.items():
        found.sort()
        assert [sign for _, sign, _ in found] == ["+", "-"] * (len(found) // 2)
        assert all(found[place][2] == found[place + 1][2] for place in range(0, len(found), 2)), (
            "by one at a time"
        )
        assert max(at for at, sign, _ in found if sign == "-") > last_hint[run_id], "nothing was missed"
    assert sum(bool(said[1:]) for said in told) > 1, "the work was shared"


async def test_what_a_killed_process_held_goes_to_another(where: str, start: Starter) -> None:
    dispatch = await opener(where, hold_s=1)
    await dispatch.hint([Hint("a")])
    victim = start("hold", hold_s=1)
    assert await victim.next() == "+ a"
    began_s = time.monotonic()
    victim.kill()
    while not (taken := await dispatch.take(["default"], frozenset(), 1)):
        await dispatch.wait(60)
    assert taken[0].hint == Hint("a")
    assert time.monotonic() - began_s < 50, "without waiting for all of the 60 s"
    await dispatch.close()


async def test_whoever_deletes_the_queue_while_others_work_costs_only_hints(
    where: str, start: Starter, dispatch: Dispatch
) -> None:
    """A sweeper that asks which runs have none, and hints them again, gets every run taken."""
    children = [start(), start()]
    for child in children:
        assert await child.next() == "ready -"
    every = [f"run-{number}" for number in range(300)]
    for begin in range(0, 300, 50):
        await dispatch.hint([Hint(run_id) for run_id in every[begin : begin + 50]])
        await delete_all(where)
    deadline_s = time.monotonic() + PATIENCE_S
    while missing := sorted(set(every) - {line[1] for child in children for line in child.said}):
        assert time.monotonic() < deadline_s, f"{len(missing)} were never taken"
        lost = set(missing) - await dispatch.hinted(missing)
        await dispatch.hint([Hint(run_id) for run_id in sorted(lost)])
        await asyncio.sleep(0.1)
    await emptied(dispatch)
    # A request that meets the deletion halfway may be refused; the next one is not.
    refused = [line for child in children for line in child.end() if line[0] == "!"]
    assert len(refused) <= 2, refused


@pytest.mark.parametrize("where", ["local"], indirect=True)
async def test_a_queue_that_was_made_while_somebody_deleted_the_old_one_is_shared_by_all(
    where: str, start: Starter, dispatch: Dispatch
) -> None:
    """The new file stood on the log and the index of the old one until they were deleted too: then this process and
    the next one had an index each, and neither saw what the other wrote."""
    await dispatch.hint([Hint("old")])
    assert await dispatch.take(["default"], frozenset(), 1)
    await dispatch.wait(0.01)
    first, *others = sorted(queue_path(Path(where)).parent.glob("queue.db*"))
    first.unlink()
    assert not await dispatch.take(["default"], frozenset(), 1)
    await dispatch.wait(0.1)
    for path in others:
        path.unlink()
    sweeper = start("sweep")
    assert [await sweeper.next(), await sweeper.next()] == ["ready -", "? new"]
    async with asyncio.timeout(PATIENCE_S):
        while not (taken := await dispatch.take(["default"], frozenset(), 1)):
            await dispatch.wait(1)
    assert taken[0].hint == Hint("new")
