"""Real process trees under the Linux keeper: how they end, and that nothing of them is ever left."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.model.policy import IdleBy
from recoup.model.process import Ended, EndedBy, ProcessSpec
from recoup.processes import keeper as keeper_module
from recoup.processes import marks
from recoup.processes.identity import identify, is_alive, own_identity, wait_dead
from recoup.processes.keeper import LinuxKeeper, shared_keeper
from recoup.processes.process_table import process_of

LONG_S = 30.0
KEEPERS = {"LinuxKeeper": LinuxKeeper, "shared_keeper": shared_keeper}
"""A keeper process for each tree, and one for all: they promise the same."""
STUBBORN = "trap '' TERM HUP INT; while :; do sleep 0.05; done"


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Line:
    """A lifeline in the test's hand."""

    def __init__(self, deadline_boot_s: float = float("inf")) -> None:
        self.deadline_boot_s = deadline_boot_s
        self.listeners: list[Callable[[float], None]] = []

    def attach(self, extend: Callable[[float], None]) -> Callable[[], None]:
        self.listeners.append(extend)
        return lambda: self.listeners.remove(extend)

    def extend(self, deadline_boot_s: float) -> None:
        self.deadline_boot_s = deadline_boot_s
        for listener in self.listeners:
            listener(deadline_boot_s)


class Scene:
    """Starts trees whose processes all carry one token, so that survivors can be counted from outside."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.kind = kind
        self.linux_keeper = KEEPERS[kind]()
        self.token = f"KEEPER_TEST={uuid.uuid4().hex}"
        self.out: Counter[str] = Counter()
        self.peak_bytes = 0
        self.text = {"stdout": b"", "stderr": b""}
        self.stop = asyncio.Event()
        self.line = Line()
        self.keeper: ProcessIdentity | None = None
        self.spoke = asyncio.Event()

    def spec(self, *argv: str, wall_s: float = LONG_S, **changes: object) -> ProcessSpec:
        name, value = self.token.split("=")
        settings: dict[str, object] = {
            "argv": argv,
            "cwd": str(self.folder),
            "env": {name: value, "PATH": os.environ["PATH"]},
            "wall_timeout_s": wall_s,
            "idle_timeout_s": None,
            "grace_s": 0.2,
        }
        return ProcessSpec(**{**settings, **changes})  # type: ignore[arg-type]

    async def keep(self, spec: ProcessSpec, before: Callable[[], Awaitable[None]] | None = None) -> Ended:
        async def before_exec(keeper: ProcessIdentity) -> None:
            self.keeper = keeper
            if before is not None:
                await before()

        return await self.linux_keeper.keep(
            spec, before_exec=before_exec, lifeline=self.line, output=self.take, stop=self.stop
        )

    async def bash(self, script: str, wall_s: float = LONG_S, **changes: object) -> Ended:
        return await self.keep(self.spec("bash", "-c", script, wall_s=wall_s, **changes))

    async def python(self, script: str, wall_s: float = LONG_S, **changes: object) -> Ended:
        argv = (sys.executable, "-I", "-S", "-c", textwrap.dedent(script))
        return await self.keep(self.spec(*argv, wall_s=wall_s, **changes))

    def take(self, name: str, chunk: bytes) -> None:
        self.out[name] += len(chunk)
        self.peak_bytes = max(self.peak_bytes, resident_bytes())
        self.text[name] = (self.text[name] + chunk)[-65536:]
        self.spoke.set()

    def kill_keeper(self) -> None:
        if self.keeper is not None and is_alive(self.keeper):
            os.kill(self.keeper.pid, signal.SIGKILL)

    def survivors(self) -> list[int]:
        mark = self.token.split("=")[1].encode()
        return [pid for pid in pids() if mark in contents(pid, "environ") or mark in contents(pid, "cmdline")]

    async def file(self, name: str) -> str:
        """What a process of the tree has written, as soon as it is there."""
        path = self.folder / name
        async with asyncio.timeout(60):
            while not (path.exists() and path.read_text().endswith("\n")):
                await asyncio.sleep(0.01)
        return path.read_text().strip()


def pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def contents(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


@pytest.fixture(params=KEEPERS)
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return Scene(tmp_path, request.param)


# How a command ends


async def test_the_exit_code_is_reported(scene: Scene) -> None:
    ended = await scene.bash("echo out; echo err >&2; exit 7")
    assert (ended.ended_by, ended.exit_code, ended.signal, ended.killed) == (EndedBy.EXIT, 7, None, 0)
    assert scene.text == {"stdout": b"out\n", "stderr": b"err\n"}


async def test_a_signal_is_reported_as_such(scene: Scene) -> None:
    ended = await scene.bash("kill -SEGV $$")
    assert (ended.ended_by, ended.exit_code, ended.signal) == (EndedBy.EXIT, None, signal.SIGSEGV)


async def test_processor_time_and_duration_are_reported(scene: Scene) -> None:
    ended = await scene.python(
        "import time; t = time.process_time()\nwhile time.process_time() < t + 0.1: pass"
    )
    assert 90 <= ended.cpu_ms <= 5_000
    assert ended.duration_ms >= 90


@pytest.mark.parametrize(
    ("argv", "cwd", "words"),
    [
        (("no-such-command-here",), None, "No such file or directory: no-such-command-here"),
        (("/no/such/file",), None, "No such file or directory: /no/such/file"),
        (("true",), "/no/such/folder", "No such file or directory: /no/such/folder"),
        (("./plain",), None, "Permission denied: ./plain"),
        (("true", "nul\0byte"), None, "null byte"),
        ((), None, "out of range"),
    ],
)
async def test_a_command_that_cannot_be_executed_says_why(
    scene: Scene, argv: tuple[str, ...], cwd: str | None, words: str
) -> None:
    (scene.folder / "plain").write_text("not executable")
    ended = await scene.keep(scene.spec(*argv, cwd=cwd or str(scene.folder)))
    assert ended.ended_by is EndedBy.SPAWN_FAILED
    assert words in ended.detail


async def test_the_command_is_searched_in_its_own_path(scene: Scene) -> None:
    (scene.folder / "tool").write_text("#!/bin/sh\necho found\n")
    (scene.folder / "tool").chmod(0o755)
    ended = await scene.keep(scene.spec("tool", env={"PATH": f"/nowhere:{scene.folder}:/bin"}))
    assert (ended.exit_code, scene.text["stdout"]) == (0, b"found\n")


# What a command finds


async def test_the_environment_is_exactly_the_given_one_and_a_mark(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIVER_ONLY", "must not pass")
    given = {"NAME": "välue with spaces", "LINES": "a\nb", "BAD": "\udcff"}
    ended = await scene.keep(scene.spec("/usr/bin/env", "-0", env=given))
    found = dict(entry.split(b"=", 1) for entry in scene.text["stdout"].split(b"\0") if entry)
    assert marks.driver_of(found.pop(b"RECOUP_KEEPER").decode()) == own_identity()
    assert found == {os.fsencode(name): os.fsencode(value) for name, value in given.items()}
    assert ended.exit_code == 0


async def test_standard_input_is_what_was_given_and_then_ends(scene: Scene) -> None:
    given = bytes(range(256)) * 4096
    ended = await scene.keep(scene.spec("sha256sum", stdin=given))
    assert (ended.exit_code, scene.text["stdout"].split()[0].decode()) == (
        0,
        hashlib.sha256(given).hexdigest(),
    )


async def test_the_drivers_environment_is_not_in_the_keeper_either(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIVER_ONLY", "must not pass")
    seen: list[bytes] = []

    async def look() -> None:
        assert scene.keeper is not None
        seen.extend(contents(scene.keeper.pid, name) for name in ("environ", "cmdline"))

    await scene.keep(scene.spec("true", "argument", env={"GIVEN": "to the command alone"}), look)
    assert b"_main" in seen[1]
    assert not [word for word in (b"DRIVER_ONLY", b"GIVEN", b"argument") if word in b"".join(seen)]


async def test_a_command_begins_in_its_folder_with_stdin_closed_and_signals_at_their_defaults(
    scene: Scene,
) -> None:
    await scene.python("""
        import os, _signal
        print(os.getcwd(), repr(os.read(0, 10)), sorted(map(int, os.listdir("/proc/self/fd")))[:-1])
        print(os.getpgrp() == os.getpid() == os.getsid(0))
        status = dict(line.split(":\\t") for line in open("/proc/self/status") if line.startswith("Sig"))
        print(*(int(status[name], 16) & 0x7FFFFFFF for name in ("SigBlk", "SigIgn")))
    """)
    folder, group, signals = scene.text["stdout"].decode().splitlines()
    assert folder == f"{scene.folder} b'' [0, 1, 2]"
    assert group == "True"
    # Python itself ignores PIPE (13) and XFSZ (25); nothing else may be ignored or blocked. From 32 on signals belong to
    # the C library, whose posix_spawn has them ignored, as in everything that make starts; nobody can set those.
    assert signals == f"0 {1 << 12 | 1 << 24}"


# Nothing is left


GRANDCHILDREN = {
    "a session of its own that ignores TERM and holds stdout": f'setsid bash -c "{STUBBORN}" &',
    "a daemon that forked twice": f'(setsid bash -c "{STUBBORN}" >/dev/null 2>&1 &) &',
    "one that forgot its environment": f'env -i setsid bash -c "{STUBBORN}; # $KEEPER_TEST" &',
    "a stopped one": "setsid bash -c 'kill -STOP $$' &",
    "a whole forest": f'for i in 1 2 3 4 5; do (setsid bash -c "{STUBBORN}" & bash -c "{STUBBORN}" &) ; done',
}


@pytest.mark.parametrize("background", GRANDCHILDREN.values(), ids=GRANDCHILDREN.keys())
async def test_what_a_command_leaves_behind_is_killed_when_it_exits(scene: Scene, background: str) -> None:
    ended = await scene.bash(f"{background}\nsleep 0.1; exit 3")
    assert (ended.ended_by, ended.exit_code) == (EndedBy.EXIT, 3)
    assert ended.killed >= 1
    assert scene.survivors() == []


@pytest.mark.parametrize("background", GRANDCHILDREN.values(), ids=GRANDCHILDREN.keys())
async def test_what_a_command_started_is_killed_at_its_timeout(scene: Scene, background: str) -> None:
    # It is stubborn before it starts anything: a busy machine may take its time for that.
    ended = await scene.bash(f"trap '' TERM HUP INT\n{background}\n{STUBBORN}", wall_s=0.6)
    assert (ended.ended_by, ended.signal) == (EndedBy.WALL_TIMEOUT, signal.SIGKILL)
    assert 800 <= ended.duration_ms < 30_000
    assert scene.survivors() == []


async def test_a_chain_of_forks_in_new_sessions_does_not_get_away(scene: Scene) -> None:
    ended = await scene.python(
        """
        import os
        while True:
            if os.fork():
                os._exit(0)
            os.setsid()
        """,
        wall_s=LONG_S,
    )
    assert ended.exit_code == 0
    assert scene.survivors() == []


async def test_a_modest_fork_bomb_is_contained(scene: Scene) -> None:
    bomb = """
        import os, _signal, time
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
        _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)
        for _ in range(4):
            os.fork()
        os.write(1, b".")
        for count in range(5000):
            if os.fork() == 0:
                if count % 2:
                    os.setsid()
                time.sleep(0.2)
                os._exit(0)
            time.sleep(0.02)
        """
    running = asyncio.create_task(scene.python(bomb))
    while scene.out["stdout"] < 16:
        await asyncio.wait_for(scene.spoke.wait(), 30)
        scene.spoke.clear()
    scene.stop.set()
    ended = await running
    assert ended.ended_by is EndedBy.STOPPED
    assert ended.killed >= 16
    assert scene.survivors() == []


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A group of processes that may have little memory."""
    old = Path("/sys/fs/cgroup/memory")
    root, limit = (old, "memory.limit_in_bytes") if old.is_dir() else (old.parent, "memory.max")
    group = root / f"recoup-test-{uuid.uuid4().hex}"
    try:
        group.mkdir()
        (group / limit).write_text(str(64 << 20))
    except OSError as error:
        pytest.skip(f"memory cannot be limited here: {error}")
    yield group
    group.rmdir()


@pytest.mark.parametrize(("last", "how"), [("exec", (None, signal.SIGKILL)), ("", (137, None))])
async def test_what_the_kernel_kills_for_want_of_memory_is_known_by_that(
    scene: Scene, small_group: Path, last: str, how: tuple[int | None, int | None]
) -> None:
    hog = f"{sys.executable} -c 'x = bytearray(1 << 30)'"
    ended = await scene.bash(f"echo $$ > {small_group}/cgroup.procs; {last} {hog}; exit $?")
    assert (ended.exit_code, ended.signal, ended.out_of_memory) == (*how, True)
    assert scene.survivors() == []
    ended = await scene.bash("kill -9 $$")
    assert (ended.signal, ended.out_of_memory) == (signal.SIGKILL, False)


async def test_term_reaches_the_whole_tree_and_the_grace_is_used(scene: Scene) -> None:
    gentle = "trap 'sleep 0.1; echo $0 cleaned; exit 0' TERM; echo $0 up; while :; do sleep 0.02; done"
    (scene.folder / "gentle").write_text(gentle)
    script = 'setsid bash -c "$(cat gentle)" child & exec bash -c "$(cat gentle)" main'
    running = asyncio.create_task(scene.bash(script, grace_s=5))
    while scene.text["stdout"].count(b"up") < 2:
        await asyncio.wait_for(scene.spoke.wait(), 60)
        scene.spoke.clear()
    scene.stop.set()
    ended = await running
    assert (ended.ended_by, ended.exit_code, ended.killed) == (EndedBy.STOPPED, 0, 0)
    assert sorted(scene.text["stdout"].splitlines()[-2:]) == [b"child cleaned", b"main cleaned"]
    assert ended.duration_ms < 30_000


async def test_all_output_of_a_dead_tree_is_delivered(scene: Scene) -> None:
    await scene.bash("head -c 3000000 /dev/zero; head -c 200000 /dev/zero >&2")
    assert scene.out == {"stdout": 3_000_000, "stderr": 200_000}


async def test_a_pipe_in_a_strangers_hand_does_not_hold_the_attempt(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "DRAIN_S", 0.2)
    running = asyncio.create_task(scene.bash("echo $$ > pid; sleep 0.3"))
    pid = int(await scene.file("pid"))
    held = os.open(f"/proc/{pid}/fd/1", os.O_WRONLY)
    try:
        assert (await asyncio.wait_for(running, 60)).exit_code == 0
    finally:
        os.close(held)


# Deaths of the driver and of the keeper


async def test_a_driver_with_closed_standard_streams_can_keep(scene: Scene) -> None:
    command = [sys.executable, "-c", driver_of(scene), "60", "touch executed"]
    script = 'exec "$@" 0<&- 2>&-'
    subprocess.run(
        ["bash", "-c", script, "bash", *command], cwd=scene.folder, check=True, stdout=subprocess.DEVNULL
    )
    assert (scene.folder / "executed").exists()


DRIVER = """
import asyncio, os, sys, time
from recoup.model.process import ProcessSpec
from recoup.processes.keeper import MAKE_KEEPER

class Line:
    deadline_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME) + float(sys.argv[1])
    def attach(self, extend):
        return lambda: None

async def before_exec(keeper):
    print(keeper.pid, flush=True)

async def main():
    spec = ProcessSpec(
        argv=("bash", "-c", sys.argv[2]),
        cwd=".",
        env=dict(os.environ),
        wall_timeout_s=60,
        idle_timeout_s=None,
    )
    await MAKE_KEEPER().keep(
        spec, before_exec=before_exec, lifeline=Line(), output=lambda *_: None, stop=asyncio.Event()
    )

asyncio.run(main())
"""


def driver_of(scene: Scene) -> str:
    return DRIVER.replace("MAKE_KEEPER", scene.kind)


class Driver:
    """Another process that keeps a tree, to be killed or frozen."""

    def __init__(self, scene: Scene, script: str, lease_s: float, wrapper: tuple[str, ...] = ()) -> None:
        name, value = scene.token.split("=")
        self.popen = subprocess.Popen(
            [*wrapper, sys.executable, "-c", driver_of(scene), str(lease_s), script],
            cwd=scene.folder,
            env={name: value, "PATH": os.environ["PATH"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.popen.stdout is not None
        self.keeper = identify(int(self.popen.stdout.readline()))

    def close(self) -> None:
        self.popen.kill()
        self.popen.communicate()


LASTING = f'setsid bash -c "{STUBBORN}" & echo up > up; {STUBBORN}'


async def test_a_killed_driver_leaves_nothing_running(scene: Scene) -> None:
    driver = Driver(scene, LASTING, lease_s=60)
    await scene.file("up")
    driver.close()
    assert driver.keeper is not None
    assert await wait_dead(driver.keeper, 5)
    assert scene.survivors() == []


async def test_a_frozen_drivers_tree_is_dead_before_its_lease_ends(scene: Scene) -> None:
    driver = Driver(scene, LASTING, lease_s=2.0)
    deadline_s = boot_s() + 2.0
    try:
        await scene.file("up")
        driver.popen.send_signal(signal.SIGSTOP)
        assert driver.keeper is not None
        assert await wait_dead(driver.keeper, 10)
        assert boot_s() < deadline_s + 0.2
        assert scene.survivors() == [driver.popen.pid]
    finally:
        driver.close()


async def test_a_driver_killed_before_it_said_go_has_executed_nothing(scene: Scene) -> None:
    frozen = driver_of(scene).replace(
        "print(keeper.pid, flush=True)", "print(keeper.pid, flush=True); time.sleep(60)"
    )
    driver = Driver.__new__(Driver)
    driver.popen = subprocess.Popen(
        [sys.executable, "-c", frozen, "60", "touch executed"], cwd=scene.folder, stdout=subprocess.PIPE
    )
    assert driver.popen.stdout is not None
    driver.keeper = identify(int(driver.popen.stdout.readline()))
    driver.close()
    assert driver.keeper is not None
    assert await wait_dead(driver.keeper, 5)
    assert not (scene.folder / "executed").exists()


async def test_signals_meant_for_the_driver_do_not_move_the_keeper(scene: Scene) -> None:
    running = asyncio.create_task(scene.bash("echo up; sleep 0.3; exit 4"))
    await asyncio.wait_for(scene.spoke.wait(), 60)
    assert scene.keeper is not None
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.kill(scene.keeper.pid, signum)
    assert (await running).exit_code == 4


@pytest.mark.parametrize("background", list(GRANDCHILDREN.values())[:2], ids=list(GRANDCHILDREN)[:2])
async def test_a_killed_keeper_leaves_nothing_running(scene: Scene, background: str) -> None:
    running = asyncio.create_task(scene.bash(f"{background}\nenv -i sleep 100 &\necho $! > pid; {STUBBORN}"))
    forgetful = identify(int(await scene.file("pid")))
    assert scene.keeper is not None
    assert forgetful is not None
    os.kill(scene.keeper.pid, signal.SIGKILL)
    ended = await running
    assert (ended.ended_by, ended.signal) == (EndedBy.EXIT, signal.SIGKILL)
    assert "keeper" in ended.detail
    assert ended.killed >= 1
    assert scene.survivors() == []
    assert await wait_dead(forgetful, 60)


async def test_a_frozen_keeper_does_not_hold_up_a_timeout_for_ever(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "SILENCE_S", 0.3)
    running = asyncio.create_task(scene.bash(LASTING, wall_s=1.5))
    await scene.file("up")
    assert scene.keeper is not None
    os.kill(scene.keeper.pid, signal.SIGSTOP)
    ended = await running
    assert ended.ended_by is EndedBy.WALL_TIMEOUT
    assert scene.survivors() == []


async def test_a_keeper_that_its_command_froze_still_ends_it_at_its_timeout(scene: Scene) -> None:
    """The driver lets it go on: it need not be killed."""
    ended = await scene.bash(f"kill -STOP $PPID; {LASTING}", wall_s=1.5)
    assert ended.ended_by is EndedBy.WALL_TIMEOUT
    assert "keeper" not in ended.detail
    assert scene.survivors() == []


async def test_a_command_that_freezes_its_keeper_again_and_again_ends_at_its_timeout(scene: Scene) -> None:
    again = "trap '' TERM; (while :; do kill -STOP $PPID; done) &"
    ended = await scene.bash(f"{again} while :; do kill -STOP $PPID; done", wall_s=1.0)
    assert ended.ended_by is EndedBy.WALL_TIMEOUT
    assert ended.duration_ms < 1000 * keeper_module.SILENCE_S
    assert scene.survivors() == []


async def test_a_heartbeat_wakes_a_frozen_keeper(scene: Scene) -> None:
    running = asyncio.create_task(scene.bash(f"kill -STOP $PPID; {LASTING}"))
    await scene.file("up")
    assert scene.keeper is not None
    scene.line.extend(boot_s() + LONG_S)
    async with asyncio.timeout(LONG_S):
        while (process := process_of(scene.keeper.pid)) is None or process.state in "Tt":
            await asyncio.sleep(0.01)
    scene.stop.set()
    assert (await running).ended_by is EndedBy.STOPPED


# The lifeline


async def test_silence_until_a_second_before_the_deadline_kills_the_tree(scene: Scene) -> None:
    scene.line = Line(boot_s() + 1.5)
    ended = await scene.bash(LASTING)
    assert (ended.ended_by, ended.signal) == (EndedBy.LIFELINE, signal.SIGKILL)
    assert boot_s() < scene.line.deadline_boot_s
    assert scene.survivors() == []


async def test_an_extended_deadline_lets_the_tree_go_on(scene: Scene) -> None:
    scene.line = Line(boot_s() + 1.6)
    running = asyncio.create_task(scene.bash("echo up; sleep 1; exit 5"))
    await asyncio.wait_for(scene.spoke.wait(), 60)
    scene.line.extend(boot_s() + 60)
    assert (await running).exit_code == 5
    assert scene.line.listeners == []


async def test_a_deadline_that_passed_before_the_launch_executes_nothing(scene: Scene) -> None:
    scene.line = Line(boot_s() + 0.5)
    ended = await scene.bash("touch executed")
    assert (ended.ended_by, ended.exit_code, ended.signal) == (EndedBy.LIFELINE, None, None)
    assert not (scene.folder / "executed").exists()


async def test_a_driver_that_never_says_go_leaves_no_keeper_beyond_its_lease(scene: Scene) -> None:
    """It was frozen between the record of the launch and the launch: whoever replaces it waits for the keeper's end."""
    scene.line = Line(boot_s() + 1.5)

    async def frozen() -> None:
        assert scene.keeper is not None
        assert await wait_dead(scene.keeper, LONG_S)

    ended = await scene.keep(scene.spec("touch", "executed"), frozen)
    assert ended.ended_by is EndedBy.LIFELINE
    assert not (scene.folder / "executed").exists()


# Before the launch


async def test_if_the_launch_cannot_be_recorded_nothing_is_executed(scene: Scene) -> None:
    async def fail() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await scene.keep(scene.spec("touch", "executed"), fail)
    assert scene.keeper is not None
    assert is_alive(scene.keeper) is False
    assert not (scene.folder / "executed").exists()


async def test_a_stop_before_the_launch_executes_nothing(scene: Scene) -> None:
    scene.stop.set()
    ended = await scene.bash("touch executed")
    assert ended.ended_by is EndedBy.STOPPED
    assert not (scene.folder / "executed").exists()


async def test_cancelling_before_the_launch_executes_nothing(scene: Scene) -> None:
    entered = asyncio.Event()

    async def hang() -> None:
        entered.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(scene.keep(scene.spec("touch", "executed"), hang))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not (scene.folder / "executed").exists()


async def test_a_keeper_that_does_not_start_is_an_error_with_its_words(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("keeper_main.py", "shared_main.py"):
        (scene.folder / name).write_text("raise SystemExit('no luck today')")
    monkeypatch.setattr("recoup.processes.keeper_main.__file__", str(scene.folder / "keeper_main.py"))
    with pytest.raises(KeeperError, match="no luck today"):
        await scene.bash("true")


async def test_a_missing_interpreter_is_an_error(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(KeeperError, match="could not be started"):
        await scene.bash("true")


def test_another_system_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(KeeperError, match="darwin"):
        LinuxKeeper()


# Timers


async def test_a_drip_of_output_does_not_outlast_the_wall_timeout(scene: Scene) -> None:
    script = "while :; do printf .; sleep 0.05; done"
    ended = await scene.bash(script, wall_s=1.5, idle_timeout_s=1.2)
    assert ended.ended_by is EndedBy.WALL_TIMEOUT
    assert scene.out["stdout"] >= 3


async def test_silence_is_idle(scene: Scene) -> None:
    ended = await scene.bash("echo once; sleep 30", idle_timeout_s=0.3)
    assert ended.ended_by is EndedBy.IDLE_TIMEOUT
    assert 300 <= ended.idle_ms <= ended.duration_ms < 10_000


async def test_output_postpones_the_idle_timeout(scene: Scene) -> None:
    ended = await scene.bash("for i in 1 2 3 4 5; do echo $i; sleep 0.3; done", idle_timeout_s=1.2)
    assert ended.ended_by is EndedBy.EXIT


class Beat:
    """A pulse in the test's hand: a sign of progress every fifth of a second."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None

    def attach(self, progress: Callable[[], None]) -> Callable[[], None]:
        self.task = asyncio.create_task(self.go_on(progress))
        return self.task.cancel  # type: ignore[return-value]

    async def go_on(self, progress: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(0.2)
            progress()


async def test_a_pulse_postpones_the_idle_timeout_and_is_let_go_at_the_end(scene: Scene) -> None:
    async def at_once(keeper: ProcessIdentity) -> None: ...

    beat = Beat()
    ended = await scene.linux_keeper.keep(
        scene.spec("sleep", "1.8", idle_timeout_s=1.5),
        before_exec=at_once,
        lifeline=scene.line,
        output=scene.take,
        stop=scene.stop,
        pulse=beat,
    )
    assert ended.ended_by is EndedBy.EXIT
    assert beat.task is not None
    await asyncio.wait([beat.task])
    assert beat.task.cancelled()


async def test_a_silent_process_that_computes_is_not_idle_by_activity(scene: Scene) -> None:
    burn = "import time; t = time.monotonic()\nwhile time.monotonic() < t + 1.5: pass"
    ended = await scene.python(burn, idle_timeout_s=1.2, idle_by=IdleBy.ACTIVITY)
    assert ended.ended_by is EndedBy.EXIT


async def test_a_silent_process_that_writes_is_not_idle_by_activity(scene: Scene) -> None:
    script = "for i in 1 2 3 4 5 6; do echo x >> file; sleep 0.3; done"
    ended = await scene.bash(script, idle_timeout_s=1.5, idle_by=IdleBy.ACTIVITY)
    assert ended.ended_by is EndedBy.EXIT


async def test_a_sleeping_process_is_idle_by_activity(scene: Scene) -> None:
    ended = await scene.bash("exec sleep 30", idle_timeout_s=0.4, idle_by=IdleBy.ACTIVITY)
    assert ended.ended_by is EndedBy.IDLE_TIMEOUT
    assert ended.duration_ms < 10_000


async def test_a_flood_delays_no_timer_and_fills_no_memory(scene: Scene) -> None:
    before_bytes, wall_s = resident_bytes(), 1.0
    while scene.out.total() < 50_000_000:
        ended = await scene.bash("yes & exec yes >&2", wall_s=wall_s)
        assert ended.ended_by is EndedBy.WALL_TIMEOUT
        wall_s *= 2
    assert scene.survivors() == []
    assert scene.peak_bytes < before_bytes + 20_000_000


async def test_a_flood_does_not_drown_the_stop(scene: Scene) -> None:
    running = asyncio.create_task(scene.bash("exec yes"))
    await asyncio.wait_for(scene.spoke.wait(), 60)
    scene.stop.set()
    assert (await asyncio.wait_for(running, 60)).ended_by is EndedBy.STOPPED


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# In the driver


async def test_cancelling_kills_the_tree_first(scene: Scene) -> None:
    running = asyncio.create_task(scene.bash(LASTING, grace_s=0.3))
    await scene.file("up")
    running.cancel()
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert scene.survivors() == []


async def test_a_sink_that_fails_ends_the_tree_and_the_error_goes_on(scene: Scene) -> None:
    def refuse(name: str, chunk: bytes) -> None:
        raise OSError("log disk full")

    scene.take = refuse  # type: ignore[method-assign]
    with pytest.raises(OSError, match="log disk full"):
        await scene.bash("while :; do echo x; sleep 0.01; done")
    assert scene.survivors() == []


@pytest.mark.parametrize("kind", KEEPERS)
async def test_trees_kept_at_once_do_not_touch_one_another(tmp_path: Path, kind: str) -> None:
    scenes = [Scene(tmp_path, kind) for _ in range(8)]
    for scene in scenes:
        scene.linux_keeper = scenes[0].linux_keeper
    script = "echo up; (setsid sleep 100 &); sleep 0.8; exit 9"
    running = [asyncio.create_task(scene.bash(script)) for scene in scenes]
    await asyncio.gather(*(asyncio.wait_for(scene.spoke.wait(), 20) for scene in scenes))
    scenes[0].stop.set()
    ends = await asyncio.gather(*running)
    assert [ended.ended_by for ended in ends] == [EndedBy.STOPPED] + 7 * [EndedBy.EXIT]
    assert [ended.exit_code for ended in ends[1:]] == 7 * [9]
    assert [scene.survivors() for scene in scenes] == 8 * [[]]


async def test_attempts_leave_no_descriptor_and_no_zombie(scene: Scene) -> None:
    await scene.bash("true")
    before = descriptors(), children()
    for count in range(10):
        await asyncio.gather(scene.bash("echo x"), scene.bash("sleep 10", wall_s=0.05 + count / 1000))
    assert (descriptors(), children()) == before


def children() -> set[str]:
    """Zombies too. Other tests of this process may have left servers that are still to be used."""
    own = Path(f"/proc/{os.getpid()}/task").iterdir()
    return {child for task in own for child in (task / "children").read_text().split()}


def descriptors() -> list[str]:
    return sorted(entry.name for entry in Path("/proc/self/fd").iterdir())


async def test_an_attempt_costs_little_more_than_its_command(scene: Scene) -> None:
    durations = []
    for _ in range(15):
        began_s = time.monotonic()
        await scene.keep(scene.spec("true"))
        durations.append(time.monotonic() - began_s)
    # About 25 ms on an idle machine; 60 ms is the promise, which benchmarks hold it to. Here others are at work, too.
    assert min(durations) < 0.5


# Long ones


@pytest.mark.soak
async def test_a_thousand_timeouts_leave_nothing(scene: Scene) -> None:
    for _ in range(125):
        ends = await asyncio.gather(*(scene.bash(LASTING, wall_s=0.15, grace_s=0.05) for _ in range(8)))
        assert {ended.ended_by for ended in ends} == {EndedBy.WALL_TIMEOUT}
        assert scene.survivors() == []


@pytest.mark.soak
@pytest.mark.parametrize(
    ("command", "size"), [("yes | head -c 5G", 5 << 30), ("head -c 1G /dev/zero", 1 << 30)]
)
async def test_gigabytes_pass_in_bounded_memory(scene: Scene, command: str, size: int) -> None:
    before_bytes = resident_bytes()
    ended = await scene.bash(command, wall_s=600, idle_timeout_s=60)
    assert (ended.exit_code, scene.out["stdout"]) == (0, size)
    assert scene.peak_bytes < before_bytes + 20_000_000


@pytest.mark.soak
@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
async def test_what_cannot_be_killed_is_named_and_its_keeper_stays_with_it(scene: Scene) -> None:
    """A driver without the right to kill keeps a process of another user, as after `sudo`."""
    command = "setpriv --reuid 1234 --clear-groups sleep 100 & echo $! > pid; sleep 0.2"
    driver = Driver(scene, command, lease_s=60, wrapper=("setpriv", "--bounding-set", "-kill"))
    out_of_reach = int(await scene.file("pid"))
    assert driver.keeper is not None
    try:
        words = (await asyncio.to_thread(driver.popen.communicate, timeout=30))[1].decode()
        assert f"cannot be killed: {out_of_reach}" in words
        assert is_alive(driver.keeper) is True
    finally:
        os.kill(out_of_reach, signal.SIGKILL)
    assert await wait_dead(driver.keeper, 5)


@pytest.mark.soak
async def test_keepers_killed_at_any_moment_leave_nothing(scene: Scene) -> None:
    for count in range(200):
        scene.keeper = None
        running = asyncio.create_task(scene.bash(LASTING, wall_s=0.3))
        await asyncio.sleep(0.01 + count / 4000)
        scene.kill_keeper()
        await asyncio.wait([running])
        assert scene.survivors() == []
