"""An object store that misbehaves: a proxy before a real one, which can be told what to do wrong."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

REFUSALS = {
    "403": ("403 Forbidden", "AccessDenied"),
    "500": ("500 Internal Server Error", "InternalError"),
    "503": ("503 Slow Down", "SlowDown"),
}
FAULTS = (*REFUSALS, "hang", "cut", "truncate", "alter", "lose", "read-only")


@dataclass
class FaultyStore:
    """`fault` is done to every request until it is "" again."""

    port: int
    url: str = ""
    fault: str = ""
    once: str = ""
    done: int = 0
    """How many requests met a fault."""
    _loop: asyncio.AbstractEventLoop | None = None
    _hanging: list[asyncio.Event] = field(default_factory=list)

    def fault_once(self, fault: str) -> None:
        """To the next object that is read."""
        self.once = fault

    def heal(self) -> None:
        """Requests that hang are cut off, as by a store that was restarted."""
        self.fault = ""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._let_go)

    def _let_go(self) -> None:
        for event in self._hanging:
            event.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._answer(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"100-continue" in head.lower():
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(_length(head))
        method, fault = head.split(b" ", 1)[0].decode(), self.fault
        if method == "GET" and self.once:
            fault, self.once = self.once, ""
        self.done += bool(fault)
        writes = method in ("PUT", "POST", "DELETE")
        if fault == "hang":
            await self._hang()
        elif fault in REFUSALS or (fault == "read-only" and writes):
            writer.write(_refusal(*REFUSALS.get(fault, REFUSALS["403"])))
        elif fault == "lose" and method == "PUT":
            writer.write(b'HTTP/1.1 200 OK\r\nETag: "0"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
        else:
            writer.write(_damaged(await self._asked(head, body), fault if method == "GET" else ""))
        await writer.drain()

    async def _hang(self) -> None:
        event = asyncio.Event()
        self._hanging.append(event)
        await event.wait()

    async def _asked(self, head: bytes, body: bytes) -> bytes:
        """The real store's answer, up to its end."""
        lines = [
            line for line in head.split(b"\r\n") if not line.lower().startswith((b"connection:", b"expect:"))
        ]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"\r\n".join([*lines[:-2], b"Connection: close", b"", b""]) + body)
        answer = await reader.read(-1)
        writer.close()
        return answer


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _refusal(status: str, code: str) -> bytes:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


def _damaged(answer: bytes, fault: str) -> bytes:
    """`cut`: the connection ends in the middle of the body. `truncate`: the store believes that this is all of it."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if fault not in ("cut", "truncate", "alter") or b" 200 " not in head.split(b"\r\n")[0] or len(body) < 2:
        return answer
    half = body[: len(body) // 2]
    if fault == "cut":
        return head + b"\r\n\r\n" + half
    if fault == "truncate":
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length:")]
        return b"\r\n".join([*lines, b"Content-Length: %d" % len(half), b"", b""]) + half
    return head + b"\r\n\r\n" + half + bytes(byte ^ 1 for byte in body[len(half) :])


@contextlib.contextmanager
def faulty_store(port: int) -> Iterator[FaultyStore]:
    """Before the store on this port of the loopback interface. It serves from a thread of its own."""
    store, ready = FaultyStore(port), threading.Event()

    async def listen(stop: asyncio.Event) -> None:
        server = await asyncio.start_server(store.serve, "127.0.0.1", 0)
        store.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        await stop.wait()
        server.close()

    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    store._loop = loop

    def run() -> None:
        loop.run_until_complete(listen(stop))
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    try:
        yield store
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
