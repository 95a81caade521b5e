"""A terminal for commands: what it was sent, and what a person sees of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyte
from tests.commands import Commands

PATIENCE_S = 60.0


class Process(Protocol):
    def poll(self) -> int | None: ...


@dataclass
class Terminal:
    """A pseudo terminal and a model of its screen, with what scrolled away above it."""

    columns: int = 80
    lines: int = 24
    sent: bytes = b""
    screen: pyte.HistoryScreen = field(init=False)

    def __post_init__(self) -> None:
        self.screen = pyte.HistoryScreen(self.columns, self.lines, history=5_000)
        self._stream = pyte.ByteStream(self.screen)
        self.near, self.far = pty.openpty()
        self._set_size()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        for end in (self.near, self.far):
            with contextlib.suppress(OSError):
                os.close(end)

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
        """As a shell in a window starts its foreground job."""

        def take() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        return subprocess.Popen(
            argv, env={"TERM": "xterm-256color", **env}, cwd=cwd, preexec_fn=take,
            stdin=self.far, stdout=self.far, stderr=self.far,
        )  # fmt: skip

    def watch(self, process: Process, until: bytes | None = None) -> None:
        """Read on until this was sent, or the process has ended and nothing more comes."""
        end_s = time.monotonic() + PATIENCE_S
        seen = len(self.sent)
        while until is None or until not in self.sent[seen:]:
            assert time.monotonic() < end_s, self.sent[-2_000:]
            if select.select([self.near], [], [], 0.05)[0]:
                self._take(os.read(self.near, 1 << 16))
            elif process.poll() is not None:
                return

    def resize(self, columns: int, lines: int) -> None:
        """As a window that cuts long lines does."""
        self.columns, self.lines = columns, lines
        self.screen.resize(lines, columns)
        self._set_size()

    def key(self, byte: bytes) -> None:
        os.write(self.near, byte)

    def text(self) -> list[str]:
        """What stands on the screen and above it, without the empty lines at the end."""
        above = [
            "".join(line[x].data for x in range(self.columns)).rstrip() for line in self.screen.history.top
        ]
        return "\n".join([*above, *(line.rstrip() for line in self.screen.display)]).rstrip().split("\n")

    def _set_size(self) -> None:
        fcntl.ioctl(self.far, termios.TIOCSWINSZ, struct.pack("HHHH", self.lines, self.columns, 0, 0))

    def _take(self, data: bytes) -> None:
        self.sent += data
        self._stream.feed(data)


def sent_to_terminal(
    commands: Commands, *words: str, env: Mapping[str, str], cwd: Path, columns: int = 200
) -> bytes:
    """Everything that a command prints on a terminal."""
    with Terminal(columns) as terminal:
        process = commands.run_on(terminal.far, *words, env=env, cwd=cwd)
        terminal.watch(process)
        process.communicate(PATIENCE_S)
        return terminal.sent
