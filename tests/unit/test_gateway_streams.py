"""Streams and their clients: none is waited for, none is sent anything twice, and there is a limit on them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from recoup.gateway.house import House
from recoup.gateway.limits import STREAMS_MAX
from recoup.gateway.problems import Refused
from recoup.gateway.streaming import Batch, EventStream, Message

NOTHING: Any = {}


def a_house(send_s_max: float = 5.0) -> House:
    return House(cast(Any, None), cast(Any, None), send_s_max=send_s_max)


async def endless(place: int) -> Batch:
    return Batch((Message(place + 1, "tick", NOTHING),))


async def never() -> Any:
    await asyncio.Event().wait()


async def test_a_client_that_does_not_read_is_dropped_and_makes_room() -> None:
    house, taken = a_house(send_s_max=0.05), []

    async def send(message: Any) -> None:
        taken.append(message)
        if len(taken) > 3:
            await never()

    async with asyncio.timeout(5):
        await EventStream(house, endless, 0)(NOTHING, never, send)
    assert len(taken) == 4
    assert not any(message.get("more_body") is False for message in taken), "it did not end: it was cut"
    assert house.streams == 0


async def test_a_client_that_goes_is_not_written_to_any_more() -> None:
    house, gone = a_house(), asyncio.Event()
    taken = []

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        taken.append(message)
        await asyncio.sleep(0)
        if len(taken) == 10:
            gone.set()

    async with asyncio.timeout(5):
        await EventStream(house, endless, 0)(NOTHING, receive, send)
    assert 10 <= len(taken) < 20
    assert house.streams == 0


async def test_a_stream_that_is_over_says_so_and_ends() -> None:
    async def look(place: int) -> Batch:
        return Batch((Message(7, "last", {"a": "b\nc"}),)) if place < 7 else Batch(over=True)

    taken: list[bytes] = []

    async def send(message: Any) -> None:
        taken.append(message.get("body", b""))

    async with asyncio.timeout(5):
        await EventStream(a_house(), look, 0)(NOTHING, never, send)
    text = b"".join(taken).decode()
    assert text == 'retry: 1000\n\nid: 7\nevent: last\ndata: {"a":"b\\nc"}\n\nid: 7\nevent: end\ndata: {}\n\n'


async def test_a_stream_ends_when_the_server_does() -> None:
    house = a_house()
    house.stopping = lambda: True
    taken = []

    async def send(message: Any) -> None:
        taken.append(message)

    async with asyncio.timeout(5):
        await EventStream(house, endless, 0)(NOTHING, never, send)
    assert taken[-1]["more_body"] is False


async def test_there_is_a_limit_on_streams() -> None:
    house = a_house()
    for _ in range(STREAMS_MAX):
        house.enter_stream()
    with pytest.raises(Refused, match="limit"):
        await EventStream(house, endless, 0)(NOTHING, never, cast(Any, None))
    house.leave_stream()
    house.enter_stream()
