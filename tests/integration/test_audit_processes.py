"""Several processes that export at once: killed in the midst of it, out of space, in each other's way."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.test_audit_export import assert_holds_the_ledger, files, fill, gaps

from recoup.audit.exporting import export
from recoup.audit.verifying import verify
from recoup.errors import StateError
from recoup.ledger.sqlite import SqliteLedger
from recoup.testing.ledger_suite import START, facts, into, note

CHILD = Path(__file__).with_name("audit_child.py")

Child = subprocess.Popen[str]
Starter = Callable[..., Child]


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    opened = SqliteLedger(tmp_path / "ledger.db")
    yield opened
    await opened.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "audit"


@pytest.fixture
def start(tmp_path: Path, root: Path) -> Iterator[Starter]:
    children: list[Child] = []

    def starter(mode: str, *rest: object) -> Child:
        command = [sys.executable, str(CHILD), mode, str(tmp_path / "ledger.db"), str(root), *map(str, rest)]
        pipe = subprocess.PIPE
        children.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return children[-1]

    yield starter
    for child in children:
        child.kill()
        child.communicate()


def line_of(child: Child) -> str:
    assert child.stdout
    return child.stdout.readline().strip()


async def test_exporters_at_once_never_interleave(ledger: SqliteLedger, root: Path, start: Starter) -> None:
    children = [start("both", f"p{number}", 25) for number in range(4)]
    for child in children:
        _, err = child.communicate(timeout=60)
        assert child.returncode == 0, err
    await export(ledger, root, START)
    report = await assert_holds_the_ledger(root, ledger)
    assert report.events == 4 * 25 * 2
    assert report.files > 2
    assert not gaps(root)


ROUNDS_MAX = 8
"""An exporter that is not killed in time has done all: then it is tried again."""


async def test_killed_exporters_lose_and_double_nothing(
    ledger: SqliteLedger, root: Path, start: Starter
) -> None:
    chance = random.Random(11)
    early = 0
    for number in range(ROUNDS_MAX):
        await ledger.append(facts(into(f"run:{number}", *(note("x" * 500) for _ in range(1_500)))))
        wanted = len(files(root)) + chance.randint(1, 40)
        children = [start("export") for _ in range(2)]
        async with asyncio.timeout(30):
            while len(files(root)) < wanted:
                await asyncio.sleep(0.001)
        for child in children:
            child.kill()
            child.communicate()
        early += (await verify(root, ledger)).events < (number + 1) * 1_500
        if early == 3:
            break
    assert early, "none was killed before it had done all"
    await export(ledger, root, START)
    await assert_holds_the_ledger(root, ledger)


async def test_killed_in_the_midst_of_any_call_an_exporter_leaves_what_the_next_one_mends(
    ledger: SqliteLedger, root: Path, start: Starter
) -> None:
    """With a torn tail to mend, new lines to write, and a new file to begin."""
    await ledger.append(facts(into("run:a", *(note("x" * 400) for _ in range(20)))))
    await export(ledger, root, START)
    files(root)[0].write_bytes(files(root)[0].read_bytes()[:-100])
    await ledger.append(facts(into("run:b", *(note("x" * 400) for _ in range(20)))))
    child = start("die")
    out, err = child.communicate(timeout=100)
    assert child.returncode == 0, err
    names = out.split()
    assert len(names) >= 10
    for name in names:
        left = root.with_name(name)
        await export(ledger, left, START)
        report = await assert_holds_the_ledger(left, ledger)
        assert report.gaps_count >= 1, f"{name}: the torn line left no mark"


async def test_a_full_disk_stops_the_export_with_words_and_harms_nothing_else(
    ledger: SqliteLedger, root: Path, start: Starter
) -> None:
    await fill(ledger, 300)
    size = (root.parent / "ledger.db-wal").stat().st_size + (root.parent / "ledger.db").stat().st_size
    limit = 60_000
    assert size > limit
    child = start("limit", limit)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    first, second, last = out.splitlines()
    for refusal in (first, second):
        assert refusal.startswith(f"refused the audit in {root} cannot be written: ")
        assert "No run is harmed" in refusal
    assert last == "appended"
    written = files(root)[0].stat().st_size
    assert limit - 1_000 < written <= limit
    await export(ledger, root, START)
    report = await assert_holds_the_ledger(root, ledger)
    assert report.events == 301
    (gap,) = gaps(root)
    assert gap["reason"] == "torn"


async def test_who_finds_another_at_work_leaves_it_to_them(
    ledger: SqliteLedger, root: Path, start: Starter
) -> None:
    await fill(ledger, 3)
    await export(ledger, root, START)
    await fill(ledger, 3)
    child = start("hold")
    assert line_of(child) == "held"
    assert (await export(ledger, root, START, wait_s=0.1)).busy
    with pytest.raises(StateError, match="was being written"):
        await verify(root, ledger, wait_s=0.1)
    child.communicate("go on\n", timeout=20)
    assert (await export(ledger, root, START)).events == 3
    await assert_holds_the_ledger(root, ledger)


async def test_a_folder_that_cannot_be_written_is_named(ledger: SqliteLedger, root: Path) -> None:
    root.write_text("in the way")
    with pytest.raises(StateError, match=r"audit cannot be written: .*exists"):
        await export(ledger, root, START)
    await fill(ledger, 1)
