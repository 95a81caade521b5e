"""`/metrics` for Prometheus: one page, for whoever may reach the port."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

_REQUEST_BYTES_MAX = 8_192
_REQUEST_S = 5.0
_AT_ONCE_MAX = 16
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


async def serve_metrics(render: Callable[[], bytes], host: str, port: int) -> asyncio.Server:
    """Answers GET /metrics and nothing else; rendered in a thread, so that nobody's work waits for it."""
    room = asyncio.Semaphore(_AT_ONCE_MAX)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(
            OSError, TimeoutError, asyncio.LimitOverrunError, asyncio.IncompleteReadError
        ):
            async with asyncio.timeout(_REQUEST_S), room:
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _response(head, render))
                await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, host, port, limit=_REQUEST_BYTES_MAX)


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
