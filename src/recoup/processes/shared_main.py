"""The shared keeper: one process that holds many process trees, and lets nothing of them outlive the driver's lease.

Like the keeper of one tree (`keeper_main`) it runs on a bare interpreter, imports little and nothing of recoup. Each
tree hangs on an **anchor**: a child of the keeper that has started the command and then become the smallest shell there
is. An anchor is a child subreaper, so whatever daemonises below it stays below it: who belongs to which tree is told by
parents alone. It buries nobody unless told to: how the command ended can be read until the keeper has seen it.

When nothing below an anchor lives, or when somebody has killed it, the anchor goes, and its children become those of
the keeper, which buries the dead and ends the living, whosever they were: a child that is no anchor has no business
there. The anchors die with the keeper, and the commands with their anchors.

Its last two arguments are that shell, and what makes an anchor of it.
Standard input is the control socket (SEQPACKET): each message brings one tree, as four descriptors: its order (see
`keeper_main.Order`), its channel, and the pipes for what it prints. On a tree's channel the same is said as to a keeper
of one tree. Standard error is for the words of a keeper that cannot start.
"""

import _socket
import marshal
import os
import resource
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from recoup.processes import keeper_main as single
    from recoup.processes import process_table as table
    from recoup.processes.keeper_main import Order
    from recoup.processes.process_table import Process
else:
    import _signal as signal

    import keeper_main as single
    import process_table as table

DESCRIPTORS = 4
TIDY_S = 30.0
DEAD_MAX = 20
"""So many dead may wait below an anchor before it is told to bury them."""
LAUNCH_S = 10.0
LINGERING = "ZX"
NOTHING: "Order" = ([], b"", {}, b"")
_INT_BYTES = 4


def main() -> None:
    shell, script = sys.argv[-2:]
    control = _socket.socket(fileno=os.dup(0))
    single.point_at_null(0, 1)
    single.shed_signals()
    try:
        single.prctl(single.PR_SET_CHILD_SUBREAPER, 1)
        keeper = SharedKeeper(control, os.fsencode(shell), os.fsencode(script))
    except OSError as error:
        single.cannot_begin(error)
    try:
        keeper.run()
    except BaseException:
        keeper.kill_what_is_there()
        raise
    os._exit(0)


class SharedKeeper:
    """All the trees of one driver, and the time that they have."""

    def __init__(self, control: _socket.socket, shell: bytes, script: bytes) -> None:
        control.setblocking(False)
        self.control = control
        self.shell = shell
        self.script = script
        self.pid = os.getpid()
        self.limits = _raised_limits()
        self.trees: set[Tree] = set()
        self.anchors: dict[int, Tree] = {}
        self.mains: dict[int, Tree] = {}
        self.known_dead: set[int] = set()
        """Those that were dead before their anchor went."""
        self.strays = single.Rounds()
        self.tidy_at_s = single.boot_s() + TIDY_S
        self.driven = True
        self.timer = single.boot_timer()
        self.woken, self.waker = single.child_alarm()
        self.epoll = select.epoll()
        self.on_readable: dict[int, Callable[[], None]] = {}
        self.watch(control.fileno(), self._take_tree)
        self.watch(self.woken, self._count_children)
        self.watch(self.timer, lambda: single.quiet(self.timer))

    def run(self) -> None:
        while self.driven or self.trees:
            single.arm(self.timer, self._next_time_s())
            for fd, take in [(fd, self.on_readable[fd]) for fd, _ in self.epoll.poll()]:
                if self.on_readable.get(fd) is take:  # an earlier one of this turn may have closed it
                    take()
            self._look()

    def watch(self, fd: int, take: "Callable[[], None]") -> None:
        self.epoll.register(fd, select.EPOLLIN)
        self.on_readable[fd] = take

    def close(self, fd: int) -> None:
        if self.on_readable.pop(fd, None):
            self.epoll.unregister(fd)
        os.close(fd)

    def kill_what_is_there(self) -> None:
        """The last resort of a keeper that failed itself."""
        for process in table.descendants(table.process_table(), self.pid):
            table.send(process, signal.SIGKILL)

    def _next_time_s(self) -> float:
        tidy_at_s = self.tidy_at_s if self.anchors else single.FAR_FUTURE_S
        return min(
            self.strays.at_s, tidy_at_s, *(tree.next_time_s() for tree in self.trees), single.FAR_FUTURE_S
        )

    # What happens: the driver brings a tree or is gone, children end, time passes.

    def _take_tree(self) -> None:
        try:
            message, ancillary, _, _ = self.control.recvmsg(
                single.MESSAGE_BYTES_MAX, _socket.CMSG_LEN(DESCRIPTORS * _INT_BYTES), _socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        except OSError:
            message, ancillary = b"", []
        fds = [fd for _, _, data in ancillary for fd in _ints(data)]
        if len(fds) == DESCRIPTORS:
            self._add_tree(fds)
        elif message:
            _close_all(fds)  # there was no room for all of them: the channel's end tells the driver
        else:
            self.driven = False
            self.close(self.control.detach())

    def _add_tree(self, fds: list[int]) -> None:
        order = _read_order(fds.pop(0))
        try:
            self.trees.add(Tree(self, order, *fds))
        except OSError:
            _close_all(fds)

    def _count_children(self) -> None:
        single.quiet(self.woken)
        self._bury()

    def _bury(self) -> int:
        """How many were children that nobody knew to be dead."""
        unknown = 0
        for _ in range(single.REAPED_PER_TURN_MAX):
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG | single.WALL)
            except ChildProcessError:
                return unknown
            if pid == 0:
                return unknown
            unknown += self._bury_one(pid, status, used)
        os.write(self.waker, b"!")
        return unknown

    def _bury_one(self, pid: int, status: int, used: resource.struct_rusage) -> bool:
        anchored = self.anchors.pop(pid, None)
        if anchored is not None:
            anchored.lose_anchor(used)
            self.strays.begin()
            return False
        tree = self.mains.pop(pid, None)
        if tree is not None:
            tree.note_main(status, used)
        return pid not in self.known_dead

    # What it does: look at all processes once, for every tree that wants to know.

    def _look(self) -> None:
        now_s = single.boot_s()
        for tree in self.trees:
            tree.look_at_clock(now_s)
        tidying = now_s >= self.tidy_at_s
        wanting = [tree for tree in self.trees if tree.anchor_pid and (tidying or now_s >= tree.rounds.at_s)]
        ending = now_s >= self.strays.at_s
        if wanting or ending:
            children = table.children_of(table.process_table())
            for tree in wanting:
                tree.look(children, now_s)
            if ending:
                self._end_strays(children)
        if tidying:
            self.tidy_at_s = now_s + TIDY_S
        for tree in [tree for tree in self.trees if tree.over]:
            self.trees.remove(tree)

    def _end_strays(self, children: "dict[int, list[Process]]") -> None:
        """A tree that lost its anchor before this look is gone if nobody was seen alive and nobody has died meanwhile.

        That is a proof: whoever lived when the look began was seen alive, or has died since and lies here unburied.
        """
        waiting = [tree for tree in self.trees if tree.adrift]
        found = [
            process
            for child in children.get(self.pid, [])
            if child.pid not in self.anchors
            for process in [child, *table.below(children, child.pid)]
            if process.state not in LINGERING
        ]
        self.strays.kill(found)
        if self._bury():
            self.strays.begin()
        elif not found:
            self.strays.end()
            for tree in waiting:
                tree.report()
        for tree in waiting:
            tree.complain(found)
        if any(tree.adrift for tree in self.trees):
            self.strays.go_on()


class Tree:
    """One process tree, from the order to the proof that it is gone."""

    def __init__(self, keeper: SharedKeeper, order: "Order", channel: int, stdout: int, stderr: int) -> None:
        self.keeper = keeper
        self.order = order
        self.channel = channel
        self.pipes = [stdout, stderr]
        self.anchor_pid = 0
        self.adrift = False
        """Its anchor is gone."""
        self.gate = -1
        self.words = -1
        self.main_pid = 0
        self.main_pidfd = -1
        self.main_status: int | None = None
        self.refused = ""
        self.why = ""
        self.over = False
        self.lease_end_s = single.FAR_FUTURE_S
        self.grace_end_s = single.FAR_FUTURE_S
        self.killing_since_s: float | None = None
        self.to_tell = False
        self.complained = False
        self.rounds = single.Rounds()
        self.killed: set[int] = set()
        self.dead: set[int] = set()
        self.cpu_s = 0.0
        os.set_blocking(channel, False)
        keeper.watch(channel, self._hear)
        self._say("ready")

    def next_time_s(self) -> float:
        if self.killing_since_s is not None:
            return self.rounds.at_s
        return min(self.rounds.at_s, self.lease_end_s - single.KILL_MARGIN_S, self.grace_end_s)

    # What happens: the driver speaks or falls silent, time passes, the command or the anchor ends.

    def look_at_clock(self, now_s: float) -> None:
        if self.over or self.killing_since_s is not None:
            return
        if now_s >= self.lease_end_s - single.KILL_MARGIN_S:
            self._outlive_lease()
            self.keeper.driven = False  # whoever takes the lease over waits for the end of this keeper
        elif self.anchor_pid and now_s >= self.grace_end_s:
            self._kill("stopped")

    def _outlive_lease(self) -> None:
        if self.anchor_pid:
            self._kill("lifeline")
        else:
            self.why = "lifeline"
            self.report()

    def note_main(self, status: int, used: resource.struct_rusage) -> None:
        self.main_status = status
        self.cpu_s += used.ru_utime + used.ru_stime
        self._count_killed(self.main_pid, status)

    def lose_anchor(self, used: resource.struct_rusage) -> None:
        self.anchor_pid, self.adrift = 0, True
        self.why = self.why or "exit"
        self.cpu_s += used.ru_utime + used.ru_stime
        self.killing_since_s = self.killing_since_s or single.boot_s()
        self.rounds.end()
        if self.gate >= 0:
            os.close(self.gate)
            self.gate = -1

    def _hear(self) -> None:
        words = single.heard(self.channel)
        if words:
            self._obey(words)
        elif words is None:
            self._lose_driver()

    def _obey(self, words: list[str]) -> None:
        match words:
            case ["go", deadline] if not self.main_pid:
                self.lease_end_s = float(deadline)
                self._launch()
            case ["deadline", deadline]:
                self.lease_end_s = float(deadline)
            case ["stop", grace]:
                self._stop(float(grace))
            case ["activity"]:
                children = table.children_of(table.process_table())
                self._say("activity " + table.activity(table.below(children, self.anchor_pid)))

    def _lose_driver(self) -> None:
        self.keeper.close(self.channel)
        self.channel = -1
        if self.anchor_pid:
            self._kill("lifeline")
        elif not self.adrift:
            self._close()

    def _main_ended(self) -> None:
        """Nobody has buried it yet, so how it ended can be read. All others have the grace that is left, or none."""
        if not self._main_is_over():
            return
        self.keeper.close(self.main_pidfd)
        self.main_pidfd = -1
        left = table.process_of(self.main_pid)
        if left is not None and self.main_status is None:
            self.main_status = left.exit_status
        if self.why:
            self.rounds.begin()
        else:
            self._kill("exit")

    def _main_is_over(self) -> bool:
        poll = select.poll()
        poll.register(self.main_pidfd, select.POLLIN)
        return bool(poll.poll(0))

    # What it does: launch, stop, kill, look, report.

    def _launch(self) -> None:
        if single.boot_s() >= self.lease_end_s - single.KILL_MARGIN_S:
            self._outlive_lease()
            return
        try:
            self._set_sail()
        except OSError as error:
            self.refused = single.refusal(error)
        if not self.anchor_pid:
            self.report()
        elif self.main_pid:
            self._say(f"started {self.main_pid}")
        else:
            os.kill(self.anchor_pid, signal.SIGKILL)

    def _set_sail(self) -> None:
        """The anchor says who the command is; if it ends without a word, its own words say why."""
        passed, heard = self.pipes, list[int]()
        try:
            self.words = _pipe_to(passed)
            self.gate = _pipe_from(passed)
            heard.append(_pipe_to(passed))
            self._fork_anchor(*passed[2:])
            _close_all(passed)
            self._hold_main(_said_pid(heard[0]))
        finally:
            _close_all(passed)
            _close_all(heard)
            self.order = NOTHING  # an environment holds secrets, and hundreds of them fill memory

    def _fork_anchor(self, words: int, gate: int, say: int) -> None:
        pid = os.fork()
        if pid == 0:
            self._become_anchor(words, gate, say)
        self.anchor_pid = pid
        self.keeper.anchors[pid] = self

    def _hold_main(self, pid: int) -> None:
        if not pid:
            return
        self.main_pidfd = os.pidfd_open(pid)
        self.keeper.watch(self.main_pidfd, self._main_ended)
        self.keeper.watch(self.words, self._read_words)
        self.keeper.mains[pid] = self
        self.main_pid = pid

    def _become_anchor(self, words: int, gate: int, say: int) -> None:
        """In the child, never returns: start the command, then be its anchor."""
        try:
            single.prctl(single.PR_SET_PDEATHSIG, signal.SIGKILL)
            single.prctl(single.PR_SET_CHILD_SUBREAPER, 1)
            own_pid = os.getpid()
            if os.getppid() != self.keeper.pid:
                os._exit(single.CANNOT_EXECUTE)
            resource.setrlimit(resource.RLIMIT_NOFILE, self.keeper.limits)
            os.dup2(self.pipes[0], 1)
            os.dup2(self.pipes[1], 2)
            main_pid = os.fork()
            if main_pid == 0:
                single.execute(self.order, words, own_pid)
            os.write(say, str(main_pid).encode())
            single.point_at_null(1, 2)
            os.dup2(gate, 0)
            os.execve(self.keeper.shell, [b"recoup-anchor", b"-c", self.keeper.script], {})
        except OSError as error:
            os.write(words, single.refusal(error).encode("utf-8", "surrogateescape"))
        finally:
            os._exit(single.CANNOT_EXECUTE)

    def _read_words(self) -> None:
        self.refused = self.refused or single.drained(self.words)
        self.keeper.close(self.words)
        self.words = -1

    def _stop(self, grace_s: float) -> None:
        if self.why or not self.anchor_pid:
            return
        self.why = "stopped"
        self.grace_end_s = single.boot_s() + grace_s
        if grace_s <= 0:
            self._kill("stopped")
            return
        self._tell_main_group(signal.SIGTERM)
        self.to_tell = True
        self.rounds.begin()

    def _kill(self, why: str) -> None:
        self.why = self.why or why
        if self.killing_since_s is None:
            self.killing_since_s = single.boot_s()
            self._tell_main_group(signal.SIGKILL)
            self.rounds.begin()

    def _tell_main_group(self, signum: int) -> None:
        """Most of a tree, in one go, before the table is read."""
        if self.main_pidfd >= 0 and not self._main_is_over():
            table.send_to_group(self.main_pid, signum, signal.SIGCONT)

    def look(self, children: "dict[int, list[Process]]", now_s: float) -> None:
        everybody = table.below(children, self.anchor_pid)
        living = [process for process in everybody if process.state not in LINGERING]
        for process in everybody:
            if process.state in LINGERING:
                self._count_killed(process.pid, process.exit_status)
        if not living and self.main_pidfd < 0:
            self._weigh_anchor(everybody)
        elif now_s >= self.rounds.at_s:
            self._act_on(living)
        self._tidy(children)

    def _weigh_anchor(self, dead: "list[Process]") -> None:
        """All below it are dead: they become the keeper's, which buries them."""
        self.dead.update(process.pid for process in dead)
        self.keeper.known_dead |= self.dead
        os.kill(self.anchor_pid, signal.SIGKILL)
        self.rounds.end()

    def _act_on(self, living: "list[Process]") -> None:
        if self.killing_since_s is not None:
            self.rounds.kill(living)
            self.complain(living)
        elif self.to_tell:
            self._tell_others(living)
        else:
            self.rounds.pause()

    def _tell_others(self, living: "list[Process]") -> None:
        self.to_tell = False
        others = [process for process in living if process.group != self.main_pid]
        table.send_to_groups(others, signal.SIGTERM, signal.SIGCONT)
        if self.main_pidfd < 0:
            self.rounds.pause()
        else:
            self.rounds.end()

    def _count_killed(self, pid: int, status: int) -> None:
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        # A command that somebody else has killed was the first to go: it is not among those that it left.
        by_others = pid == self.main_pid and self.why == "exit"
        if killed and self.killing_since_s is not None and not by_others:
            self.killed.add(pid)

    def _tidy(self, children: "dict[int, list[Process]]") -> None:
        """How the command ended must have been read before it can be buried."""
        dead = [process for process in children.get(self.anchor_pid, []) if process.state in LINGERING]
        if len(dead) <= DEAD_MAX or (self.main_pidfd >= 0 and self._main_is_over()):
            return
        try:
            os.write(self.gate, b"\n")
        except OSError:
            return  # it has been told often enough, or is gone

    def complain(self, left: "list[Process]") -> None:
        since_s = self.killing_since_s
        if not left or self.complained or since_s is None or single.boot_s() < since_s + single.UNKILLABLE_S:
            return
        self.complained = True
        self._say("unkillable " + " ".join(str(process.pid) for process in left[:20]))

    def report(self) -> None:
        """Nothing of it is left, or nothing was begun."""
        if self.words >= 0:
            self._read_words()
        code = "-" if self.main_status is None else os.waitstatus_to_exitcode(self.main_status)
        if self.refused:
            self._say(f"refused {self.refused}")
        else:
            self._say(f"ended {self.why} {code} {round(1000 * self.cpu_s)} {len(self.killed)}")
        self._close()

    def _close(self) -> None:
        self.over, self.adrift = True, False
        self.keeper.mains.pop(self.main_pid, None)
        self.keeper.known_dead -= self.dead
        for fd in (self.channel, self.words, self.main_pidfd, self.gate, *self.pipes):
            if fd >= 0:
                self.keeper.close(fd)
        self.channel = self.words = self.main_pidfd = self.gate = -1
        self.pipes = []

    def _say(self, message: str) -> None:
        try:
            os.write(self.channel, message.encode("utf-8", "surrogateescape")[: single.MESSAGE_BYTES_MAX])
        except OSError:
            return  # a driver that is gone or frozen; the channel's end or the deadline tells


def _pipe_to(passed: list[int]) -> int:
    near, far = os.pipe()
    passed.append(far)
    os.set_blocking(near, False)
    return near


def _pipe_from(passed: list[int]) -> int:
    far, near = os.pipe()
    passed.append(far)
    os.set_blocking(near, False)
    return near


def _close_all(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())


def _read_order(fd: int) -> "Order":
    with open(fd, "rb") as file:
        file.seek(0)
        order: Order = marshal.loads(file.read())
    return order


def _said_pid(fd: int) -> int:
    """0: the anchor has ended, or somebody holds it up."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    said = os.read(fd, 32) if poll.poll(1000 * LAUNCH_S) else b""
    return int(said or b"0")


def _ints(data: bytes) -> list[int]:
    return memoryview(data[: len(data) // _INT_BYTES * _INT_BYTES]).cast("i").tolist()


def _raised_limits() -> tuple[int, int]:
    """Three descriptors for each tree; what the commands find are the limits from before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft, hard
