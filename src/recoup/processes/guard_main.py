"""The guard of a program that somebody else starts: lets nothing of it outlive the driver or the driver's lease.

A browser is started by its own automation library, which must hold its pipes; so no keeper can start it. Instead the
library is given the guard's script as the program. The guard starts the real one with the very descriptors it was
given, and kills the whole tree when the driver is gone, when whoever started it is gone, or when the lease runs out.
What it leaves when it is killed together with the driver is removed later (`guard_folders.py`).

It runs on a bare interpreter (`python -I -S`), imports little and nothing of recoup. Being a child subreaper, it
inherits every orphan below it. In its folder: `deadline` (a double: the lease's end on the boot clock, written by the
driver), `profile` (the name of the folder that the program keeps its files in), `pid` (its own, written when it is
ready).
"""

import os
import select
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal

    from recoup.processes import keeper_main as keeping
    from recoup.processes import process_table as table
else:
    import _signal as signal

    import keeper_main as keeping
    import process_table as table

LOOK_S = 0.5
"""How often the deadline is looked at: it may have been moved, and the machine may have slept."""
KILL_S = 10.0
"""How long the guard goes on killing; what lives on then hangs in the kernel."""
_PASSED_DESCRIPTORS = (3, 4)


def main() -> None:
    folder, driver, driver_ticks, *command = sys.argv[sys.argv.index("--") + 1 :]
    own_pid = os.getpid()
    keeping.prctl(keeping.PR_SET_CHILD_SUBREAPER, 1)
    watched = [_hold(int(driver), int(driver_ticks)), _hold(os.getppid(), None)]
    woken, _ = keeping.child_alarm()
    profiles = [word.partition("=")[2] for word in command if word.startswith("--user-data-dir=")]
    _write(folder + "/profile", "".join(profiles[:1]))
    child = os.fork()
    if child == 0:
        _execute(command, own_pid)
    for descriptor in _PASSED_DESCRIPTORS:
        _close(descriptor)
    _write(folder + "/pid", str(own_pid))
    status = _watch(child, [fd for fd in watched if fd is not None], None in watched, woken, folder)
    _clear()
    if status is None:
        _remove(*profiles, folder)  # which names the profile
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF if status is not None else 1)


def _watch(child: int, held: list[int], gone: bool, woken: int, folder: str) -> int | None:
    """Returns when the tree must end: with the status of the program if it has ended by itself."""
    while not gone and not _lease_is_over(folder):
        readable = _readable([*held, woken])
        if woken in readable:
            keeping.quiet(woken)
            status = _reap(child)
            if status is not None:
                return status
        gone = any(fd in readable for fd in held)
    return None


def _lease_is_over(folder: str) -> bool:
    try:
        descriptor = os.open(folder + "/deadline", os.O_RDONLY)
        deadline_s = float(struct.unpack("<d", os.read(descriptor, 8))[0])
        os.close(descriptor)
    except (OSError, struct.error):
        return True  # the driver has removed it
    return keeping.boot_s() >= deadline_s - keeping.KILL_MARGIN_S


def _hold(pid: int, ticks: int | None) -> int | None:
    """A descriptor that becomes readable when this very process ends. None: it has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    process = table.process_of(pid)
    return descriptor if process is not None and ticks in (None, process.start_ticks) else None


def _reap(child: int) -> int | None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if pid == child:
            return status
        if pid == 0:
            return None


def _clear() -> None:
    """Kill in rounds until no child is left, hence no descendant either."""
    end_s = time.monotonic() + KILL_S
    while time.monotonic() < end_s:
        for process in table.descendants(table.process_table(), os.getpid()):
            table.send(process, signal.SIGKILL)
        if _none_left():
            return
        time.sleep(0.01)


def _remove(*folders: str) -> None:
    """What the program kept, where nobody is left to do it; it may hold cookies."""
    import shutil

    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _none_left() -> bool:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False


def _execute(command: list[str], guard_pid: int) -> None:
    """In the child, never returns: become the program, unless the guard was killed before it could take it along."""
    try:
        keeping.prctl(keeping.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == guard_pid:
            os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {os.strerror(error.errno or 0)}\n".encode())
    os._exit(keeping.CANNOT_EXECUTE)


def _readable(fds: list[int]) -> list[int]:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(1000 * LOOK_S)]


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        return


def _write(path: str, text: str) -> None:
    """Whole or not at all: the driver looks for it."""
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, text.encode())
    os.close(descriptor)
    os.rename(path + ".new", path)  # noqa: PTH104 pathlib takes longer to import than the guard to start
