"""A WebSocket (RFC 6455), seen from the client: handshake, ping, the end. Messages are read and handed on or forgotten.

Of the protocol this is the little that watching needs; it takes no package that Recoup does not have already.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, urlsplit

from recoup.probe.kinds.links.http import connect_to, read_head, shown, target_of
from recoup.probe.kinds.links.link import Broken, Lost, trouble_in

CHUNK_BYTES: Final = 64 << 10
MESSAGE_BYTES_MAX: Final = (64 << 10) - 1
"""Longer ones are read and forgotten."""
_KEY_SUFFIX: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA
_FIN, _MASKED = 0x80, 0x80


class WebsocketLink:
    """Alive while its pings are answered."""

    def __init__(self, url: str, lost: Lost, heard: Callable[[bytes], None] = lambda _text: None) -> None:
        self._url = urlsplit(url)
        self.shown = shown(self._url)
        self._lost = lost
        self._heard = heard
        self._writer: asyncio.StreamWriter | None = None
        self._watching: asyncio.Task[None] | None = None
        self._pongs: dict[bytes, asyncio.Event] = {}

    async def open(self) -> None:
        assert self._writer is None, "one connection at a time"
        reader, self._writer = await connect_to(self._url)
        await self._shake_hands(reader, self._writer)
        self._watching = asyncio.create_task(self._watch(reader))

    async def look(self) -> None:
        self._check_open()
        mark = os.urandom(8)
        self._pongs[mark] = answered = asyncio.Event()
        try:
            self._send(_PING, mark)
            await answered.wait()
        finally:
            del self._pongs[mark]

    async def close(self) -> None:
        writer, watching, self._writer, self._watching = self._writer, self._watching, None, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait({watching})
        if writer is not None:
            writer.transport.abort()

    def say(self, text: bytes) -> None:
        """One message. Raises Broken when the connection is closed."""
        self._check_open()
        self._send(_TEXT, text)

    def _check_open(self) -> None:
        if self._watching is None or self._watching.done():
            raise Broken("the connection is closed", "closed")

    async def _shake_hands(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        key = base64.b64encode(os.urandom(16))
        writer.write(_request(self._url, key))
        status, headers = await read_head(reader)
        if status != 101:
            raise Broken(f"no WebSocket there, but status {status}", f"http_{status}")
        proof = base64.b64encode(hashlib.sha1(key + _KEY_SUFFIX, usedforsecurity=False).digest()).decode()
        if headers.get("sec-websocket-accept") != proof:
            raise Broken("its handshake is not a WebSocket's", "bad_handshake")

    def _reads(self) -> bool:
        """Whoever asks and asks, and never reads the answers, gets no more of them."""
        return self._writer is not None and self._writer.transport.get_write_buffer_size() < CHUNK_BYTES

    def _send(self, opcode: int, payload: bytes) -> None:
        assert self._writer is not None, "it is open"
        self._writer.write(frame(opcode, payload))

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        reason, code = "the other side has closed the connection", "closed"
        try:
            while await self._take_frame(reader):
                pass
        except asyncio.IncompleteReadError:
            pass
        except OSError as error:
            reason, code = trouble_in(error)
        self._lost(reason, code)

    async def _take_frame(self, reader: asyncio.StreamReader) -> bool:
        """False: it was the last one."""
        opcode, final, payload = await read_frame(reader)
        if opcode == _CLOSE:
            return False
        if opcode == _PING and self._reads():
            self._send(_PONG, payload)
        elif opcode == _PONG and payload in self._pongs:
            self._pongs[payload].set()
        elif opcode == _TEXT and final:
            self._heard(payload)
        return True


def frame(opcode: int, payload: bytes) -> bytes:
    """Of a client: masked, whole."""
    length, mask = len(payload), os.urandom(4)
    assert length <= MESSAGE_BYTES_MAX, "probes say little"
    short = length < 126
    size = bytes([_MASKED | length]) if short else bytes([_MASKED | 126]) + length.to_bytes(2, "big")
    return (
        bytes([_FIN | opcode])
        + size
        + mask
        + bytes(byte ^ mask[number % 4] for number, byte in enumerate(payload))
    )


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bool, bytes]:
    """Of a server: (opcode, is it the last of its message, payload). One that is too long has no payload here."""
    first, second = await reader.readexactly(2)
    length = second & 0x7F
    if length >= 126:
        length = int.from_bytes(await reader.readexactly(2 if length == 126 else 8), "big")
    if second & _MASKED:
        raise Broken("a server must not mask what it says", "bad_frame")
    opcode, final = first & 0x0F, bool(first & _FIN)
    if length <= MESSAGE_BYTES_MAX:
        return opcode, final, await reader.readexactly(length)
    while length > 0:
        length -= len(await reader.readexactly(min(length, CHUNK_BYTES)))
    return opcode, False, b""


def _request(url: SplitResult, key: bytes) -> bytes:
    host = url.netloc.rpartition("@")[2]
    words = (
        f"GET {target_of(url)} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key.decode()}\r\nSec-WebSocket-Version: 13\r\nUser-Agent: recoup-probe\r\n\r\n"
    )
    return words.encode("utf-8", "replace")
