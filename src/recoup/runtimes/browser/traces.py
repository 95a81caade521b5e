"""The automation library's own record of an attempt, for its viewer. Its texts are
redacted when it is stored; it has no film, which could not be. It is made only where that is wanted, and never once a
secret was typed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from playwright.async_api import Error

from recoup.files.named import read_named
from recoup.model.outcome import Artifact
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.session import Session


class Trace:
    """The record of one attempt, if there is to be one."""

    def __init__(self, session: Session, limits: BrowserLimits, wanted: bool) -> None:
        self._session = session
        self._limits = limits
        self._wanted = wanted
        self._begun = False

    async def begin(self) -> None:
        """One that cannot be had is done without: it is for people, and proves nothing."""
        if self._wanted and not self._session.typed_secrets:
            with suppress(Error):
                await self._session.context.tracing.start(snapshots=True, screenshots=False)
                self._begun = True

    async def end(self, failed: bool) -> Artifact | None:
        """Kept of an attempt that failed and typed no secret; otherwise dropped."""
        if not self._begun:
            return None
        self._begun = False
        path = self._session.guard.folder / "trace.zip"
        keep = failed and not self._session.typed_secrets
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(self._limits.close_s):
                await self._session.context.tracing.stop(path=path if keep else None)
        return _taken(path, self._limits.trace_bytes_max) if keep else None


def _taken(path: Path, limit_bytes: int) -> Artifact | None:
    if not path.is_file():
        return None
    size = path.stat().st_size
    data = read_named(path) if size <= limit_bytes else b""
    path.unlink()
    return Artifact("trace.zip", "application/zip", data) if data else None
