"""A dialog in messages of JSON-RPC 2.0: the other side is there as long as it answers a ping, with whatever it says."""

from __future__ import annotations

import asyncio
import os
from typing import Final

import msgspec

from recoup.probe.kinds.links.link import Lost
from recoup.probe.kinds.links.websocket import WebsocketLink

METHOD: Final = "ping"
"""The Model Context Protocol's. Who does not know it answers with an error, which is an answer too."""


class Pings:
    """Questions that are out, by their id."""

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Event] = {}

    def ask(self) -> tuple[str, bytes]:
        """The id, and the message to be sent."""
        ping_id = f"recoup-{os.urandom(6).hex()}"
        self._asked[ping_id] = asyncio.Event()
        return ping_id, msgspec.json.encode({"jsonrpc": "2.0", "id": ping_id, "method": METHOD})

    async def answer(self, ping_id: str) -> None:
        """Returns when it has come; is cancelled when that takes too long."""
        try:
            await self._asked[ping_id].wait()
        finally:
            del self._asked[ping_id]

    def forget(self, ping_id: str) -> None:
        self._asked.pop(ping_id, None)

    def hear(self, message: bytes) -> None:
        """Any message of the dialog; all but answers to pings are passed by."""
        if not self._asked:
            return
        try:
            said = msgspec.json.decode(message)
        except msgspec.DecodeError:
            return
        ping_id = said.get("id") if isinstance(said, dict) and "method" not in said else None
        if isinstance(ping_id, str) and ping_id in self._asked:
            self._asked[ping_id].set()


class WebsocketDialogLink:
    """A dialog over a WebSocket. Without `pings` the connection's own ping must do."""

    def __init__(self, url: str, lost: Lost, *, pings: bool) -> None:
        self._pings = Pings() if pings else None
        self._socket = WebsocketLink(url, lost, self._pings.hear if self._pings else lambda _text: None)

    @property
    def shown(self) -> str:
        return self._socket.shown

    async def open(self) -> None:
        await self._socket.open()
        await self.look()

    async def look(self) -> None:
        if self._pings is None:
            await self._socket.look()
            return
        ping_id, message = self._pings.ask()
        try:
            self._socket.say(message)
            await self._pings.answer(ping_id)
        finally:
            self._pings.forget(ping_id)

    async def close(self) -> None:
        await self._socket.close()
