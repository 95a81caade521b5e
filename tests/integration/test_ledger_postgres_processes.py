"""Several processes at one ledger on PostgreSQL."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from pathlib import Path

from recoup.ledger.postgres.ledger import PostgresLedger
from recoup.model.storage import Arrival
from recoup.testing.ledger_suite import assert_cached_rows_equal_a_rebuild
from recoup.testing.postgres import PostgresServer

CHILD = Path(__file__).with_name("postgres_child.py")


async def start(mode: str, url: str, name: str, wanted: int) -> asyncio.subprocess.Process:
    command = (sys.executable, str(CHILD), mode, url, name, str(wanted))
    return await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


async def lines_of(child: asyncio.subprocess.Process) -> list[str]:
    out, errors = await child.communicate()
    assert child.returncode == 0, errors.decode()
    return out.decode().splitlines()


async def test_processes_that_write_the_same_streams_get_along(postgres: PostgresServer) -> None:
    url = postgres.prepared_database()
    ledger = await PostgresLedger.open(url)
    children = [await start("mixed", url, name, 15) for name in ("a", "b", "c")]
    working = asyncio.gather(*map(lines_of, children))
    came: list[Arrival] = []
    while not working.done() or await ledger.arrivals(came[-1].number if came else 0, 1):
        came += await ledger.arrivals(came[-1].number if came else 0, 50)
        await asyncio.sleep(0.002)
    said = [line for lines in await working for line in lines]
    assert len(said) == 3 * 4 * 15

    told = defaultdict(list)
    for line in said:
        for place in line.split()[1:]:
            stream, _, seq = place.rpartition("=")
            told[stream].append(int(seq))
    for stream, places in told.items():
        assert sorted(places) == list(range(1, len(places) + 1)), stream
        assert await ledger.head(stream) == len(places)
    assert came == await ledger.arrivals()
    assert len(came) == sum(map(len, told.values()))
    await assert_cached_rows_equal_a_rebuild(ledger)
    await ledger.close()


async def test_of_processes_that_expect_the_same_end_one_gets_it(postgres: PostgresServer) -> None:
    url = postgres.prepared_database()
    said = await asyncio.gather(
        *[lines_of(await start("compete", url, name, 20)) for name in ("a", "b", "c")]
    )
    places = sorted(int(line.split()[1]) for lines in said for line in lines)
    assert places == list(range(1, 61))


async def test_of_processes_that_open_an_empty_database_at_once_one_makes_it(
    postgres: PostgresServer,
) -> None:
    url = postgres.fresh_database()
    children = [await start("open", url, "x", 0) for _ in range(4)]
    assert await asyncio.gather(*map(lines_of, children)) == [["opened 0"]] * 4
