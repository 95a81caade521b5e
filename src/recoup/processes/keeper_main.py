"""The keeper process: holds one process tree and lets nothing of it outlive the driver's lease.

It runs on a bare interpreter (`python -I -S`), so it imports little, to start quickly, and nothing of recoup.
Being a child subreaper, it inherits every orphan below it: when it has no child left, the tree is gone.

Standard input is the order: marshalled argv, cwd, env and stdin, because arguments are public and an
environment holds secrets. Standard output and error are the command's pipes. The channel is a SEQPACKET
socket; on it:

    driver → keeper    deadline DEADLINE · limits PROCESSES BYTES · go DEADLINE · stop GRACE · activity
    keeper → driver    ready · started PID · activity MARK · over SEEN · unkillable PID…
                       and last either refused WORDS or ended WHY CODE CPU KILLED

Deadlines are points on the boot clock, so that a suspended machine cannot stretch them. A limit of 0 is none. A tree
that is over one of them is killed at once: WHY is then processes_max or memory_max, and SEEN how much it had.
"""

import ctypes
import marshal
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal  # the public module spends 7 ms of every attempt on enums
if TYPE_CHECKING or __package__:
    from recoup.processes import process_table as table
else:
    import process_table as table

KILL_MARGIN_S = 1.0
UNKILLABLE_S = 10.0
SWEEP_PAUSE_MIN_S = 0.01
SWEEP_PAUSE_MAX_S = 1.0
MESSAGE_BYTES_MAX = 4096
REAPED_PER_TURN_MAX = 10_000
FAR_FUTURE_S = 10 * 365 * 86_400.0
FORK_LOOK_S = 0.02
"""Between two looks at how many processes the machine has begun, for a tree that could soon have too many."""
FORKS_PER_S_MAX = 20_000
"""The most that a tree is taken to begin: one that has room for thousands is looked at less often."""
COUNT_SHARE = 0.2
"""Of a processor, for counting the processes of a tree while others are begun quickly."""
LOOK_S = 0.5
LOOK_MAX_S = 5.0
LOOK_SHARE = 0.01
"""Of a processor, for looking at what the tree takes: whoever has thousands of processes is looked at less often."""

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
WALL = 0x40000000
_TFD_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1
CANNOT_EXECUTE = 127

_libc = ctypes.CDLL(None, use_errno=True)

Order = tuple[list[bytes], bytes, dict[bytes, bytes], bytes]


def main() -> None:
    order = _take_order()
    shed_signals()
    try:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        keeper = Keeper(int(sys.argv[-1]), order)
    except OSError as error:
        cannot_begin(error)
    try:
        keeper.run()
    except BaseException:
        keeper.kill_what_is_there()
        raise
    os._exit(0)  # nothing to flush, and tearing an interpreter down takes milliseconds


def heard(channel: int) -> list[str] | None:
    """What the driver says, word by word; nothing yet; or None: it is gone."""
    try:
        message = os.read(channel, MESSAGE_BYTES_MAX)
    except BlockingIOError:
        return []
    except OSError:
        return None
    return message.decode().split() if message else None


class Keeper:
    """One process tree, from the order to the proof that it is gone."""

    def __init__(self, channel: int, order: Order) -> None:
        os.set_inheritable(channel, False)
        os.set_blocking(channel, False)
        self.channel = channel
        self.order = order
        self.pid = os.getpid()
        self.main_pid = 0
        self.main_status: int | None = None
        self.exec_words = -1
        self.refused = ""
        self.why = ""
        self.over = False
        self.limits = Limits(0, 0)
        self.look_at_s = FAR_FUTURE_S
        self.whole_look_at_s = FAR_FUTURE_S
        self.lease_end_s = FAR_FUTURE_S
        self.grace_end_s = FAR_FUTURE_S
        self.killing_since_s: float | None = None
        self.rounds = Rounds()
        self.complained = False
        self.killed = 0
        self.timer = boot_timer()
        self.woken, self.waker = child_alarm()
        self.on_readable = {
            channel: self._hear,
            self.woken: self._count_children,
            self.timer: self._look_at_clock,
        }

    def run(self) -> None:
        self._say("ready")
        while not self.over:
            arm(self.timer, self._next_time_s())
            for fd in _readable(list(self.on_readable)):
                self.on_readable[fd]()
        if self.why:
            self._report()

    def kill_what_is_there(self) -> None:
        """The last resort of a keeper that failed itself."""
        for process in table.descendants(table.process_table(), self.pid):
            table.send(process, signal.SIGKILL)

    def _next_time_s(self) -> float:
        if self.killing_since_s is not None:
            return self.rounds.at_s
        return min(self.lease_end_s - KILL_MARGIN_S, self.grace_end_s, self.look_at_s)

    # What happens: the driver speaks or falls silent, time passes, children end.

    def _hear(self) -> None:
        words = heard(self.channel)
        if words:
            self._obey(words)
        elif words is None:
            self._lose_driver()

    def _obey(self, words: list[str]) -> None:
        match words:
            case ["limits", processes, memory]:
                self.limits = Limits(int(processes), int(memory))
            case ["go", deadline]:
                self.lease_end_s = float(deadline)
                self._launch()
            case ["deadline", deadline]:
                self.lease_end_s = float(deadline)
            case ["stop", grace]:
                self._stop(float(grace))
            case ["activity"]:
                self._say("activity " + table.activity(table.descendants(table.process_table(), self.pid)))

    def _lose_driver(self) -> None:
        del self.on_readable[self.channel]
        if self.main_pid:
            self._kill("lifeline")
        else:
            self.over = True

    def _look_at_clock(self) -> None:
        quiet(self.timer)
        now_s = boot_s()
        if self.killing_since_s is not None:
            self._sweep()
        elif now_s >= self.lease_end_s - KILL_MARGIN_S:
            self._outlive_lease()
        elif now_s >= self.grace_end_s:
            self._kill("stopped")
        elif now_s >= self.look_at_s:
            self._look_at_tree()

    def _outlive_lease(self) -> None:
        """A driver that was frozen before it said go is not waited for: whoever replaces it waits for our end."""
        if self.main_pid:
            self._kill("lifeline")
        else:
            self.why, self.over = "lifeline", True

    def _look_at_tree(self) -> None:
        """At everything now and then; at the number of processes as soon as enough were begun on this machine."""
        began_s, whole = time.process_time(), boot_s() >= self.whole_look_at_s
        over = self.limits.passed(self.pid) if whole else self.limits.passed_by_count(self.pid)
        took_s = time.process_time() - began_s
        if whole:
            self.whole_look_at_s = boot_s() + min(max(LOOK_S, took_s / LOOK_SHARE), LOOK_MAX_S)
        self._look_again(took_s)
        if over:
            why, seen = over
            if not self.why:
                self._say(f"over {seen}")
            self._kill(why)

    def _look_again(self, took_s: float = 0) -> None:
        soon_s = max(self.limits.pause_s(), took_s / COUNT_SHARE)
        self.look_at_s = min(self.whole_look_at_s, boot_s() + soon_s)

    def _count_children(self) -> None:
        quiet(self.woken)
        none_left = self._reap()
        if self.main_pid and none_left:
            self.why = self.why or "exit"
            self.over = True
        elif self.killing_since_s is not None:
            self._sweep()
        elif self.main_status is not None and not self.why:
            self._kill("exit")

    # What it does: launch, stop, kill, sweep, reap, report.

    def _launch(self) -> None:
        if boot_s() >= self.lease_end_s - KILL_MARGIN_S:
            self._outlive_lease()
            return
        self.exec_words, words = os.pipe()
        os.set_blocking(self.exec_words, False)
        try:
            self.main_pid = os.fork()
        except OSError as error:
            self.refused, self.why, self.over = refusal(error), "exit", True
            return
        if self.main_pid == 0:
            execute(self.order, words, self.pid)
        os.close(words)
        if self.limits:
            self.whole_look_at_s = boot_s() + LOOK_S
            self._look_again()
        point_at_null(1, 2)
        self._say(f"started {self.main_pid}")

    def _stop(self, grace_s: float) -> None:
        if self.why or not self.main_pid:
            return
        self.why = "stopped"
        self.grace_end_s = boot_s() + grace_s
        if grace_s <= 0:
            self._kill("stopped")
            return
        self._tell_tree(signal.SIGTERM)

    def _tell_tree(self, signum: int) -> None:
        self._tell_main_group(signum)
        others = [p for p in table.descendants(table.process_table(), self.pid) if p.group != self.main_pid]
        table.send_to_groups(others, signum, signal.SIGCONT)

    def _kill(self, why: str) -> None:
        self.why = self.why or why
        if self.killing_since_s is None:
            self.killing_since_s = boot_s()
            self._tell_main_group(signal.SIGKILL)
            self._sweep()

    def _tell_main_group(self, signum: int) -> None:
        """Most of a tree, in one go, before the table is read: thousands of processes take their time."""
        if self.main_status is None:  # until it is reaped nobody else can have its pid
            table.send_to_group(self.main_pid, signum, signal.SIGCONT)

    def _sweep(self) -> None:
        found = table.descendants(table.process_table(), self.pid)
        self.rounds.kill(found)
        self._complain(found)

    def _complain(self, left: "list[table.Process]") -> None:
        since_s = self.killing_since_s
        if self.complained or since_s is None or boot_s() < since_s + UNKILLABLE_S:
            return
        self.complained = True
        self._say("unkillable " + " ".join(str(process.pid) for process in left[:20]))

    def _reap(self) -> bool:
        """Bury the dead; True when no child is left, hence no descendant either."""
        for _ in range(REAPED_PER_TURN_MAX):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | WALL)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.main_pid:
                self.main_status = status
            if self.killing_since_s is not None:
                self.killed += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        os.write(self.waker, b"!")
        return False

    def _report(self) -> None:
        refused = self.refused or drained(self.exec_words)
        if refused:
            self._say(f"refused {refused}")
            return
        code = "-" if self.main_status is None else os.waitstatus_to_exitcode(self.main_status)
        self._say(f"ended {self.why} {code} {_children_cpu_ms()} {self.killed}")

    def _say(self, message: str) -> None:
        try:
            os.write(self.channel, message.encode("utf-8", "surrogateescape")[:MESSAGE_BYTES_MAX])
        except OSError:
            return  # a driver that is gone or frozen; the channel's end or the deadline tells


class Limits:
    """What a tree may take, and whether it takes more."""

    def __init__(self, processes: int, memory_bytes: int) -> None:
        self.processes = processes
        self.memory_bytes = memory_bytes
        self.known: set[int] = set()
        self.count = 0
        """Processes at the last look."""
        self.newest_pid = table.newest_pid()
        """Of the machine, before that look."""

    def __bool__(self) -> bool:
        return self.processes > 0 or self.memory_bytes > 0

    def pause_s(self) -> float:
        """How long the tree cannot get over its number of processes unless it begins more than anybody does."""
        if self.processes <= 0:
            return LOOK_S
        return min(LOOK_S, max(FORK_LOOK_S, (self.processes - self.count) / FORKS_PER_S_MAX))

    def passed_by_count(self, root: int) -> tuple[str, int] | None:
        """By the number of processes alone, and only if as many were begun since the last look as there was room for.
        Pids are given out one after the other; after they wrap around the number is unknown."""
        newest = table.newest_pid()
        if self.processes <= 0 or 0 <= newest - self.newest_pid <= self.processes - self.count:
            return None
        return self._counted(table.pids_below(root, self.processes), newest)

    def _counted(self, pids: list[int], newest_pid: int) -> tuple[str, int] | None:
        self.count, self.newest_pid = len(pids), newest_pid
        return ("processes_max", len(pids)) if 0 < self.processes < len(pids) else None

    def passed(self, root: int) -> tuple[str, int] | None:
        """Which limit the tree below the root is over, and how much it has."""
        newest = table.newest_pid()
        pids = table.pids_below(root, self.processes)
        if over := self._counted(pids, newest):
            return over
        # One that was just forked may share all its memory with its parent until it executes something.
        settled = [pid for pid in pids if pid in self.known]
        self.known = set(pids)
        taken = table.memory_of(settled, self.memory_bytes) if self.memory_bytes > 0 else 0
        return ("memory_max", taken) if taken > self.memory_bytes else None


class Rounds:
    """Killing in rounds: as long as somebody new turns up, who may have forked, the next one comes at once."""

    def __init__(self) -> None:
        self.at_s = FAR_FUTURE_S
        self.pause_s = SWEEP_PAUSE_MIN_S
        self.seen: set[tuple[int, int]] = set()

    def begin(self) -> None:
        self.at_s = boot_s()
        self.pause_s = SWEEP_PAUSE_MIN_S

    def go_on(self) -> None:
        self.at_s = min(self.at_s, boot_s() + self.pause_s)

    def end(self) -> None:
        self.at_s = FAR_FUTURE_S
        self.seen.clear()

    def pause(self) -> None:
        self.at_s = boot_s() + self.pause_s
        self.pause_s = min(2 * self.pause_s, SWEEP_PAUSE_MAX_S)

    def kill(self, found: "list[table.Process]") -> None:
        fresh = [process for process in found if process.key not in self.seen]
        table.send_to_groups(fresh, signal.SIGKILL)
        for process in [] if fresh else found:
            table.send(process, signal.SIGKILL)
        self.seen.update(process.key for process in fresh)
        if fresh:
            self.begin()
        else:
            self.pause()


def execute(order: Order, words: int, parent_pid: int) -> None:
    """In the child, never returns: become the command, or leave word why not."""
    try:
        argv, cwd, env, stdin = order
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent_pid:
            _default_signals()
            os.chdir(cwd)
            _feed(stdin)
            _exec(argv, env)
    except OSError as error:
        os.write(words, refusal(error).encode("utf-8", "surrogateescape"))
    except (ValueError, IndexError) as error:
        os.write(words, str(error).encode("utf-8", "surrogateescape"))
    finally:
        os._exit(CANNOT_EXECUTE)


def _feed(stdin: bytes) -> None:
    """A file in memory, so that however much there is nobody has to wait, and nothing is ever on a disk."""
    if not stdin:
        return
    fd = os.memfd_create("stdin")
    with open(fd, "wb", closefd=False) as file:
        file.write(stdin)
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)


def _exec(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Search the PATH of the command's own environment, as a shell in that environment would."""
    if b"/" in argv[0]:
        os.execve(argv[0], argv, env)
    refusal: OSError = FileNotFoundError(2, "No such file or directory", argv[0])
    for folder in env.get(b"PATH", os.fsencode(os.defpath)).split(b":"):
        try:
            os.execve((folder or b".") + b"/" + argv[0], argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            refusal = error
    raise refusal


def os_words(error: OSError) -> str:
    name = os.fsdecode(error.filename) if error.filename else ""
    return f"{error.strerror}: {name}" if name else str(error.strerror)


def refusal(error: OSError) -> str:
    """What a driver is told: the number of the error, so that nobody has to read the words, and the words."""
    return f"E{error.errno or 0} {os_words(error)}"


def cannot_begin(error: OSError) -> "NoReturn":
    """Before there is a tree: a line on stderr for the driver, which reads it if `ready` never comes."""
    os.write(2, os_words(error).encode("utf-8", "surrogateescape"))
    os._exit(CANNOT_EXECUTE)


def _take_order() -> Order:
    with open(0, "rb", closefd=False) as stdin:
        order: Order = marshal.loads(stdin.read())
    point_at_null(0)
    return order


def point_at_null(*fds: int) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for fd in fds:
        os.dup2(null, fd)
    os.close(null)


def shed_signals() -> None:
    """Signals meant for the driver are the driver's business: it says what to do on the channel."""
    for signum in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
    ):
        signal.signal(signum, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _default_signals() -> None:
    for signum in range(1, signal.NSIG):
        try:
            signal.signal(signum, signal.SIG_DFL)
        except (OSError, ValueError):
            continue  # KILL and STOP, and those that the C library keeps
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl: " + os.strerror(ctypes.get_errno()))


def child_alarm() -> tuple[int, int]:
    """A pipe that becomes readable when a child has ended."""
    woken, waker = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return woken, waker


def boot_timer() -> int:
    fd: int = _libc.timerfd_create(time.CLOCK_BOOTTIME, _TFD_NONBLOCK_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create: " + os.strerror(ctypes.get_errno()))
    return fd


def arm(timer: int, at_s: float) -> None:
    nanoseconds = max(1, int(min(at_s, boot_s() + FAR_FUTURE_S) * 1e9))
    setting = (ctypes.c_long * 4)(0, 0, nanoseconds // 10**9, nanoseconds % 10**9)
    _libc.timerfd_settime(timer, _TFD_TIMER_ABSTIME, setting, None)


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _readable(fds: list[int]) -> list[int]:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll()]


def quiet(fd: int) -> None:
    try:
        os.read(fd, 4096)
    except BlockingIOError:
        return


def drained(fd: int) -> str:
    if fd < 0:
        return ""
    try:
        return os.read(fd, MESSAGE_BYTES_MAX // 2).decode("utf-8", "surrogateescape")
    except BlockingIOError:
        return ""


def _children_cpu_ms() -> int:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(1000 * (used.ru_utime + used.ru_stime))
