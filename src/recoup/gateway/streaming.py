"""Server-sent events. What is sent is read from the ledger by cursor, so nothing is kept for a client: one that comes
back says what it saw last (`Last-Event-ID`), and one that does not read is dropped."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from recoup.gateway.house import House
from recoup.gateway.problems import Refused

POLL_S: Final = 0.25
STILL_HERE_S: Final = 15.0
STREAM_S_MAX: Final = 3_600.0
"""Then the client connects again."""
MEDIA: Final = "text/event-stream"
_STILL_HERE: Final = b": still here\n\n"
_AGAIN: Final = b"retry: 1000\n\n"


class Message(msgspec.Struct, frozen=True):
    """One event for the client; `id` is where to go on from."""

    id: int
    event: str
    data: Any

    def encoded(self) -> bytes:
        body = msgspec.json.encode(self.data)
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self.id, self.event.encode(), body)


class Batch(msgspec.Struct, frozen=True):
    """What came since; `over`: nothing will come any more."""

    messages: tuple[Message, ...] = ()
    over: bool = False


Look = Callable[[int], Awaitable[Batch]]
"""What there is behind a place."""


class EventStream(Response):
    """Looks again and again, and sends what is new."""

    media_type = MEDIA

    def __init__(self, house: House, look: Look, after: int) -> None:
        super().__init__(None, 200, {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}, MEDIA)
        del self.headers["content-length"]
        self._house = house
        self._look = look
        self._after = after

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        self._house.enter_stream()
        gone = asyncio.create_task(_gone(receive))
        writing = asyncio.create_task(self._write(send))
        try:
            await asyncio.wait({gone, writing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            writing.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            self._house.leave_stream()
        with contextlib.suppress(
            asyncio.CancelledError, TimeoutError
        ):  # gone, or it does not read: it may come back
            await writing

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for chunk in self._chunks():
            async with asyncio.timeout(self._house.send_s_max):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _chunks(self) -> AsyncIterator[bytes]:
        yield _AGAIN
        begun_s = quiet_since_s = time.monotonic()
        while not self._house.stopping() and time.monotonic() - begun_s < STREAM_S_MAX:
            batch = await self._look(self._after)
            if batch.messages:
                self._after = batch.messages[-1].id
                quiet_since_s = time.monotonic()
                yield b"".join(message.encoded() for message in batch.messages)
            elif batch.over:
                yield Message(self._after, "end", {}).encoded()
                return
            elif time.monotonic() - quiet_since_s > STILL_HERE_S:
                quiet_since_s = time.monotonic()
                yield _STILL_HERE
            if not batch.messages:
                await asyncio.sleep(POLL_S)


async def stream(request: Request, house: House, look: Look, after: int | None) -> Response:
    """From `Last-Event-ID`, else from `after`. 204 tells a client that came back that nothing will follow."""
    said = request.headers.get("Last-Event-ID")
    begin = _place(said) if said is not None else after or 0
    if said is not None:
        first = await look(begin)
        if first.over and not first.messages:
            return Response(None, 204)
    return EventStream(house, look, begin)


def _place(said: str) -> int:
    if not (said.isascii() and said.isdigit() and len(said) < 19):
        raise Refused(400, "Last-Event-ID is none of ours", "Leave it out to begin at the beginning.")
    return int(said)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
