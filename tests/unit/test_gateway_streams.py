"""Streams and their clients: none is waited for, none is sent anything twice, and there is a limit on them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.integration.stream_house import write

from recoup.gateway.access import Principal, Role
from recoup.gateway.batches import Batch, message
from recoup.gateway.house import House
from recoup.gateway.limits import STREAMS_MAX
from recoup.gateway.problems import Refused
from recoup.gateway.streaming import ADMITTED_S, EventStream
from recoup.gateway.streams import events_behind
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.redacted import Redacted
from recoup.model.storage import Arrival
from recoup.operations.tail import RING_EVENTS_MAX, Ring, Watch
from recoup.testing.ledger_suite import START, seal

NOTHING: Any = {}
ASKED: Any = {"state": {"principal": Principal("tok-1", "ada", Role.VIEWER)}}


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    yield House(cast(Any, SimpleNamespace(ledger=ledger)), cast(Any, None))
    await ledger.close()


async def endless(place: int) -> Batch:
    return Batch(message(place + 1, "tick", NOTHING), place + 1)


async def never() -> Any:
    await asyncio.Event().wait()


async def test_a_client_that_goes_is_not_written_to_any_more(house: House) -> None:
    gone = asyncio.Event()
    taken = []

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        taken.append(message)
        await asyncio.sleep(0)
        if len(taken) == 10:
            gone.set()

    async with asyncio.timeout(60):
        await EventStream(house, Watch(), endless, 0)(ASKED, receive, send)
    assert 10 <= len(taken) < 20
    assert not house.streams


async def test_a_stream_that_is_over_says_so_and_ends(house: House) -> None:
    async def look(place: int) -> Batch:
        return Batch(message(7, "last", {"a": "b\nc"}), 7) if place < 7 else Batch(over=True)

    taken: list[bytes] = []

    async def send(message: Any) -> None:
        taken.append(message.get("body", b""))

    async with asyncio.timeout(60):
        await EventStream(house, Watch(), look, 0)(ASKED, never, send)
    text = b"".join(taken).decode()
    assert text == 'retry: 1000\n\nid: 7\nevent: last\ndata: {"a":"b\\nc"}\n\nid: 7\nevent: end\ndata: {}\n\n'


async def test_a_stream_ends_when_the_server_does(house: House) -> None:
    house.stopping = lambda: True
    taken = []

    async def send(message: Any) -> None:
        taken.append(message)

    async with asyncio.timeout(60):
        await EventStream(house, Watch(), endless, 0)(ASKED, never, send)
    assert taken[-1]["more_body"] is False


async def test_a_busy_stream_asks_once_a_second_whether_its_client_may_look_and_ends_when_not(
    house: House,
) -> None:
    answers = [True, False]

    async def send(_message: Any) -> None:
        await asyncio.sleep(0.001)

    began_s = time.monotonic()
    async with asyncio.timeout(60):
        await EventStream(house, Watch(), endless, 0, still=lambda: answers.pop(0))(ASKED, never, send)
    assert not answers and time.monotonic() - began_s >= ADMITTED_S


async def test_there_is_a_limit_on_streams(house: House) -> None:
    for number in range(STREAMS_MAX):
        house.enter_stream(f"tok-{number}")
    with pytest.raises(Refused, match="limit"):
        await EventStream(house, Watch(), endless, 0)(ASKED, never, cast(Any, None))
    house.leave_stream("tok-0")
    house.enter_stream("tok-0")


async def test_a_run_is_not_said_to_be_over_before_its_last_event_was_told(house: House) -> None:
    """Its end is known by the ledger, and the tail has not come so far."""
    await write(house.app.ledger, "a", 2)
    watch = Watch("run:a")
    async with house.tail.watched(watch):
        watch.latest = 1
        batch = await events_behind(house, watch, "run:a", 1, over_at=2)
        assert batch.place == 2 and batch.body.startswith(b"id: 2\n") and not batch.over
        assert (await events_behind(house, watch, "run:a", 2, over_at=2)).over
        assert (await events_behind(house, watch, "run:a", 2, over_at=3)).over, "the rest was forgotten"
        assert not (await events_behind(house, watch, "run:a", 2, over_at=None)).over


def arrivals(first: int, count: int, stream: str = "run:a", words: str = "") -> list[Arrival]:
    payload: Redacted = seal({"words": words})
    return [Arrival(n, stream, n, START, "noted", payload) for n in range(first, first + count)]


def test_the_ring_is_bounded_and_says_what_it_does_not_have() -> None:
    ring = Ring()
    for first in range(1, 10 * RING_EVENTS_MAX, 500):
        ring.add(arrivals(first, 500))
    kept = ring.behind(ring.floor, 10 * RING_EVENTS_MAX)
    assert kept is not None and 0 < len(kept) <= RING_EVENTS_MAX
    assert [one.arrival.number for one in kept] == list(range(ring.floor + 1, ring.head + 1))
    assert ring.behind(ring.floor - 1, 1) is None
    assert ring.of_stream("run:a", ring.floor - 1, 1) is None
    found = ring.of_stream("run:a", ring.floor, 3)
    assert found is not None and [one.arrival.seq for one in found] == [ring.floor + n for n in (1, 2, 3)]
    assert ring.of_stream("run:b", 0, 1) is None


def test_the_ring_is_bounded_in_bytes_too() -> None:
    ring = Ring()
    for first in range(1, 41):
        ring.add(arrivals(first, 1, words="x" * 1_000_000))
    kept = ring.behind(ring.floor, 100)
    assert kept is not None and len(kept) <= 8


async def test_who_is_woken_in_the_moment_in_which_the_wait_ends_was_woken() -> None:
    """Or a place would be told behind an event that was not."""
    watch = Watch()
    waiting = asyncio.create_task(watch.wait(0.01))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.01, watch.woken.set)
    time.sleep(0.05)  # noqa: ASYNC251 - both are due when the loop looks again
    assert await waiting


async def test_one_token_leaves_streams_for_others(house: House) -> None:
    house.streams_max = 12
    for _ in range(10):
        house.enter_stream("tok-1")
    with pytest.raises(Refused, match="this token has 10 streams open"):
        house.enter_stream("tok-1")
    for _ in range(2):
        house.enter_stream("tok-2")
    with pytest.raises(Refused, match="12 streams are open"):
        house.enter_stream("tok-3")
    house.leave_stream("tok-1")
    house.enter_stream("tok-1")
