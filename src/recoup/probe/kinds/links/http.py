"""An HTTP connection that is kept alive: it is there as long as it answers.

What the answer says is for an `http` check to judge: a channel is the way there, not what is at its end.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final
from urllib.parse import SplitResult, urlsplit

from recoup.probe.kinds.links.link import Broken
from recoup.probe.kinds.links.stream import keep_alive

HEAD_BYTES_MAX: Final = 64 << 10
HEADERS_MAX: Final = 200
PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
SECURE: Final = ("https", "wss")


async def connect_to(url: SplitResult) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    assert url.hostname is not None, "the file's reader has seen to it"
    secure = ssl.create_default_context() if url.scheme in SECURE else None
    port = url.port or PORTS[url.scheme]
    reader, writer = await asyncio.open_connection(url.hostname, port, ssl=secure, limit=HEAD_BYTES_MAX)
    keep_alive(writer)
    return reader, writer


def target_of(url: SplitResult) -> str:
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


def shown(url: SplitResult) -> str:
    """Without what may be secret in it."""
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{url.hostname}{port}{url.path}"


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Status and headers, with lower-case names. Raises OSError."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        raise Broken("the connection was closed instead of an answer", "closed") from None
    except asyncio.LimitOverrunError:
        raise Broken("this is not HTTP", "not_http") from None
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(maxsplit=2)
    if (
        len(words) < 2
        or not words[0].startswith("HTTP/")
        or not words[1].isdigit()
        or len(lines) > HEADERS_MAX
    ):
        raise Broken("this is not HTTP", "not_http")
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if words[0] == "HTTP/1.0":
        headers.setdefault("connection", "close")
    return int(words[1]), headers


class HttpLink:
    """Asks HEAD, whose answers have no body, again and again on one connection."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self.shown = shown(self._url)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._broken: OSError | None = Broken("not open", "closed")
        """Until somebody opens it again: a look that fails is not followed by one that mends."""

    async def open(self) -> None:
        self._broken = Broken("not open", "closed")
        await self._connect()
        await self._ask()
        self._broken = None

    async def look(self) -> None:
        if self._broken is not None:
            raise self._broken
        self._broken = Broken("not answered in time", "timeout")
        try:
            await self._answer()
        except OSError as error:
            self._broken = error
            raise
        self._broken = None

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def _answer(self) -> None:
        """Between two questions a server may close the connection: that is how HTTP is."""
        if self._reader is None or self._reader.at_eof() or self._reader.exception() is not None:
            await self.close()
            await self._connect()
        await self._ask()

    async def _connect(self) -> None:
        self._reader, self._writer = await connect_to(self._url)

    async def _ask(self) -> None:
        assert self._reader is not None and self._writer is not None, "it is open"
        host = self._url.netloc.rpartition("@")[2]
        request = f"HEAD {target_of(self._url)} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: recoup-probe\r\n\r\n"
        self._writer.write(request.encode("utf-8", "replace"))
        _, headers = await read_head(self._reader)
        if "close" in headers.get("connection", "").lower():
            await self.close()
