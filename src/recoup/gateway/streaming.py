"""Server-sent events. What is sent is what the ledger holds behind a place, so nothing is kept for a client: one that
comes back says what it saw last (`Last-Event-ID`), and one that does not read is dropped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from recoup.errors import LedgerError
from recoup.gateway.batches import Batch, message
from recoup.gateway.house import House
from recoup.gateway.problems import Refused
from recoup.gateway.routing import is_still_admitted
from recoup.operations.tail import Watch

STILL_HERE_S: Final = 15.0
STREAM_S_MAX: Final = 3_600.0
"""Then the client connects again."""
ADMITTED_S: Final = 1.0
"""So long nobody asks again whether the client may still look, and not before there is something to send."""
MEDIA: Final = "text/event-stream"
_STILL_HERE: Final = b": still here\n\n"
_AGAIN: Final = b"retry: 1000\n\n"


Look = Callable[[int], Awaitable[Batch]]
"""What there is behind a place."""
Still = Callable[[], bool]
"""Whether the client may still look."""


class EventStream(Response):
    """Sends what is new whenever it is woken."""

    media_type = MEDIA

    def __init__(
        self,
        house: House,
        watch: Watch,
        look: Look,
        after: int | None,
        *,
        pace_s: float = 0.0,
        still: Still = lambda: True,
    ) -> None:
        """`after` None: from now on. `pace_s`: so long it collects what comes meanwhile."""
        super().__init__(None, 200, {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}, MEDIA)
        del self.headers["content-length"]
        self._house = house
        self._watch = watch
        self._look = look
        self._after = after
        self._place = after or 0
        self._pace_s = pace_s
        self._still = still
        self._asked_s = -ADMITTED_S
        self._admitted = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token_id = scope["state"]["principal"].token_id
        self._house.enter_stream(token_id)
        try:
            async with self._house.tail.watched(self._watch):
                gone = asyncio.create_task(_gone(receive))
                gone.add_done_callback(lambda _gone: self._watch.woken.set())
                try:
                    await self._write(send, gone)
                finally:
                    gone.cancel()
                    await asyncio.gather(gone, return_exceptions=True)
        finally:
            self._house.leave_stream(token_id)

    async def _write(self, send: Send, gone: asyncio.Task[None]) -> None:
        """A client that does not read holds up nobody but itself: its connection is cut (connections.py)."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await _send(send, _AGAIN + self._begin())
        until_s = time.monotonic() + STREAM_S_MAX
        while not gone.done() and not self._house.stopping() and time.monotonic() < until_s:
            self._watch.woken.clear()
            try:
                batch = await self._look(self._place)
            except LedgerError:
                break  # the client comes back, and is told then if that lasts
            if (batch.body or batch.over) and not self._may_look():
                break
            if batch.body:
                self._place = batch.place
                await _send(send, batch.body)
                if self._pace_s:
                    await asyncio.sleep(self._pace_s)
            elif batch.over:
                await _send(send, message(self._place, "end", {}))
                break
            elif not await self._watch.wait(STILL_HERE_S):
                if not self._may_look():
                    break
                await _send(send, self._still_here())
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _may_look(self) -> bool:
        """Of tokens and sessions: they end while streams go on."""
        now_s = time.monotonic()
        if now_s - self._asked_s >= ADMITTED_S:
            self._asked_s, self._admitted = now_s, self._still()
        return self._admitted

    def _begin(self) -> bytes:
        """Who begins now is told where that is: they come back there, even if nothing was sent since."""
        if self._after is not None:
            return b""
        self._place = self._house.tail.ring.head
        return message(self._place, "place", {})

    def _still_here(self) -> bytes:
        """Whoever sees only a part of what comes learns where the rest is, and need not come back far behind it."""
        head = self._house.tail.ring.head
        if not self._pace_s or head <= self._place:
            return _STILL_HERE
        self._place = head
        return message(head, "place", {})


async def stream(
    request: Request,
    house: House,
    watch: Watch,
    look: Look,
    after: int | None = 0,
    *,
    pace_s: float = 0.0,
) -> Response:
    """From `Last-Event-ID`, else from `after`. 204 tells a client that came back that nothing will follow."""
    said = request.headers.get("Last-Event-ID")
    begin = _place(said) if said is not None else after
    if said is not None:
        first = await look(_place(said))
        if first.over and not first.body:
            return Response(None, 204)
    return EventStream(
        house, watch, look, begin, pace_s=pace_s, still=lambda: is_still_admitted(house, request)
    )


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


def _place(said: str) -> int:
    if not (said.isascii() and said.isdigit() and len(said) < 19):
        raise Refused(400, "Last-Event-ID is none of ours", "Leave it out to begin at the beginning.")
    return int(said)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
