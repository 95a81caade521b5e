"""A run with very many events, which somebody looks at: nobody else waits for that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from tests.integration.gateway_house import Gateway, gateway
from tests.integration.stream_house import write
from tests.integration.test_gateway_approvals import housed

from recoup.errors import NotFound
from recoup.gateway.artifacts import reporting
from recoup.gateway.console import run as pages
from recoup.gateway.house import House
from recoup.gateway.limits import REPORTS_MAX
from recoup.ledger.sqlite import SqliteLedger
from recoup.testing.ledger_suite import facts, into, submitted

MANY = 20_000
TINY = "{version: 1, name: tiny, steps: [{id: a, run: 'true'}]}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("states") / "home") as made:
        yield made


async def held_up_s(work: Coroutine[Any, Any, Any]) -> tuple[float, float]:
    """Of the loop's own processor time: how much at most without a turn for others, and how much in all."""
    began_s = last_s = time.thread_time()
    longest_s, task = 0.0, asyncio.create_task(work)
    while not task.done():
        await asyncio.sleep(0)
        now_s = time.thread_time()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
    await task
    return longest_s, last_s - began_s


async def test_a_long_run_is_folded_page_by_page_and_once(tmp_path: Path) -> None:
    async with housed(tmp_path) as (house, app):
        await app.ledger.append(facts(into("run:r", submitted())))
        await write(app.ledger, "r", MANY)
        longest_s, whole_s = await held_up_s(house.states.state("r"))
        assert longest_s < whole_s / 2
        _, again_s = await held_up_s(house.states.state("r"))
        assert again_s < whole_s / 4
        assert (await house.states.state("r")).seq == MANY + 1
        await write(app.ledger, "r", 1)
        assert (await house.states.state("r")).seq == MANY + 2
        with pytest.raises(NotFound):
            await house.states.state("none")


async def test_whoever_looks_at_a_long_run_again_waits_only_for_what_came_since(served: Gateway) -> None:
    short, long = (served.submit(TINY, queue="nobody") for _ in range(2))
    ledger = SqliteLedger(served.home / "ledger.db")
    await write(ledger, long, MANY)
    await ledger.close()
    with served.client() as client:
        looks_s(client, short)  # what is loaded at the first look is
        first_s, *others_s = looks_s(client, long)
    assert max(others_s) < first_s / 2, "measured: a twentieth"


def looks_s(client: httpx2.Client, run_id: str) -> list[float]:
    took_s = []
    for path in ("", "/steps", "/controls", "/logs/a", "/patches/a", "/attempts/a/1", ""):
        began_s = time.monotonic()
        assert client.get(f"/api/runs/{run_id}{path}").status_code in (200, 404), path
        took_s.append(time.monotonic() - began_s)
    return took_s


def asking(house: House) -> Request:
    app = type("Served", (), {"state": type("State", (), {"house": house})})
    return Request({"type": "http", "app": app, "headers": [], "query_string": b"", "path": "/"})


async def test_reports_for_people_are_made_a_few_at_once_as_those_for_programs(tmp_path: Path) -> None:
    async with housed(tmp_path) as (house, app):
        await app.ledger.append(facts(into("run:r", submitted())))
        async with asyncio.timeout(20):
            for _ in range(REPORTS_MAX):
                await house.reporting.acquire()
            waits = [
                asyncio.create_task(pages.report(asking(house), "r")),
                asyncio.create_task(
                    pages._timeline(asking(house), app, await house.states.state("r")),
                ),
            ]
            done, _ = await asyncio.wait(waits, timeout=0.3)
            assert not done
            for _ in range(REPORTS_MAX):
                house.reporting.release()
            await asyncio.gather(*waits)
            async with reporting(house, "r"):
                assert not house.reporting.locked()
