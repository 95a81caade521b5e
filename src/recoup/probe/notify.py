"""Tells systemd that the probe is there and alive, where systemd asks for it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress


class ServiceManager:
    """Speaks to the socket that the environment names; without one it says nothing. Never waits, never fails."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def ready(self) -> None:
        self._say(f"READY=1\nMAINPID={os.getpid()}")

    def alive(self) -> None:
        """To be called as long as the lease is renewed: a probe that hangs falls silent and is killed."""
        self._say("WATCHDOG=1")

    def stopping(self) -> None:
        self._say("STOPPING=1")

    def _say(self, words: str) -> None:
        if not self._address:
            return
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as far,
        ):
            far.sendto(words.encode(), self._address)
