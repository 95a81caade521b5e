"""The processes of this machine as the kernel lists them: who is below whom, what they take, and signals that reach no
stranger.

Imported by keepers on a bare interpreter, too (see `keeper_main`): it imports little, and nothing of recoup.
"""

import os
import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the public module spends 7 ms of every attempt on enums

_EXIT_STATUS = 49
"""Which field says how a process ended that nobody has buried yet, counted from the one after its name."""
_PAGE_BYTES = resource.getpagesize()


class NoLists(Exception):
    """The kernel was built without lists of children: the whole table tells."""


class Process:
    """One row of the process table."""

    __slots__ = ("cpu_ticks", "exit_status", "group", "parent", "pid", "session", "start_ticks", "state")

    def __init__(self, pid: int, stat: bytes) -> None:
        # The command's name may hold spaces and parentheses; the last ") " ends it.
        fields = stat[stat.rindex(b")") + 2 :].split()
        self.pid = pid
        self.state = fields[0].decode()
        self.parent, self.group, self.session = int(fields[1]), int(fields[2]), int(fields[3])
        self.cpu_ticks = sum(int(field) for field in fields[11:15])
        self.start_ticks = int(fields[19])
        self.exit_status = int(fields[_EXIT_STATUS]) if len(fields) > _EXIT_STATUS else 0

    @property
    def key(self) -> tuple[int, int]:
        return self.pid, self.start_ticks


def process_of(pid: int) -> Process | None:
    try:
        return Process(pid, _contents(f"/proc/{pid}/stat"))
    except (OSError, ValueError, IndexError):
        return None


def process_table() -> dict[int, Process]:
    try:
        names = os.listdir("/proc")  # noqa: PTH208 pathlib takes longer to import than the keeper to start
    except OSError:
        return {}
    rows = (process_of(int(name)) for name in names if name.isdigit())
    return {row.pid: row for row in rows if row is not None}


def descendants(table: dict[int, Process], *roots: int) -> list[Process]:
    """Everything below the roots, without them."""
    return below(children_of(table), *roots)


def children_of(table: dict[int, Process]) -> dict[int, list[Process]]:
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    return children


def below(children: dict[int, list[Process]], *roots: int) -> list[Process]:
    """A table is not read at one instant, so that it may even hold a circle."""
    found: dict[int, Process] = {}
    parents = list(roots)
    while parents:
        born = [process for process in children.get(parents.pop(), ()) if process.pid not in found]
        found.update((process.pid, process) for process in born)
        parents += [process.pid for process in born]
    return list(found.values())


def send(process: Process, signum: int) -> None:
    """Signal this very process, not one that got its pid later; nothing if it is gone or out of reach."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = process_of(process.pid)
        if now is not None and now.start_ticks == process.start_ticks:
            signal.pidfd_send_signal(pidfd, signum)
    except OSError:
        return
    finally:
        os.close(pidfd)


def activity(processes: list[Process]) -> str:
    """A mark that changes when these processes have used processor time or written anything."""
    written = sum(_bytes_written(process.pid) for process in processes)
    return f"{sum(process.cpu_ticks for process in processes)}/{written}"


def _bytes_written(pid: int) -> int:
    try:
        fields = _contents(f"/proc/{pid}/io").split()
        return int(fields[fields.index(b"wchar:") + 1])
    except (OSError, ValueError, IndexError):
        return 0


def send_to_groups(processes: list[Process], *signums: int) -> None:
    """The kernel signals a group in one go: a chain of forks cannot slip through as it can between two looks.

    The command began in a session of its own, so no stranger can be in a group of one of its descendants.
    """
    for group in {process.group for process in processes} - {0, 1, os.getpgrp()}:
        send_to_group(group, *signums)


def send_to_group(group: int, *signums: int) -> None:
    for signum in signums:
        try:
            os.killpg(group, signum)
        except OSError:
            return


def children_pids(pid: int) -> list[int]:
    """Direct children; by the whole table where the kernel has no lists of them."""
    try:
        return _children(pid)
    except NoLists:
        return [process.pid for process in process_table().values() if process.parent == pid]


def pids_below(root: int, enough: int = 0) -> list[int]:
    """Everything below the root, without it. More than `enough`, if that is not 0, need not be all of them."""
    found: dict[int, None] = {}
    parents = [root]
    try:
        while parents and not 0 < enough < len(found):
            born = [pid for pid in _children(parents.pop()) if pid not in found]
            found.update(dict.fromkeys(born))
            parents += born
    except NoLists:
        return [process.pid for process in descendants(process_table(), root)]
    return list(found)


def _children(pid: int) -> list[int]:
    """Of all its threads. Raises NoLists where the kernel was built without the list."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 as above
    except OSError:
        return []
    return [child for thread in threads for child in _children_of_thread(f"/proc/{pid}/task/{thread}")]


def _children_of_thread(folder: str) -> list[int]:
    try:
        return [int(word) for word in _all_contents(folder + "/children").split()]
    except OSError:
        if os.access(folder, os.F_OK):
            raise NoLists from None
        return []


def newest_pid() -> int:
    """The pid that was given out last on this machine, to a process or a thread. 0 where the kernel does not say."""
    try:
        return int(_contents("/proc/loadavg").split()[4])
    except (OSError, ValueError, IndexError):
        return 0


def memory_of(pids: list[int], enough: int) -> int:
    """What these processes have taken together and share with nobody else, in bytes.

    First by what can be read at once, in which pages that a fork has not copied yet count for both. Only where that
    is more than `enough` does it pay to have the kernel look at each page.
    """
    rough = {pid: _own_bytes(pid) for pid in pids}
    if sum(rough.values()) <= enough:
        return sum(rough.values())
    return sum(_fair_bytes(pid, own) for pid, own in rough.items())


def _own_bytes(pid: int) -> int:
    try:
        fields = _contents(f"/proc/{pid}/statm").split()
        return (int(fields[1]) - int(fields[2])) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0


def _fair_bytes(pid: int, otherwise: int) -> int:
    """Each page divided by how many have it. Of others' processes the kernel does not tell."""
    try:
        fields = _contents(f"/proc/{pid}/smaps_rollup").split()
        return int(fields[fields.index(b"Pss_Anon:") + 1]) << 10
    except (OSError, ValueError, IndexError):
        return otherwise


def _contents(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def _all_contents(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)
