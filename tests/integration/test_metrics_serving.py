"""The page for Prometheus over real sockets, while many come and descriptors run out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from recoup.metrics.serving import MetricsServer, serve_metrics

ROOM = 32
PAGE = b"recoup_up 1\n"
GET = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"


@pytest.fixture
async def server() -> AsyncIterator[MetricsServer]:
    one = await serve_metrics(lambda: PAGE, "127.0.0.1", 0)
    yield one
    one.close()


async def ask(server: MetricsServer, request: bytes = GET) -> bytes:
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(request)
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
        return answer
    writer.close()
    return b""


def descriptors() -> list[int]:
    return [int(each.name) for each in Path("/proc/self/fd").iterdir()]


async def come(server: MetricsServer) -> socket.socket:
    one = socket.socket()
    one.setblocking(False)
    await asyncio.get_running_loop().sock_connect(one, server.sockets[0].getsockname())
    return one


async def is_shown_out(one: socket.socket, within_s: float = 60.0) -> bool:
    try:
        async with asyncio.timeout(within_s):
            return await asyncio.get_running_loop().sock_recv(one, 1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


async def eventually(server: MetricsServer) -> bytes:
    async with asyncio.timeout(20):
        while not (answer := await ask(server)):
            await asyncio.sleep(0.05)
    return answer


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /metrics", b"200 OK"),
        (b"GET /metrics?a=b", b"200 OK"),
        (b"HEAD /metrics", b"200 OK"),
        (b"GET /", b"404 Not Found"),
        (b"POST /metrics", b"405 Method Not Allowed"),
    ],
)
async def test_one_page_is_answered_and_nothing_else(
    server: MetricsServer, request_line: bytes, status: bytes
) -> None:
    answer = await ask(server, request_line + b" HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.endswith(PAGE) == (request_line.startswith(b"GET") and status.startswith(b"200"))


async def test_a_request_in_pieces_is_answered_and_an_endless_one_is_not(server: MetricsServer) -> None:
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    for piece in (GET[:5], GET[5:-1], GET[-1:]):
        writer.write(piece)
        await asyncio.sleep(0.01)
    assert (await reader.read()).endswith(PAGE)
    writer.close()
    assert await ask(server, b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 2_000) == b""


async def test_so_many_are_let_in_at_once_and_the_others_shown_out(server: MetricsServer) -> None:
    before = len(descriptors())
    idle = [await come(server) for _ in range(ROOM)]
    await asyncio.sleep(0.05)
    late = [await come(server) for _ in range(100)]
    assert all(await asyncio.gather(*map(is_shown_out, late)))
    assert len(descriptors()) - before <= len(idle) + len(late) + ROOM
    assert not any(await asyncio.gather(*(is_shown_out(one, 0.1) for one in idle))), "these may still ask"
    for one in (*idle, *late):
        one.close()
    assert (await eventually(server)).endswith(PAGE)


async def test_who_asks_nothing_and_who_does_not_read_are_left_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("recoup.metrics.serving._REQUEST_S", 0.2)
    server = await serve_metrics(lambda: b"x" * 20_000_000, "127.0.0.1", 0)
    silent, deaf = await come(server), await come(server)
    await asyncio.get_running_loop().sock_sendall(deaf, GET)
    before = len(descriptors())
    assert await is_shown_out(silent)
    async with asyncio.timeout(60):
        while len(descriptors()) > before - 2:
            await asyncio.sleep(0.02)
    for one in (silent, deaf):
        one.close()
    server.close()


async def test_without_descriptors_it_rests_says_nothing_and_goes_on_later(
    server: MetricsServer, caplog: pytest.LogCaptureFixture
) -> None:
    clients = [socket.socket() for _ in range(3)]
    with no_descriptor_left():
        for client in clients:
            client.setblocking(False)
            client.connect_ex(server.sockets[0].getsockname())
        await asyncio.sleep(0.3)
    assert not caplog.records
    assert (await eventually(server)).endswith(PAGE)
    for client in clients:
        client.close()


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(descriptors())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 5, hard))
    filling: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                filling.append(os.dup(0))
        yield
    finally:
        for number in filling:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_closing_ends_the_listening_and_those_who_are_in(server: MetricsServer) -> None:
    one = await come(server)
    await asyncio.sleep(0.05)
    address = server.sockets[0].getsockname()
    server.close()
    assert await is_shown_out(one, 5)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)
    one.close()
