"""Which process is which, for ever: a pid alone is reused, within a boot and by the next one."""

from __future__ import annotations

import asyncio
import errno
import functools
import hashlib
import os
import platform
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.processes.process_table import process_of, send

_MACHINE_ID = Path("/etc/machine-id")
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
_NO_SUCH_PROCESS = (errno.ESRCH, errno.EINVAL, errno.ENOENT)


@functools.cache
def host_id() -> str:
    """The machine, as far as pids mean the same: a container with pids of its own is another host."""
    parts = ["recoup-host", _machine_name(), _own_pid_namespace()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@functools.cache
def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError as error:
        hint = "Recoup identifies processes through Linux's /proc: run it on Linux, with /proc mounted."
        raise KeeperError(f"the boot id cannot be read: {error}", hint=hint) from error


def identify(pid: int) -> ProcessIdentity | None:
    """The process that has this pid now; None when there is none, or only its zombie."""
    process = process_of(pid)
    if process is None:
        return None
    identity = ProcessIdentity(host_id(), boot_id(), pid, process.start_ticks)
    return identity if is_alive(identity) else None


def own_identity() -> ProcessIdentity:
    identity = identify(os.getpid())
    if identity is None:
        hint = "Recoup identifies processes through Linux's /proc: run it on Linux, with /proc mounted."
        raise KeeperError("this process cannot find itself in /proc", hint=hint)
    return identity


def is_alive(identity: ProcessIdentity, *, alone: bool = False) -> bool | None:
    """None when that cannot be known from here. A zombie is dead.

    Another boot of what is called this host may be another machine: those that were made from one image have the same
    machine id. Only where no other machine can be meant (`alone`) was it an earlier boot of this one.
    """
    if alone and identity.host == host_id() and identity.boot_id != boot_id():
        return False
    with _pidfd(identity) as pidfd:
        return _judge(pidfd, identity)


def signal_stopped(identity: ProcessIdentity, signum: int) -> bool:
    """Signals the process if it is stopped (SIGSTOP). Returns whether it was."""
    process = process_of(identity.pid) if _is_here(identity) else None
    if process is None or process.start_ticks != identity.start_ticks or process.state not in "Tt":
        return False
    send(process, signum)
    return True


async def wait_dead(identity: ProcessIdentity, timeout_s: float) -> bool:
    """True as soon as the process is known to be dead; False after the time, or if that cannot be known."""
    with _pidfd(identity) as pidfd:
        alive = _judge(pidfd, identity)
        if pidfd is None or not alive:
            return alive is False
        return await _ended_within(pidfd, timeout_s)


async def _ended_within(pidfd: int, timeout_s: float) -> bool:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pidfd, ended.set)
    try:
        async with asyncio.timeout(timeout_s):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(pidfd)
    return True


@contextmanager
def _pidfd(identity: ProcessIdentity) -> Iterator[int | None]:
    """A hold on whatever has the pid now; while held, it cannot become another process."""
    if not _is_here(identity):
        yield None
        return
    pidfd = _opened(identity.pid)
    try:
        yield pidfd
    finally:
        if pidfd is not None:
            os.close(pidfd)


def _is_here(identity: ProcessIdentity) -> bool:
    return identity.host == host_id() and identity.boot_id == boot_id()


def _opened(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        # Out of descriptors, say, is no proof of a death.
        if error.errno not in _NO_SUCH_PROCESS:
            raise
        return None


def _judge(pidfd: int | None, identity: ProcessIdentity) -> bool | None:
    if not _is_here(identity):
        return None
    if pidfd is None or _has_ended(pidfd):
        return False
    process = process_of(identity.pid)
    if process is None:
        return False if _has_ended(pidfd) else None
    return process.start_ticks == identity.start_ticks


def _has_ended(pidfd: int) -> bool:
    """A pidfd is readable once the whole process has ended, threads included, reaped or not."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _machine_name(file: Path = _MACHINE_ID) -> str:
    try:
        name = file.read_text().strip()
    except OSError:
        name = ""
    return name or platform.node()


def _own_pid_namespace() -> str:
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
    return "" if namespace == _INITIAL_PID_NAMESPACE else namespace
