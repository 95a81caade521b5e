"""From a host's name to its addresses, without ever waiting for the answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

KEPT_S = 60.0
RETRIED_S = 5.0
ADDRESSES_MAX = 8


class Address(NamedTuple):
    family: int
    sockaddr: tuple[Any, ...]


Lookup = Callable[[str, int], list[Address]]


def look_up(host: str, port: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    return [Address(family, sockaddr) for family, _type, _protocol, _name, sockaddr in found]


class Resolver:
    """Knows the addresses of one host. Looks them up again now and then, in a thread, one look-up at a time."""

    def __init__(
        self, host: str, port: int, lookup: Lookup = look_up, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._host, self._port = host, port
        self._lookup, self._now_s = lookup, now_s
        self._found = _literal(host, port)
        self._literal = bool(self._found)
        self._due_s = now_s()
        self._idle = threading.Event()
        self._idle.set()

    def addresses(self) -> tuple[Address, ...]:
        """The last that were found; none when nothing was found yet."""
        if not self._literal and self._idle.is_set() and self._now_s() >= self._due_s:
            self._idle.clear()
            threading.Thread(target=self._look, name="recoup-resolver", daemon=True).start()
        return self._found

    def wait(self, seconds: float) -> None:
        """For a look-up that is under way."""
        self._idle.wait(seconds)

    def _look(self) -> None:
        try:
            self._found = tuple(self._lookup(self._host, self._port)[:ADDRESSES_MAX]) or self._found
        except (OSError, UnicodeError):
            pass  # what was known stands, and it is asked again
        finally:
            self._due_s = self._now_s() + (KEPT_S if self._found else RETRIED_S)
            self._idle.set()


def _literal(host: str, port: int) -> tuple[Address, ...]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return ()
    return tuple(Address(family, sockaddr) for family, _type, _protocol, _name, sockaddr in found)
