"""One keeper for many trees: what it shares, what it keeps apart, and what is left when any part of it is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from recoup.model.ids import ProcessIdentity
from recoup.model.process import Ended, EndedBy, ProcessSpec
from recoup.processes import shared_process
from recoup.processes.identity import identify, is_alive, wait_dead
from recoup.processes.keeper import LinuxKeeper, shared_keeper
from recoup.processes.process_table import Process, children_of, descendants, process_of, process_table

PATIENCE_S = 20.0
STUBBORN = "trap '' TERM HUP INT; while :; do sleep 0.05; done"
DAEMONS = f'setsid bash -c "{STUBBORN}" & env -i setsid bash -c "{STUBBORN}; # $TOKEN" &'
"""In sessions of their own; one has forgotten its environment."""

if shared_process.anchor_shell() is None:
    pytest.skip("no shell here can be an anchor (Debian: dash)", allow_module_level=True)


class Always:
    """A lease that does not run out."""

    deadline_boot_s = float("inf")

    def attach(self, extend: Callable[[float], None]) -> Callable[[], None]:
        del extend
        return lambda: None


class Yard:
    """Trees under one shared keeper, all with one token, so that survivors can be counted from outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = uuid.uuid4().hex
        self.kept = shared_keeper()
        self.keepers: list[ProcessIdentity] = []
        self.stop = asyncio.Event()
        self.out = b""

    def begin(self, script: str, stop: asyncio.Event | None = None) -> asyncio.Task[Ended]:
        return asyncio.create_task(self.keep(script, stop))

    async def keep(self, script: str, stop: asyncio.Event | None = None) -> Ended:
        async def before_exec(keeper: ProcessIdentity) -> None:
            self.keepers.append(keeper)

        spec = ProcessSpec(
            argv=("bash", "-c", script),
            cwd=str(self.folder),
            env={"TOKEN": self.token, "PATH": os.environ["PATH"]},
            wall_timeout_s=60,
            idle_timeout_s=None,
            grace_s=0.2,
        )
        return await self.kept.keep(
            spec, before_exec=before_exec, lifeline=Always(), output=self.take, stop=stop or self.stop
        )

    def take(self, name: str, chunk: bytes) -> None:
        del name
        self.out += chunk

    async def pid_in(self, name: str) -> int:
        path = self.folder / name
        await until(lambda: path.exists() and path.read_text().endswith("\n"))
        return int(path.read_text())

    def survivors(self) -> list[int]:
        mark = self.token.encode()
        return [pid for pid in process_table() if mark in contents(pid, "environ") + contents(pid, "cmdline")]


@pytest.fixture
async def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


def contents(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


async def anchor_of(pid: int) -> int:
    """The command may begin a moment before its anchor is one."""
    process = process_of(pid)
    assert process is not None
    await until(lambda: b"recoup-anchor" in contents(process.parent, "cmdline"))
    return process.parent


async def test_all_trees_have_one_keeper_which_goes_with_the_last(yard: Yard) -> None:
    trees = [yard.begin(f"trap '' TERM; echo $$ > {number}; {STUBBORN}") for number in range(5)]
    mains = [await yard.pid_in(str(number)) for number in range(5)]
    assert len(set(yard.keepers)) == 1 and len(yard.keepers) == 5
    assert len({await anchor_of(main) for main in mains}) == 5
    yard.stop.set()
    ends = await asyncio.gather(*trees)
    assert {(ended.ended_by, ended.signal) for ended in ends} == {(EndedBy.STOPPED, signal.SIGKILL)}
    assert is_alive(yard.keepers[0]) is False
    assert yard.survivors() == []


async def test_one_tree_is_stopped_with_its_daemons_and_the_others_go_on(yard: Yard) -> None:
    stop = asyncio.Event()
    stopped = yard.begin(f"{DAEMONS} echo $$ > first; {STUBBORN}", stop)
    other = yard.begin(f"{DAEMONS} echo $$ > second; sleep 1; exit 9")
    await yard.pid_in("first")
    await yard.pid_in("second")
    stop.set()
    assert (await stopped).ended_by is EndedBy.STOPPED
    assert not other.done() and len(yard.survivors()) >= 3
    assert (await other).exit_code == 9
    assert yard.survivors() == []


async def test_a_killed_anchor_takes_its_tree_along_and_no_other(yard: Yard) -> None:
    hit = yard.begin(f"{DAEMONS} sleep 0.2; echo $$ > first; {STUBBORN}")
    other = yard.begin("echo $$ > second; sleep 1.2; exit 9")
    first, second = await yard.pid_in("first"), await yard.pid_in("second")
    os.kill(await anchor_of(first), signal.SIGKILL)
    ended = await asyncio.wait_for(hit, PATIENCE_S)
    assert (ended.ended_by, ended.signal) == (EndedBy.EXIT, signal.SIGKILL)
    anchors = {anchor_of_line(pid) for pid in yard.survivors()}
    assert anchors == {await anchor_of(second)}, "daemons of the first are left"
    assert (await other).exit_code == 9
    assert yard.survivors() == []


async def test_a_command_that_somebody_else_has_killed_is_not_among_those_that_it_left(yard: Yard) -> None:
    alone = yard.begin("echo $$ > alone; exec sleep 600")
    with_daemon = yard.begin(f'setsid bash -c "{STUBBORN}" & sleep 0.2; echo $$ > with; {STUBBORN}')
    for name in ("alone", "with"):
        os.kill(await yard.pid_in(name), signal.SIGKILL)
    ends = await asyncio.gather(alone, with_daemon)
    assert [ended.signal for ended in ends] == [signal.SIGKILL, signal.SIGKILL]
    assert ends[0].killed == 0 and ends[1].killed >= 1


def anchor_of_line(pid: int) -> int:
    """The anchor above it, however far; 0 if there is none."""
    while (process := process_of(pid)) is not None:
        if b"recoup-anchor" in contents(pid, "cmdline"):
            return pid
        pid = process.parent
    return 0


async def test_signals_and_a_freeze_do_not_keep_an_anchor_from_its_duty(yard: Yard) -> None:
    tree = yard.begin(f"{DAEMONS} echo $$ > first; {STUBBORN}")
    anchor = await anchor_of(await yard.pid_in("first"))
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGSTOP):
        os.kill(anchor, signum)
    await asyncio.sleep(0.1)
    assert not tree.done()
    yard.stop.set()
    assert (await asyncio.wait_for(tree, PATIENCE_S)).ended_by is EndedBy.STOPPED
    assert yard.survivors() == []


async def test_a_killed_keeper_takes_all_trees_along_and_the_next_tree_has_a_new_one(yard: Yard) -> None:
    """The anchors and commands die with it; what left their sessions is found by its mark."""
    daemon = f'setsid bash -c "{STUBBORN}" & env -i bash -c "{STUBBORN}; # $TOKEN" &'
    trees = [yard.begin(f"{daemon} sleep 0.1; echo $$ > {number}; {STUBBORN}") for number in range(4)]
    for number in range(4):
        await yard.pid_in(str(number))
    os.kill(yard.keepers[0].pid, signal.SIGKILL)
    assert await wait_dead(yard.keepers[0], 5)
    next_one = yard.begin("sleep 0.3; exit 6")
    ends = await asyncio.wait_for(asyncio.gather(*trees), PATIENCE_S)
    assert {(ended.ended_by, ended.signal) for ended in ends} == {(EndedBy.EXIT, signal.SIGKILL)}
    assert all("keeper" in ended.detail for ended in ends)
    assert (await next_one).exit_code == 6
    assert yard.keepers[-1] != yard.keepers[0]
    assert yard.survivors() == []


async def test_trees_that_come_and_go_leave_nothing_in_the_keeper(yard: Yard) -> None:
    lasting = yard.begin(f"echo $$ > first; {STUBBORN}")
    await anchor_of(await yard.pid_in("first"))
    await asyncio.sleep(0.1)
    pid = yard.keepers[0].pid
    before = held_by(pid)
    for _ in range(5):
        await asyncio.gather(*(yard.keep("(setsid sleep 0.01 &); exit 3") for _ in range(4)))
    assert len(set(yard.keepers)) == 1
    await until(lambda: held_by(pid) == before)
    yard.stop.set()
    await lasting


def held_by(pid: int) -> tuple[int, int]:
    """How many descriptors it has open, and how many children."""
    children = children_of(process_table()).get(pid, [])
    return len(list(Path(f"/proc/{pid}/fd").iterdir())), len(children)


async def test_a_command_finds_the_limits_of_the_driver(yard: Yard) -> None:
    await yard.keep("ulimit -Sn; ulimit -Hn")
    expected = subprocess.run(["bash", "-c", "ulimit -Sn; ulimit -Hn"], capture_output=True, check=True)
    assert yard.out == expected.stdout


async def test_nothing_of_one_tree_is_open_in_another(yard: Yard) -> None:
    """Or its output would not end before the other does."""
    lasting = yard.begin(f"echo $$ > first; {STUBBORN}")
    main = await yard.pid_in("first")
    others = [yard.begin("sleep 0.3; ls /proc/$$/fd") for _ in range(3)]
    for pid in (main, await anchor_of(main)):
        opened = {link.name for link in Path(f"/proc/{pid}/fd").iterdir()}
        assert {name for name in opened if name != "255"} == {"0", "1", "2"}  # 255 is bash's own
    ends = await asyncio.gather(*others)
    assert {ended.exit_code for ended in ends} == {0}
    yard.stop.set()
    await lasting


@pytest.mark.parametrize("script", ["exit 0", "exit 137", "exit 143", "kill -KILL $$", "kill -TERM $$"])
def test_how_a_dead_process_ended_is_read_as_whoever_buries_it_is_told(script: str) -> None:
    with subprocess.Popen(["bash", "-c", script]) as popen:
        wait_for(lambda: (row := process_of(popen.pid)) is not None and row.state == "Z")
        row = process_of(popen.pid)
        assert row is not None
        assert os.waitstatus_to_exitcode(row.exit_status) == popen.wait()


def test_an_anchor_buries_its_dead_when_told_and_not_before() -> None:
    """Fifty orphans end below it; its first child, which it did not start itself, among them."""
    become = textwrap.dedent("""
        import ctypes, os, sys
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
        for _ in range(50):
            if os.fork() == 0:
                os._exit(7)
        os.execv(sys.argv[1], ["recoup-anchor", "-c", sys.argv[2]])
    """)
    shell = shared_process.anchor_shell()
    assert shell is not None
    argv = [sys.executable, "-I", "-S", "-c", become, shell, shared_process.ANCHOR]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as anchor:
        assert anchor.stdin is not None
        wait_for(
            lambda: len(dead_below(anchor.pid)) == 50 and b"recoup-anchor" in contents(anchor.pid, "cmdline")
        )
        time.sleep(0.1)
        dead = dead_below(anchor.pid)
        assert [process.exit_status for process in dead] == 50 * [7 << 8]
        os.write(anchor.stdin.fileno(), b"\n")
        wait_for(lambda: dead_below(anchor.pid) == [])
        anchor.stdin.close()
        assert anchor.wait(PATIENCE_S) == 0


def dead_below(pid: int) -> list[Process]:
    return [process for process in descendants(process_table(), pid) if process.state == "Z"]


def wait_for(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, "it did not come about"
        time.sleep(0.01)


async def test_orphans_by_the_hundred_do_not_hide_how_the_command_ended(yard: Yard) -> None:
    ended = await yard.keep("for i in {1..300}; do (sleep 0.01 &); done; sleep 0.2; exit 5")
    assert (ended.ended_by, ended.exit_code) == (EndedBy.EXIT, 5)
    assert yard.survivors() == []


DRIVER = """
import asyncio, os, sys, time
from recoup.model.process import ProcessSpec
from recoup.processes.keeper import shared_keeper

class Line:
    deadline_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME) + float(sys.argv[1])
    def attach(self, extend):
        return lambda: None

async def before_exec(keeper):
    print(keeper.pid, keeper.start_ticks, flush=True)

async def main():
    kept = shared_keeper()
    spec = ProcessSpec(
        argv=("bash", "-c", sys.argv[2]), cwd=".", env=dict(os.environ), wall_timeout_s=60, idle_timeout_s=None
    )
    await asyncio.gather(*(
        kept.keep(spec, before_exec=before_exec, lifeline=Line(), output=lambda *_: None, stop=asyncio.Event())
        for _ in range(3)
    ))

asyncio.run(main())
"""


@pytest.mark.parametrize(("signum", "lease_s"), [(signal.SIGKILL, 60.0), (signal.SIGSTOP, 3.0)])
async def test_a_driver_that_is_killed_or_frozen_loses_all_its_trees(
    yard: Yard, signum: int, lease_s: float
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(lease_s), f"{DAEMONS} sleep 0.1; echo up >> up; {STUBBORN}"],
        cwd=yard.folder,
        env={"PATH": os.environ["PATH"], "TOKEN": yard.token},
        stdout=subprocess.PIPE,
    ) as driver:
        assert driver.stdout is not None
        pid = int(driver.stdout.readline().split()[0])
        keeper = identify(pid)
        assert keeper is not None
        up = yard.folder / "up"
        await until(lambda: up.exists() and up.read_text().count("up") == 3)
        driver.send_signal(signum)
        assert await wait_dead(keeper, 10)
        assert [one for one in yard.survivors() if one != driver.pid] == []
        driver.kill()


async def test_without_a_shell_for_anchors_each_tree_has_a_keeper_of_its_own(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_process, "SHELLS", ("/no/such/shell",))
    yard.kept = shared_keeper()
    ends = await asyncio.gather(yard.keep("exit 3"), yard.keep("exit 4"))
    assert [ended.exit_code for ended in ends] == [3, 4]
    assert len(set(yard.keepers)) == 2


async def test_a_shell_that_is_gone_is_said_and_nothing_is_left(yard: Yard) -> None:
    yard.kept = LinuxKeeper(shared_process.SharedStart("/no/such/shell"))
    ended = await yard.keep(f"{DAEMONS} {STUBBORN}")
    assert ended.ended_by is EndedBy.SPAWN_FAILED and "No such file" in ended.detail
    assert yard.survivors() == []
