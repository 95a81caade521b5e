"""Several processes on one ledger file: killed, frozen, greedy, at the same instant."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recoup.errors import LedgerBusy
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.events import RunInterrupted
from recoup.testing.ledger_suite import assert_cached_rows_equal_a_rebuild, facts, into, note

CHILD = Path(__file__).with_name("ledger_child.py")
STREAM = "run:shared"

Child = subprocess.Popen[str]
Starter = Callable[..., Child]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def start(path: Path) -> Iterator[Starter]:
    children: list[Child] = []

    def starter(mode: str, *rest: object, before: tuple[str, ...] = ()) -> Child:
        command = [*before, sys.executable, str(CHILD), mode, str(path), *map(str, rest)]
        pipe = subprocess.PIPE
        children.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return children[-1]

    yield starter
    for child in children:
        child.kill()
        child.communicate()


async def tokens(ledger: SqliteLedger) -> dict[str, int]:
    """What stands in the shared stream, and where; each once."""
    found: dict[str, int] = {}
    events = await ledger.read(STREAM, limit=1_000_000)
    for event in events:
        assert isinstance(event.payload, RunInterrupted)
        assert event.payload.reason not in found
        found[event.payload.reason] = event.seq
    assert list(found.values()) == list(range(1, len(events) + 1))
    return found


def said(child: Child) -> dict[str, int]:
    """The acknowledged appends of a child that has ended."""
    assert child.stdout
    out = child.stdout.read()
    child.wait(timeout=60)
    whole = [line.split() for line in out.splitlines(keepends=True) if line.endswith("\n")]
    return {token: int(seq) for token, seq in whole}


async def test_a_process_killed_at_any_instant_loses_and_tears_nothing(path: Path, start: Starter) -> None:
    chance = random.Random(7)
    acknowledged: dict[str, int] = {}
    for number in range(5):
        children = [start("append", f"p{number}{side}", chance.choice((1, 4))) for side in "abcd"]
        for child in children:
            assert child.stdout
            first = [child.stdout.readline().split() for _ in range(chance.randint(1, 10))]
            acknowledged |= {token: int(seq) for token, seq in first}
            await asyncio.sleep(chance.random() * 0.003)
            child.kill()
        for child in children:
            acknowledged |= said(child)
    ledger = SqliteLedger(path)
    found = await tokens(ledger)
    assert acknowledged.items() <= found.items()
    assert len(acknowledged) >= 20
    await assert_cached_rows_equal_a_rebuild(ledger)
    await ledger.append(facts(into(STREAM, note("afterwards"))))
    assert await ledger.head(STREAM) == len(found) + 1
    await ledger.close()


async def test_two_processes_that_expect_sequences_lose_and_double_nothing(
    path: Path, start: Starter
) -> None:
    pair = [start("compete", name, 60) for name in ("a", "b")]
    acknowledged = {token: seq for child in pair for token, seq in said(child).items()}
    ledger = SqliteLedger(path)
    assert await tokens(ledger) == acknowledged
    assert len(acknowledged) == 120
    await ledger.close()


def test_many_processes_can_open_a_new_ledger_at_once(start: Starter) -> None:
    for child in [start("some", f"p{number}", 1) for number in range(6)]:
        out, err = child.communicate(timeout=60)
        assert out.startswith("acknowledged"), err


async def test_beside_a_greedy_writer_another_process_gets_its_turn(path: Path, start: Starter) -> None:
    """Its appends take milliseconds; without turns each would wait for seconds. How long is measured by the benchmarks."""
    greedy = start("append", "greedy", 20)
    assert greedy.stdout
    greedy.stdout.readline()
    ledger = SqliteLedger(path)
    pump = asyncio.create_task(asyncio.to_thread(greedy.stdout.read))
    waits_s: list[float] = []
    for _ in range(25):
        begin = time.perf_counter()
        await ledger.append(facts(into(STREAM, note(f"patient-{len(waits_s)}"))))
        waits_s.append(time.perf_counter() - begin)
        await asyncio.sleep(0.005)
    assert greedy.poll() is None, "the greedy writer ended too early to prove anything"
    greedy.kill()
    await pump
    assert sorted(waits_s)[len(waits_s) // 2] < 2
    await ledger.close()


async def test_a_frozen_holder_of_the_turnstile_delays_others_once(path: Path, start: Starter) -> None:
    ledger = SqliteLedger(path, turn_patience_s=2)
    frozen = start("freeze")
    assert frozen.stdout
    assert frozen.stdout.readline() == "frozen\n"
    first_s = await _seconds(ledger)
    assert first_s >= 2
    assert await _seconds(ledger) < 2
    frozen.kill()
    frozen.wait()
    assert await _seconds(ledger) < 2
    await ledger.close()


async def _seconds(ledger: SqliteLedger) -> float:
    begin = time.perf_counter()
    await ledger.append(facts(into(STREAM, note(str(begin)))))
    return time.perf_counter() - begin


async def test_a_locked_database_never_blocks_the_loop_and_is_reported(path: Path, start: Starter) -> None:
    ledger = SqliteLedger(path, busy_max_s=0.5)
    await ledger.append(facts(into(STREAM, note("first"))))
    holder = start("hold")
    assert holder.stdin
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    pending = asyncio.create_task(ledger.append(facts(into(STREAM, note("never")))))
    ticks = 0
    while not pending.done():
        assert await ledger.head(STREAM) == 1
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks > 10
    with pytest.raises(LedgerBusy) as refusal:
        await pending
    assert str(holder.pid) in refusal.value.hint
    pending = asyncio.create_task(ledger.append(facts(into(STREAM, note("second")))))
    await asyncio.sleep(0.05)
    holder.stdin.write("\n")
    holder.stdin.flush()
    await pending
    assert list(await tokens(ledger)) == ["first", "second"]
    await ledger.close()


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("when", [4, 6, 9])
async def test_after_a_failed_fsync_each_append_is_there_or_refused(
    path: Path, start: Starter, when: int
) -> None:
    ledger = SqliteLedger(path)
    await ledger.append(facts(into(STREAM, note("before"))))
    inject = f"inject=fdatasync:error=EIO:when={when}"
    child = start("some", "p", 12, before=("strace", "-f", "-o", os.devnull, "-e", inject))
    out, err = child.communicate(timeout=60)
    if "ptrace" in err.lower():
        pytest.skip("this machine lets nobody trace")
    lines = [line.split() for line in out.splitlines()]
    assert len(lines) == 12, err
    acknowledged = {token: int(seq) for word, token, seq in lines if word == "acknowledged"}
    assert await tokens(ledger) == {"before": 1} | acknowledged
    assert len(acknowledged) == 11
    await ledger.close()


async def test_without_other_processes_a_failed_fsync_is_settled_too(path: Path, start: Starter) -> None:
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    inject = "inject=fdatasync:error=EIO:when=6"
    child = start("some", "p", 12, before=("strace", "-f", "-o", os.devnull, "-e", inject))
    out, err = child.communicate(timeout=60)
    if "ptrace" in err.lower():
        pytest.skip("this machine lets nobody trace")
    lines = [line.split() for line in out.splitlines()]
    assert len(lines) == 12, err
    ledger = SqliteLedger(path)
    assert await tokens(ledger) == {token: int(seq) for word, token, seq in lines if word == "acknowledged"}
    await ledger.close()


async def test_a_file_that_cannot_grow_refuses_until_it_can(path: Path, start: Starter) -> None:
    child = start("limit", 1 << 20)
    out, err = child.communicate(timeout=60)
    refusal, after = out.splitlines() if out.count("\n") == 2 else (err, out)
    assert refusal.startswith("refused"), err
    number = int(refusal.split()[1])
    assert after == f"acknowledged {number + 1}"
    assert signal.SIGXFSZ.name not in err
    ledger = SqliteLedger(path)
    assert len(await tokens(ledger)) == number + 1
    await ledger.close()
