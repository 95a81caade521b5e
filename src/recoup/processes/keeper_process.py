"""The driver's hold on one keeper process: how it is started, spoken to, and let go."""

from __future__ import annotations

import asyncio
import fcntl
import marshal
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from recoup import children
from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.model.process import ProcessSpec
from recoup.processes import keeper_main
from recoup.processes.identity import identify
from recoup.processes.marks import new_marker
from recoup.processes.orphans import bury_orphans
from recoup.processes.process_table import process_of
from recoup.processes.sweep import KEEPER_MARK, sweep_marked

READY_S: Final = 20.0
RELEASE_S: Final = 5.0
PIPE_BYTES: Final = 256 << 10
STARTUP_WORDS_BYTES_MAX: Final = 2000

_FIRST_FREE: Final = 3
_BOOT: Final = "import sys; sys.path.append(sys.argv[1]); import keeper_main; keeper_main.main()"
"""Imported rather than run as a script: compiling it anew would be a quarter of the keeper's start."""
_PASSED_ON: Final = ("LD_LIBRARY_PATH",)
"""All that the keeper's own environment may hold: the interpreter may need it, and it is no secret."""


class Hold(Protocol):
    """A driver's hold on one process tree that somebody keeps for it."""

    stdout: int
    stderr: int
    forsaken: bool
    """Left alone with processes that nobody here can kill: as long as they live, so does their keeper."""

    async def ready(self) -> ProcessIdentity:
        """Who keeps it, once that is certain. Nothing is executed before `say("go …")`."""
        ...

    def say(self, message: str) -> None: ...

    def hear(self, take: Callable[[list[str] | None], None]) -> None:
        """Call `take` with every message, split into words, and with None at the end."""
        ...

    def kill(self) -> None:
        """End the keeper itself, which does not answer."""
        ...

    def wake(self) -> bool:
        """Wakes a stopped keeper (SIGSTOP). Returns whether it was stopped."""
        ...

    async def sweep(self, session: int | None) -> int:
        """The keeper was lost: end it for certain, then whatever it has left behind."""
        ...

    async def release(self) -> None: ...


class Channel:
    """What is said between a driver and the keeper of one tree."""

    def __init__(self, near: socket.socket) -> None:
        self._socket = near
        self._loop = asyncio.get_running_loop()

    async def hears_ready(self) -> bool:
        try:
            async with asyncio.timeout(READY_S):
                return await self._loop.sock_recv(self._socket, keeper_main.MESSAGE_BYTES_MAX) == b"ready"
        except (TimeoutError, ConnectionError):
            return False

    def say(self, message: str) -> None:
        """Never blocks. What a keeper that is gone or frozen misses is found out by its silence."""
        with suppress(OSError):
            self._socket.send(message.encode())

    def hear(self, take: Callable[[list[str] | None], None]) -> None:
        self._loop.add_reader(self._socket, self._read_message, take)

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _read_message(self, take: Callable[[list[str] | None], None]) -> None:
        try:
            message = self._socket.recv(keeper_main.MESSAGE_BYTES_MAX)
        except (BlockingIOError, ConnectionResetError):
            return  # a reset says that the keeper ended without reading all; its last words still follow
        if not message:
            self._loop.remove_reader(self._socket)
        take(message.decode("utf-8", "replace").split(" ") if message else None)


class Child:
    """A keeper as a child of this process: killed if need be, and always buried."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self._pidfd = _pidfd_of(popen)
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._pidfd, self._bury)

    def identity(self) -> ProcessIdentity | None:
        return identify(self._popen.pid)

    def kill(self) -> None:
        if not self.ended.done():
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def wake(self) -> bool:
        process = None if self.ended.done() else process_of(self._popen.pid)
        if process is None or process.state not in "Tt":
            return False
        signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)
        return True

    async def wait_ended(self, patience_s: float) -> None:
        """It was told to end: after the patience it is killed. Not to be cancelled before that."""
        self.wake()
        killing = self._loop.call_later(patience_s, self.kill)
        cancelled = await outlast(self.ended)
        killing.cancel()
        if cancelled:
            raise asyncio.CancelledError

    def _bury(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._popen.wait()
        children.buried(self._popen.pid)
        bury_orphans()
        os.close(self._pidfd)
        self.ended.set_result(None)


class KeeperProcess:
    """A keeper that was started: executes nothing until told to, kills its tree when the channel closes."""

    def __init__(self, child: Child, channel: Channel, marker: str, stdout: int, stderr: int) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.forsaken = False
        self.say = channel.say
        self.hear = channel.hear
        self.kill = child.kill
        self.wake = child.wake
        self._child = child
        self._channel = channel
        self._marker = marker

    async def ready(self) -> ProcessIdentity:
        ready = await self._channel.hears_ready()
        identity = self._child.identity()
        if not ready or identity is None:
            self.kill()
            raise did_not_start(self.stderr)
        return identity

    async def sweep(self, session: int | None) -> int:
        """Only when the keeper is truly dead have its children been handed to somebody else."""
        self.kill()
        await self._child.ended
        return await sweep_marked(self._marker, {session})

    async def release(self) -> None:
        """Close the channel, which ends the keeper, and bury it; a forsaken one is buried when it ends."""
        self._channel.close()
        os.close(self.stdout)
        os.close(self.stderr)
        if not self.forsaken:
            await self._child.wait_ended(RELEASE_S)


def did_not_start(stderr: int) -> KeeperError:
    try:
        words = os.read(stderr, STARTUP_WORDS_BYTES_MAX).decode("utf-8", "replace").strip()
    except OSError:
        words = ""
    hint = (
        "Check that this interpreter starts, and that the machine is not out of memory, files or processes."
    )
    last = words.splitlines()[-1].strip() if words else "it did not say why"
    return KeeperError(f"the process keeper did not start ({sys.executable}): {last}", hint=hint)


def start_keeper(spec: ProcessSpec) -> KeeperProcess:
    """A keeper for one tree. A mark goes into the command's environment: its processes can be found even without it."""
    try:
        return _start(spec, new_marker())
    except OSError as error:
        raise cannot_start(error) from error


def cannot_start(error: OSError) -> KeeperError:
    hint = "Check the limits on open files and processes (ulimit -n, ulimit -u) and the free memory."
    return KeeperError(f"a process keeper could not be started: {error}", hint=hint)


def _start(spec: ProcessSpec, marker: str) -> KeeperProcess:
    with ExitStack() as ours, ExitStack() as theirs:
        order = memory_file(order_of(spec, marker), theirs)
        channel, far_channel = channel_pair(ours, theirs)
        stdout, far_stdout = output_pipe(ours, theirs)
        stderr, far_stderr = output_pipe(ours, theirs)
        child = start_bare(
            _BOOT,
            [str(far_channel)],
            stdin=order,
            stdout=far_stdout,
            stderr=far_stderr,
            passed=(far_channel,),
        )
        process = KeeperProcess(child, Channel(channel), marker, stdout, stderr)
        ours.pop_all()
    return process


def start_bare(
    boot: str, words: list[str], *, stdin: int, stdout: int, stderr: int, passed: tuple[int, ...] = ()
) -> Child:
    """An interpreter with nothing in it, beside our own files for keepers."""
    folder = str(Path(keeper_main.__file__).parent)
    with children.starting() as own:
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", boot, folder, *words],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=passed,
            cwd="/",
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            # From birth, so that a Ctrl-C in the driver's terminal never reaches it.
            start_new_session=True,
        )
        own.add(popen.pid)
    return Child(popen)


def order_of(spec: ProcessSpec, marker: str) -> bytes:
    argv = [os.fsencode(word) for word in spec.argv]
    cwd = os.fsencode(Path(spec.cwd).absolute())
    env = {os.fsencode(name): os.fsencode(value) for name, value in spec.env.items()}
    order: keeper_main.Order = (argv, cwd, {**env, KEEPER_MARK.encode(): marker.encode()}, spec.stdin)
    return marshal.dumps(order)


def memory_file(content: bytes, theirs: ExitStack) -> int:
    fd = os.memfd_create("recoup-order", os.MFD_CLOEXEC)
    theirs.callback(os.close, fd)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def channel_pair(ours: ExitStack, theirs: ExitStack) -> tuple[socket.socket, int]:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.enter_context(near)
    theirs.enter_context(far)
    near.setblocking(False)
    # In a driver whose standard streams are closed it could otherwise take the place of one of the keeper's.
    passed = fcntl.fcntl(far, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    theirs.callback(os.close, passed)
    return near, passed


def output_pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    near, far = os.pipe2(os.O_CLOEXEC)
    ours.callback(os.close, near)
    theirs.callback(os.close, far)
    os.set_blocking(near, False)
    with suppress(OSError):  # over the user's share of pipe memory the default size has to do
        fcntl.fcntl(near, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return near, far


def _pidfd_of(popen: subprocess.Popen[bytes]) -> int:
    try:
        return os.pidfd_open(popen.pid)
    except OSError:
        popen.kill()
        popen.wait()
        raise


async def outlast(future: asyncio.Future[Any], on_cancel: Callable[[], None] = lambda: None) -> bool:
    """Wait for the future even if cancelled meanwhile; True if so, which the caller must then pass on."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            cancelled = True
            on_cancel()
    return cancelled
