"""Durable trivial steps per second on PostgreSQL: Recoup and one bare insert and commit per step, medians.

Recoup runs its real engine, ledger and redaction with a no-op runtime in the same process. The bare insert is one
prepared statement in autocommit, through the same driver, with as many bytes as Recoup stores for a step. Both use the
same server, with fsync, and alternate. Bar: one run of 100 steps at 0.4 of bare PostgreSQL.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import psycopg

from benchmarks.durable_steps import bytes_per_step, in_folder, timed
from benchmarks.peers.environments import PLACE
from benchmarks.progress import rounds
from benchmarks.report import Figure, against, of_rounds, scaled
from recoup.clock import SystemClock
from recoup.ledger.postgres.ledger import PostgresLedger
from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.redactor import SecretRedactor
from recoup.testing.house import House, plan_of
from recoup.testing.postgres import PostgresServer, postgres_server
from recoup.testing.runtime import ScriptedRuntime

ROUNDS = scaled(11, 1)


def run() -> list[Figure]:
    PLACE.mkdir(exist_ok=True)
    row_bytes = in_folder(lambda folder: asyncio.run(bytes_per_step(folder)))
    with postgres_server(durable=True, folder=PLACE) as server:
        rates = [
            in_folder(lambda folder: asyncio.run(measure(server, folder, row_bytes)))
            for _ in rounds(ROUNDS, "bare inserts and Recoup by turns")
        ]
    bare, one, many = ([rate[place] for rate in rates] for place in range(3))
    floor = against(
        "bare PostgreSQL, one insert and commit per step", one, bare, floor=0.4, bare=True, paired=True
    )
    return [
        of_rounds("one run of 100 steps", one, "steps/s", peers=[floor]),
        of_rounds("50 runs of 20 steps", many, "steps/s"),
    ]


async def measure(server: PostgresServer, folder: Path, row_bytes: int) -> tuple[float, float, float]:
    url = server.prepared_database()
    house = await a_house(folder, url)
    await house.submit(plan_of(*"warming-up"), "warm-up")
    await (await house.driver("warm-up")).drive()
    bare = await bare_inserts(url, row_bytes)
    one, many = await timed(house, 1, 100), await timed(house, 50, 20)
    await house.ledger.close()
    return bare, one, many


async def a_house(folder: Path, url: str) -> House:
    redactor = SecretRedactor(pattern_set(default_cache(os.environ)))
    ledger = await PostgresLedger.open(url)
    return House(folder, ScriptedRuntime(), SystemClock(), redactor=redactor, ledger=ledger)


async def bare_inserts(url: str, row_bytes: int) -> float:
    loop = asyncio.get_running_loop()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0) as connection:
        await connection.execute("CREATE TABLE bare (number bigserial PRIMARY KEY, payload text)")
        insert = "INSERT INTO bare (payload) VALUES (%s)"
        await connection.execute(insert, ("warm up",))
        began_s = loop.time()
        for _ in range(100):
            await connection.execute(insert, ("x" * row_bytes,))
        return 100 / (loop.time() - began_s)
