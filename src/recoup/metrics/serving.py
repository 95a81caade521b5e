"""`/metrics` for Prometheus: one page, for whoever may reach the port."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from recoup.errors import SettingsError

_REQUEST_BYTES_MAX = 8_192
_REQUEST_S = 5.0
_AT_ONCE_MAX = 32
_ACCEPTED_IN_ONE_GO_MAX = 100
_REST_S = 0.5
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


async def serve_metrics(render: Callable[[], bytes], host: str, port: int) -> MetricsServer:
    """Answers GET /metrics and nothing else; rendered in a thread, so that nobody's work waits for it."""
    if find_spec("prometheus_client") is None:
        raise SettingsError(
            "serving /metrics needs the package prometheus_client", hint="pip install 'recoup[metrics]'"
        )
    return MetricsServer(render, await _listening(host, port))


class MetricsServer:
    """Whoever comes while there is no room is let in and shown out at once: every connection takes a descriptor that
    the work may need. asyncio's own server counts nobody, and writes a hundred lines into the log for every second
    in which no descriptor is left."""

    def __init__(self, render: Callable[[], bytes], sockets: Sequence[socket.socket]) -> None:
        self.sockets: Sequence[socket.socket] = sockets
        self._render = render
        self._answering: set[asyncio.Task[None]] = set()
        self._resting: dict[socket.socket, asyncio.TimerHandle] = {}
        for one in sockets:
            self._listen(one)

    def close(self) -> None:
        loop = asyncio.get_running_loop()
        sockets, self.sockets = self.sockets, ()
        for one in sockets:
            loop.remove_reader(one)
            one.close()
        for handle in self._resting.values():
            handle.cancel()
        for task in self._answering:
            task.cancel()

    def _listen(self, listening: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_IN_ONE_GO_MAX):
            try:
                connection, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._rest(listening)
                return
            self._admit(connection)

    def _rest(self, listening: socket.socket) -> None:
        """No descriptor is left, probably: it would be told of the same one who waits at every turn of the loop."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._resting[listening] = loop.call_later(_REST_S, self._listen, listening)

    def _admit(self, connection: socket.socket) -> None:
        if len(self._answering) >= _AT_ONCE_MAX:
            connection.close()
            return
        connection.setblocking(False)
        task = asyncio.create_task(_answer(connection, self._render), name="recoup-metrics-page")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        # One that is cancelled before it begins closes nothing.
        task.add_done_callback(lambda _: connection.close())


async def _listening(host: str, port: int) -> list[socket.socket]:
    """On every address that the name stands for."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
    )
    with contextlib.ExitStack() as made:
        sockets = []
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            sockets.append(made.enter_context(socket.create_server(address, family=family)))
            sockets[-1].setblocking(False)
        made.pop_all()
    return sockets


async def _answer(connection: socket.socket, render: Callable[[], bytes]) -> None:
    with contextlib.suppress(OSError):
        async with asyncio.timeout(_REQUEST_S):
            head = await _head(connection)
            if head:
                await asyncio.get_running_loop().sock_sendall(connection, await _response(head, render))


async def _head(connection: socket.socket) -> bytes:
    """Empty: there is none, or none of a size that is known from those who scrape."""
    head = b""
    while b"\r\n\r\n" not in head:
        chunk = await asyncio.get_running_loop().sock_recv(connection, _REQUEST_BYTES_MAX)
        head += chunk
        if not chunk or len(head) > _REQUEST_BYTES_MAX:
            return b""
    return head


async def _response(head: bytes, render: Callable[[], bytes]) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _page("405 Method Not Allowed", b"only GET\n", method)
    if path != b"/metrics":
        return _page("404 Not Found", b"see /metrics\n", method)
    return _page("200 OK", await asyncio.to_thread(render), method)


def _page(status: str, body: bytes, method: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {_TEXT}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + (b"" if method == b"HEAD" else body)
