"""The driver's hold on one keeper process: how it is started, spoken to, and let go."""

from __future__ import annotations

import asyncio
import fcntl
import marshal
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.model.process import ProcessSpec
from recoup.processes import keeper_main
from recoup.processes.identity import identify
from recoup.processes.sweep import KEEPER_MARK

READY_S: Final = 20.0
RELEASE_S: Final = 5.0
PIPE_BYTES: Final = 256 << 10
STARTUP_WORDS_BYTES_MAX: Final = 2000

_FIRST_FREE: Final = 3
_BOOT: Final = "import sys; sys.path.append(sys.argv[1]); import keeper_main; keeper_main.main()"
"""Imported rather than run as a script: compiling it anew would be a quarter of the keeper's start."""
_PASSED_ON: Final = ("LD_LIBRARY_PATH",)
"""All that the keeper's own environment may hold: the interpreter may need it, and it is no secret."""


class KeeperProcess:
    """A keeper that was started: executes nothing until told to, kills its tree when the channel closes."""

    def __init__(
        self, popen: subprocess.Popen[bytes], pidfd: int, channel: socket.socket, stdout: int, stderr: int
    ) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.forsaken = False
        """Left alone with processes that it cannot kill: as long as it lives, so do they."""
        self._popen = popen
        self._pidfd = pidfd
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(pidfd, self._bury)

    async def ready(self) -> ProcessIdentity:
        try:
            async with asyncio.timeout(READY_S):
                message = await self._loop.sock_recv(self._channel, keeper_main.MESSAGE_BYTES_MAX)
        except (TimeoutError, ConnectionError):
            message = b""
        identity = identify(self._popen.pid)
        if message != b"ready" or identity is None:
            raise self._did_not_start()
        return identity

    def say(self, message: str) -> None:
        """Never blocks. What a keeper that is gone or frozen misses is found out by its silence."""
        with suppress(OSError):
            self._channel.send(message.encode())

    def hear(self, take: Callable[[list[str] | None], None]) -> None:
        """Call `take` with every message, split into words, and with None at the end."""
        self._loop.add_reader(self._channel, self._read_message, take)

    def kill(self) -> None:
        if not self.ended.done():
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def release(self) -> None:
        """Close the channel, which ends the keeper, and bury it; a forsaken one is buried when it ends."""
        self._close()
        if self.forsaken:
            return
        killing = self._loop.call_later(RELEASE_S, self.kill)
        cancelled = await outlast(self.ended)
        killing.cancel()
        if cancelled:
            raise asyncio.CancelledError

    def _read_message(self, take: Callable[[list[str] | None], None]) -> None:
        try:
            message = self._channel.recv(keeper_main.MESSAGE_BYTES_MAX)
        except (BlockingIOError, ConnectionResetError):
            return  # a reset says that the keeper ended without reading all; its last words still follow
        if not message:
            self._loop.remove_reader(self._channel)
        take(message.decode("utf-8", "replace").split(" ") if message else None)

    def _close(self) -> None:
        self._loop.remove_reader(self._channel)
        self._channel.close()
        os.close(self.stdout)
        os.close(self.stderr)

    def _bury(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._popen.wait()
        os.close(self._pidfd)
        self.ended.set_result(None)

    def _did_not_start(self) -> KeeperError:
        self.kill()
        try:
            words = os.read(self.stderr, STARTUP_WORDS_BYTES_MAX).decode("utf-8", "replace").strip()
        except BlockingIOError:
            words = ""
        hint = "Check that this interpreter starts, and that the machine is not out of memory or processes."
        return KeeperError(f"the process keeper did not start: {sys.executable} {words}".strip(), hint=hint)


def start_keeper(spec: ProcessSpec, marker: str) -> KeeperProcess:
    """The marker goes into the command's environment: its processes can be found even without a keeper."""
    try:
        return _start(spec, marker)
    except OSError as error:
        hint = "Check the limits on open files and processes (ulimit -n, ulimit -u) and the free memory."
        raise KeeperError(f"a process keeper could not be started: {error}", hint=hint) from error


def new_marker() -> str:
    return secrets.token_hex(16)


def _start(spec: ProcessSpec, marker: str) -> KeeperProcess:
    with ExitStack() as ours, ExitStack() as theirs:
        order = _memory_file(_order(spec, marker), theirs)
        channel, far_channel = _channel(ours, theirs)
        stdout, far_stdout = _pipe(ours, theirs)
        stderr, far_stderr = _pipe(ours, theirs)
        popen = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                _BOOT,
                str(Path(keeper_main.__file__).parent),
                str(far_channel),
            ],
            stdin=order,
            stdout=far_stdout,
            stderr=far_stderr,
            pass_fds=(far_channel,),
            cwd="/",
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            # From birth, so that a Ctrl-C in the driver's terminal never reaches it.
            start_new_session=True,
        )
        process = KeeperProcess(popen, _pidfd_of(popen), channel, stdout, stderr)
        ours.pop_all()
    return process


def _order(spec: ProcessSpec, marker: str) -> bytes:
    argv = [os.fsencode(word) for word in spec.argv]
    cwd = os.fsencode(Path(spec.cwd).absolute())
    env = {os.fsencode(name): os.fsencode(value) for name, value in spec.env.items()}
    order: keeper_main.Order = (argv, cwd, {**env, KEEPER_MARK.encode(): marker.encode()}, spec.stdin)
    return marshal.dumps(order)


def _memory_file(content: bytes, theirs: ExitStack) -> int:
    fd = os.memfd_create("recoup-order", os.MFD_CLOEXEC)
    theirs.callback(os.close, fd)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _channel(ours: ExitStack, theirs: ExitStack) -> tuple[socket.socket, int]:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.enter_context(near)
    theirs.enter_context(far)
    near.setblocking(False)
    # In a driver whose standard streams are closed it could otherwise take the place of one of the keeper's.
    passed = fcntl.fcntl(far, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    theirs.callback(os.close, passed)
    return near, passed


def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
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
