"""What a process that stays needs of the system: to be asked to end, a place to listen, room for open files."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import resource
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from recoup.errors import RecoupError, UsageError

INTERRUPTED = 130
PAUSE_S = 0.2
PAUSE_MAX_S = 10.0
SAY_EVERY_S = 60.0
"""Time between two lines in the log while the wait goes on."""
T = TypeVar("T")
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


async def when_there(
    opened: Callable[[], Awaitable[T]],
    away: tuple[type[RecoupError], ...],
    say: Callable[[str], None],
    wait_max_s: float | None = None,
) -> T:
    """What `opened` returns, as soon as what it needs can be reached: it is called again, less and less often. Asked to
    end meanwhile, the process exits with 0. After `wait_max_s` it raises what `opened` raised last."""
    ending, begun_s = asyncio.Event(), time.monotonic()
    with asked_to_end(lambda _times: ending.set()):
        pause_s, said_s = PAUSE_S, -SAY_EVERY_S
        while True:
            try:
                return await _unless(ending, opened())
            except away as error:
                if wait_max_s is not None and time.monotonic() - begun_s >= wait_max_s:
                    raise
                if time.monotonic() - said_s >= SAY_EVERY_S:
                    say(f"waiting: {error.message}. {error.what_to_do}")
                    said_s = time.monotonic()
            await _unless(ending, asyncio.sleep(pause_s * random.uniform(0.5, 1)))
            pause_s = min(pause_s * 2, PAUSE_MAX_S)


async def _unless(ending: asyncio.Event, work: Awaitable[T]) -> T:
    working, told = asyncio.ensure_future(work), asyncio.ensure_future(ending.wait())
    try:
        await asyncio.wait({working, told}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise SystemExit(0)
        return working.result()
    finally:
        told.cancel()
        if not working.done():
            working.cancel()


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
