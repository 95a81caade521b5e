"""A run with very many events, which somebody looks at: nobody else waits for that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from starlette.requests import Request
from tests.integration.gateway_house import Gateway, gateway
from tests.integration.near_gateway import near_gateway
from tests.integration.stream_house import write
from tests.integration.test_gateway_approvals import housed

from recoup.errors import NotFound
from recoup.gateway.console import run as pages
from recoup.gateway.house import House
from recoup.gateway.limits import REPORTS_MAX
from recoup.kernel.fold import fold
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.events import Event, RunCancelled
from recoup.model.instant import Instant
from recoup.model.policy import Policy
from recoup.model.run import RunStatus
from recoup.ports import Ledger
from recoup.testing.ledger_suite import facts, into, submitted

MANY = 20_000
AT = Instant(0, 0, "boot")
TINY = "{version: 1, name: tiny, steps: [{id: a, run: 'true'}]}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("states") / "home") as made:
        yield made


class Reads:
    """What was read of a ledger: how many events at a time, and how often others had had their turn by then."""

    def __init__(self, ledger: Ledger) -> None:
        self._read = ledger.read
        self._turns = 0
        self.pages: list[tuple[int, int]] = []

    async def read(self, stream: str, after: int = 0, limit: int = 10_000) -> list[Event]:
        events = await self._read(stream, after, limit)
        self.pages.append((len(events), self._turns))
        return events

    async def of(self, work: Coroutine[Any, Any, Any]) -> list[tuple[int, int]]:
        self.pages, task = [], asyncio.create_task(work)
        while not task.done():
            await asyncio.sleep(0)
            self._turns += 1
        await task
        return self.pages


async def test_a_long_run_is_folded_page_by_page_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with housed(tmp_path) as (house, app):
        await app.ledger.append(facts(into("run:r", submitted())))
        await write(app.ledger, "r", MANY)
        reads = Reads(app.ledger)
        monkeypatch.setattr(app.ledger, "read", reads.read)
        pages = await reads.of(house.states.state("r"))
        assert sum(count for count, _ in pages) == MANY + 1
        assert max(count for count, _ in pages) <= MANY / 10
        assert all(earlier < later for (_, earlier), (_, later) in pairwise(pages)), "others waited for two"
        assert [count for count, _ in await reads.of(house.states.state("r"))] == [0]
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
        first_s, *_ = looks_s(client, long)
        again_s = [min(times_s) for times_s in zip(*(looks_s(client, long) for _ in range(3)), strict=True)]
    assert max(again_s) < first_s / 2, "measured: a twentieth"


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
            offered = pages.Offered(driven=True, policy=Policy(), may_change=False)
            waits = [
                asyncio.create_task(pages.report(asking(house), "r")),
                asyncio.create_task(
                    pages._timeline(asking(house), app, await house.states.state("r"), offered),
                ),
            ]
            done, _ = await asyncio.wait(waits, timeout=0.3)
            assert not done
            for _ in range(REPORTS_MAX):
                house.reporting.release()
            await asyncio.gather(*waits)
            assert not house.reporting.locked()


# What was handed out


async def test_a_state_that_was_handed_out_does_not_change_when_the_run_goes_on(tmp_path: Path) -> None:
    async with housed(tmp_path) as (house, app):
        await app.ledger.append(facts(into("run:r", submitted())))
        await write(app.ledger, "r", 3)
        first = await house.states.state("r")
        before = msgspec.json.encode(first)
        await write(app.ledger, "r", 3)
        second, third = await asyncio.gather(house.states.state("r"), house.states.state("r"))
        assert msgspec.json.encode(first) == before, "a page may still be made of it"
        assert second.seq == third.seq == first.seq + 3
        assert second == fold("r", await app.ledger.read("run:r"))


async def test_a_page_that_waits_between_its_parts_shows_one_moment_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with near_gateway(tmp_path) as near:
        plan = "{version: 1, name: p, steps: [{id: a, run: 'true'}]}"
        answer = await near.post("/api/runs", {"plan": plan, "queue": "nobody"})
        run_id = answer.json()["runId"]
        seen, go = asyncio.Event(), asyncio.Event()
        family = near.app.ledger.family

        async def slowly(asked: str) -> list[str]:
            seen.set()
            await go.wait()
            return await family(asked)

        monkeypatch.setattr(near.app.ledger, "family", slowly)
        page = asyncio.create_task(near.get(f"/runs/{run_id}"))
        await seen.wait()
        await near.keep(f"run:{run_id}", RunCancelled(reason="enough", actor="ada"))
        assert (await near.house.states.state(run_id)).status is RunStatus.CANCELLED
        go.set()
        html = (await page).text
        assert 'badge plain">cancelled' not in html, "the page is of the moment before"
