"""The driver's hold on a shared keeper: one process for all trees, started with the first and let go with the last."""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.model.process import ProcessSpec
from recoup.processes.keeper_process import (
    RELEASE_S,
    Channel,
    Child,
    cannot_start,
    channel_pair,
    did_not_start,
    memory_file,
    order_of,
    output_pipe,
    start_bare,
)
from recoup.processes.marks import new_marker
from recoup.processes.sweep import sweep_marked

SHELLS: Final = ("/bin/dash", "/usr/bin/dash")
"""Small, and known to bury nobody while it reads; others do so as soon as somebody dies."""
ANCHOR: Final = "while read -r _; do (:); done"
"""Each line on its standard input has it bury its dead: a shell that waits for a child of its own, the youngest, is
handed all others first. It runs nothing else, and ends with that input."""

_BOOT: Final = "import sys; sys.path.append(sys.argv[1]); import shared_main; shared_main.main()"


def anchor_shell() -> str | None:
    """The shell that anchors become; None: there is none here that will do."""
    return next((shell for shell in SHELLS if os.access(shell, os.X_OK)), None)


class SharedStart:
    """Starts trees under one keeper process as long as there is one, under a new one where there is none any more."""

    def __init__(self, shell: str) -> None:
        self._shell = shell
        self._process: SharedProcess | None = None

    def __call__(self, spec: ProcessSpec) -> TreeHold:
        try:
            return self._add(spec)
        except OSError as error:
            raise cannot_start(error) from error

    def _add(self, spec: ProcessSpec) -> TreeHold:
        if self._process is not None and self._process.serves:
            try:
                return self._process.add(spec)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it was killed a moment ago: those who have trees there are about to hear of it
        self._process = start_shared(self._shell)
        try:
            return self._process.add(spec)
        except (BrokenPipeError, ConnectionResetError):
            raise self._process.gone() from None
        except OSError:
            self._process.close()
            raise


class SharedProcess:
    """A shared keeper that was started: kills a tree when that tree's channel closes. With it, all its trees die."""

    def __init__(self, child: Child, control: socket.socket, stderr: int) -> None:
        self.kill = child.kill
        self.wake = child.wake
        self.identity = child.identity
        self.sessions: set[int] = set()
        self._child = child
        self._control = control
        self._stderr = stderr
        self._trees = 0
        self._marker = new_marker()
        self._sweeping: asyncio.Task[int] | None = None

    @property
    def serves(self) -> bool:
        return self._control.fileno() >= 0 and self.identity() is not None

    def add(self, spec: ProcessSpec) -> TreeHold:
        """Raises OSError when the keeper is gone or takes nothing."""
        with ExitStack() as ours, ExitStack() as theirs:
            order = memory_file(order_of(spec, self._marker), theirs)
            channel, far_channel = channel_pair(ours, theirs)
            stdout, far_stdout = output_pipe(ours, theirs)
            stderr, far_stderr = output_pipe(ours, theirs)
            passed = array.array("i", [order, far_channel, far_stdout, far_stderr])
            self._control.sendmsg([b"tree"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
            ours.pop_all()
        self._trees += 1
        return TreeHold(self, Channel(channel), stdout, stderr)

    async def ready(self, channel: Channel) -> ProcessIdentity:
        ready = await channel.hears_ready()
        identity = self.identity()
        if not ready or identity is None:
            raise did_not_start(self._stderr)
        return identity

    def gone(self) -> KeeperError:
        """Why it ended before it took its first tree."""
        error = did_not_start(self._stderr)
        self.close()
        return error

    async def sweep(self) -> int:
        """Once for all trees, whoever asks first: there may be hundreds."""
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._end_and_sweep())
        return await asyncio.shield(self._sweeping)

    async def remove(self, *, forsaken: bool) -> None:
        """With its last tree the keeper goes, too; one that is left with processes it cannot kill stays with them."""
        self._trees -= 1
        if self._trees == 0:
            self.close()
            if not forsaken:
                await self._child.wait_ended(RELEASE_S)

    def close(self) -> None:
        if self._control.fileno() >= 0:
            self._control.close()
            os.close(self._stderr)

    async def _end_and_sweep(self) -> int:
        self.kill()
        await self._child.ended
        return await sweep_marked(self._marker, self.sessions)


class TreeHold:
    """One tree of a shared keeper."""

    def __init__(self, process: SharedProcess, channel: Channel, stdout: int, stderr: int) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.forsaken = False
        self.say = channel.say
        self.kill = process.kill
        self.wake = process.wake
        self._process = process
        self._channel = channel
        self._session: int | None = None

    async def ready(self) -> ProcessIdentity:
        return await self._process.ready(self._channel)

    def hear(self, take: Callable[[list[str] | None], None]) -> None:
        self._channel.hear(partial(self._note, take))

    async def sweep(self, session: int | None) -> int:
        del session  # the keeper's other trees need theirs swept as well
        return await self._process.sweep()

    async def release(self) -> None:
        self._channel.close()
        os.close(self.stdout)
        os.close(self.stderr)
        if self._session is not None:
            self._process.sessions.discard(self._session)
        await self._process.remove(forsaken=self.forsaken)

    def _note(self, take: Callable[[list[str] | None], None], words: list[str] | None) -> None:
        if words and words[0] == "started":
            self._session = int(words[1])
            self._process.sessions.add(self._session)
        take(words)


def start_shared(shell: str) -> SharedProcess:
    with ExitStack() as ours, ExitStack() as theirs:
        control, far_control = channel_pair(ours, theirs)
        stderr, far_stderr = output_pipe(ours, theirs)
        child = start_bare(_BOOT, [shell, ANCHOR], stdin=far_control, stdout=far_stderr, stderr=far_stderr)
        process = SharedProcess(child, control, stderr)
        ours.pop_all()
    return process
