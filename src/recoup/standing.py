"""What a process that stays needs of the system: to be asked to end, a place to listen, room for open files."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator

from recoup.errors import UsageError

INTERRUPTED = 130
_INSTEAD = {
    errno.EADDRNOTAVAIL: "Say --host 127.0.0.1, or an address that `ip address` lists.",
    errno.EACCES: "Ports below 1024 are for root: choose a higher one, such as --port 8620.",
}
"""What to do when an address cannot be listened on."""


@contextlib.contextmanager
def asked_to_end(ask: Callable[[int], None]) -> Iterator[None]:
    """`ask` hears which time it is asked; the third time nothing is waited for: keepers end what was started."""
    loop, times = asyncio.get_running_loop(), 0

    def asked() -> None:
        nonlocal times
        times += 1
        if times > 2:
            os._exit(INTERRUPTED)
        ask(times)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, asked)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def listening_at(
    host: str, port: int, backlog: int, prepare: Callable[[socket.socket], None] | None = None
) -> socket.socket:
    """`prepare` sets what every connection inherits."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With its protocol: asyncio sends small answers at once only where that is told.
        made = socket.socket(found[0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise UsageError(
            f"{host} is no address of this machine: {error.strerror}",
            hint=_INSTEAD[errno.EADDRNOTAVAIL],
        ) from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(found[4])
        if prepare is not None:
            prepare(made)
        made.listen(backlog)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise UsageError(
            f"{host}:{port} cannot be listened on: {error.strerror}",
            hint=_INSTEAD.get(error.errno or 0, "Choose another port: --port 0 takes any that is free."),
        ) from None
    return made


def room_for_files(wanted: int) -> int:
    """How many files may be open now: as many as are wanted, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted:
        soft = wanted if hard == unlimited else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == unlimited else soft
