"""What a channel's holder needs of a connection."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

Lost = Callable[[str, str], None]
"""(reason, error code): the connection has ended, and not because it was closed here."""


class Broken(OSError):
    """A connection that is there but does not do what it should; `str` says how."""

    def __init__(self, words: str, code: str) -> None:
        super().__init__(words)
        self.code = code


def trouble_in(error: OSError) -> tuple[str, str]:
    """Words and a code. Those of asyncio, of TLS and of the resolver each have their own place."""
    if isinstance(error, Broken):
        return str(error), error.code
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error), "tls"
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error), "unknown_host"
    known = errno.errorcode.get(error.errno or 0)
    return (os.strerror(error.errno or 0), known) if known else (str(error), type(error).__name__)


class Link(Protocol):
    """One connection at a time."""

    @property
    def shown(self) -> str:
        """Where it leads, without what may be secret in it."""
        ...

    async def open(self) -> None:
        """Raises OSError. Is cancelled when it takes too long, and leaves nothing open then."""
        ...

    async def look(self) -> None:
        """Does the other side still answer on this very connection? Raises OSError if not."""
        ...

    async def close(self) -> None:
        """Whatever is open. Never fails, never waits for the other side."""
        ...
