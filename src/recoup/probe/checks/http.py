"""Is a request answered, and how?"""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import SplitResult, urlsplit

from recoup.kernel.probe_health import Sign
from recoup.model.probe import HttpCheck
from recoup.probe.checks.tcp import code_of

HEAD_BYTES_MAX = 4096
_PORTS = {"http": 80, "https": 443}


class HttpChecker:
    """A GET of its own: the status line is all that is read."""

    def __init__(self, check: HttpCheck) -> None:
        self._check = check
        self._url = urlsplit(check.url)
        self._request = _request(self._url)

    def begin(self) -> None:
        """A request remembers nothing."""

    async def look(self) -> Sign:
        try:
            status = await self._status()
        except OSError as error:
            reason = f"{self._shown()} is not answered: {error.strerror or error}"
            return Sign(good=False, reason=reason, error_code=code_of(error))
        if status is None:
            return Sign(good=False, reason=f"{self._shown()}: this is not HTTP", error_code="not_http")
        good = status in self._check.status if self._check.status else status < 400
        reason = "" if good else f"{self._shown()} is answered with {status}"
        return Sign(good=good, reason=reason, error_code=None if good else f"http_{status}")

    async def _status(self) -> int | None:
        assert self._url.hostname is not None, "the file's reader has seen to it"
        port = self._url.port or _PORTS[self._url.scheme]
        secure = ssl.create_default_context() if self._url.scheme == "https" else None
        reader, writer = await asyncio.open_connection(
            self._url.hostname, port, ssl=secure, limit=HEAD_BYTES_MAX
        )
        try:
            writer.write(self._request)
            return _status_in(await reader.readline())
        except ValueError:
            return None  # a first line longer than any status
        finally:
            writer.transport.abort()

    def _shown(self) -> str:
        """Without what may be secret in it."""
        port = f":{self._url.port}" if self._url.port else ""
        return f"{self._url.scheme}://{self._url.hostname}{port}{self._url.path}"


def _request(url: SplitResult) -> bytes:
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    host = url.netloc.rpartition("@")[2]
    words = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: recoup-probe\r\nConnection: close\r\n\r\n"
    return words.encode("utf-8", "replace")


def _status_in(line: bytes) -> int | None:
    words = line.split(maxsplit=2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return None
    return int(words[1][:3])
