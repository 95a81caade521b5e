"""What a channel's holder needs of a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Lost = Callable[[str, str], None]
"""(reason, error code): the connection has ended, and not because it was closed here."""


class Broken(OSError):
    """A connection that is there but does not do what it should; `str` says how."""

    def __init__(self, words: str, code: str) -> None:
        super().__init__(words)
        self.code = code


class Link(Protocol):
    """One connection at a time."""

    async def open(self) -> None:
        """Raises OSError. Is cancelled when it takes too long, and leaves nothing open then."""
        ...

    async def look(self) -> None:
        """Does the other side still answer on this very connection? Raises OSError if not."""
        ...

    async def close(self) -> None:
        """Whatever is open. Never fails, never waits for the other side."""
        ...
