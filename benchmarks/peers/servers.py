"""Servers of peers: ports that are free, waiting until one answers, and its end. The standard library only."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

START_MAX_S = 300.0
LOOK_S = 0.05
END_S = 30.0


@contextlib.contextmanager
def serving(command: Sequence[str | Path], log: Path, env: Mapping[str, str]) -> Iterator[None]:
    with log.open("wb") as out:
        child = subprocess.Popen(list(command), stdout=out, stderr=out, env=env)
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(END_S)
        except subprocess.TimeoutExpired:  # it waits for connections that nobody closes
            child.kill()
            child.wait()


def until_answered(asked: str | urllib.request.Request) -> None:
    """With anything but an error."""
    end = time.monotonic() + START_MAX_S
    while True:
        try:
            urllib.request.urlopen(asked, timeout=START_MAX_S).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(LOOK_S)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
