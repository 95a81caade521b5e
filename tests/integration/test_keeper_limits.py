"""Process trees that take too much: too many processes, or too much memory. Others are left alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.integration.test_keeper import LONG_S, Scene

from recoup.model.process import Ended, EndedBy
from recoup.processes import process_table
from recoup.processes.keeper_main import Limits
from recoup.processes.process_table import memory_of, pids_below

MB = 1 << 20
SOON_MS = 1000 * LONG_S / 3
"""Long before the timeout, and long enough for a busy machine."""
FORKS = """
    import os, time
    for _ in range(60):
        if os.fork() == 0:
            {first}
            time.sleep(60)
            os._exit(0)
    time.sleep(60)
    """
HOG = """
    import time
    held = bytearray({size})
    held[::4096] = b"x" * len(held[::4096])
    print("held", flush=True)
    time.sleep({stay_s})
    """


@pytest.fixture
async def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, "LinuxKeeper")


def is_killed_soon(ended: Ended, scene: Scene) -> bool:
    return ended.duration_ms < SOON_MS and ended.signal == signal.SIGKILL and scene.survivors() == []


@pytest.mark.parametrize("first", ["pass", "os.setsid()"], ids=["one session", "sessions of their own"])
async def test_a_tree_that_forks_past_its_limit_is_killed_at_once(scene: Scene, first: str) -> None:
    ended = await scene.python(FORKS.format(first=first), processes_max=40)
    assert (ended.ended_by, ended.limit) == (EndedBy.PROCESSES_MAX, 40)
    assert 40 < ended.seen <= 61
    assert ended.killed > 40
    assert is_killed_soon(ended, scene)


async def test_a_fork_bomb_is_over_before_it_has_taken_the_machine(scene: Scene) -> None:
    bomb = """
        import os, time, _signal
        _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)
        for _ in range(9):  # 512 at most: a limit of the test's own
            os.fork()
            time.sleep(0.1)
        time.sleep(60)
        """
    ended = await scene.python(bomb, processes_max=100)
    assert ended.ended_by is EndedBy.PROCESSES_MAX
    assert is_killed_soon(ended, scene)


async def test_what_a_thread_starts_and_what_has_lost_its_parent_counts_too(scene: Scene) -> None:
    """By a thread that is not the first, and by one whose process is gone."""
    script = """
        import _thread, subprocess, time
        def work():
            for _ in range(10):
                subprocess.Popen(["sleep", "60"])
                subprocess.run(["sh", "-c", "setsid sleep 60 & exit 0"])
        _thread.start_new_thread(work, ())
        time.sleep(60)
        """
    ended = await scene.python(script, processes_max=18)
    assert ended.ended_by is EndedBy.PROCESSES_MAX
    assert is_killed_soon(ended, scene)


async def test_a_tree_that_takes_more_memory_than_its_limit_is_killed_at_once(scene: Scene) -> None:
    ended = await scene.python(HOG.format(size=200 * MB, stay_s=60), memory_max_bytes=64 * MB)
    assert (ended.ended_by, ended.limit) == (EndedBy.MEMORY_MAX, 64 * MB)
    assert 64 * MB < ended.seen < 250 * MB
    assert not ended.out_of_memory, "the kernel has killed nobody"
    assert is_killed_soon(ended, scene)


async def test_the_memory_of_children_in_sessions_of_their_own_is_counted_together(scene: Scene) -> None:
    script = """
        import os, time
        for _ in range(5):
            if os.fork() == 0:
                os.setsid()
                break
        held = bytearray(20 << 20)
        held[::4096] = b"x" * len(held[::4096])
        time.sleep(60)
        """
    ended = await scene.python(script, memory_max_bytes=64 * MB)
    assert ended.ended_by is EndedBy.MEMORY_MAX
    assert 64 * MB < ended.seen < 200 * MB
    assert is_killed_soon(ended, scene)


async def test_a_tree_below_its_limits_is_left_alone(scene: Scene) -> None:
    script = FORKS.replace("60)", "1.6)").replace("range(1.6)", "range(10)").format(first="pass")
    ended = await scene.python(script, processes_max=11, memory_max_bytes=500 * MB)
    assert (ended.ended_by, ended.exit_code, ended.seen) == (EndedBy.EXIT, 0, 0)


async def test_without_a_limit_nobody_counts(scene: Scene) -> None:
    script = HOG.format(size=100 * MB, stay_s=1.2)
    assert (await scene.python(script)).ended_by is EndedBy.EXIT
    assert (await scene.python(script, memory_max_bytes=0)).ended_by is EndedBy.EXIT, (
        "nearly all of the machine"
    )


async def test_what_a_fork_has_not_copied_is_counted_once(scene: Scene) -> None:
    script = """
        import os, time
        held = bytearray(60 << 20)
        held[::4096] = b"x" * len(held[::4096])
        for _ in range(4):
            if os.fork() == 0:
                break
        time.sleep(2)
        """
    ended = await scene.python(script, memory_max_bytes=150 * MB)
    assert (ended.ended_by, ended.exit_code) == (EndedBy.EXIT, 0)


async def test_a_tree_that_was_told_to_stop_is_still_held_to_its_limits(scene: Scene) -> None:
    """And it was stopped, whatever it does then."""
    bomb = """
        import os, time, _signal
        def fork(*_):
            for _ in range(60):
                if os.fork() == 0:
                    time.sleep(60)
        _signal.signal(_signal.SIGTERM, fork)
        print("up", flush=True)
        while True:
            time.sleep(60)
        """
    running = asyncio.create_task(scene.python(bomb, processes_max=40, grace_s=LONG_S))
    await asyncio.wait_for(scene.spoke.wait(), LONG_S)
    scene.stop.set()
    ended = await running
    assert ended.ended_by is EndedBy.STOPPED
    assert is_killed_soon(ended, scene)


def test_memory_counts_from_the_second_look_at_a_process_on() -> None:
    """A child that is about to execute something may use its parent's memory until then: that is no second copy."""
    script = textwrap.dedent(HOG.format(size=60 * MB, stay_s=60))
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", script], stdout=subprocess.PIPE) as hog:
        assert hog.stdout is not None and hog.stdout.readline() == b"held\n"
        limits = Limits(0, 50 * MB)
        assert limits.passed(os.getpid()) is None
        over = limits.passed(os.getpid())
        hog.kill()
    assert over is not None and over[0] == "memory_max" and over[1] > 50 * MB


async def test_without_lists_of_children_the_table_of_processes_is_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, set[int]] = {}

    async def look() -> None:
        await asyncio.wait_for(scene.spoke.wait(), LONG_S)
        assert scene.keeper is not None
        seen["lists"] = set(pids_below(scene.keeper.pid))
        monkeypatch.setattr(process_table, "_children", _no_lists)
        seen["table"] = set(pids_below(scene.keeper.pid))
        scene.stop.set()

    looking = asyncio.create_task(look())
    await scene.bash("sleep 60 & setsid sleep 60 & echo up; wait")
    await looking
    assert seen["lists"] == seen["table"]
    assert len(seen["lists"]) >= 3


def _no_lists(_pid: int) -> list[int]:
    raise process_table.NoLists


def test_memory_is_what_a_process_has_to_itself() -> None:
    held = bytearray(50 * MB)
    held[::4096] = b"x" * len(held[::4096])
    rough, fair = memory_of([os.getpid()], 1 << 50), memory_of([os.getpid()], 0)
    assert rough > 50 * MB and abs(rough - fair) < max(rough, fair) / 4
    assert memory_of([], 0) == 0
    del held


BRIEF = """
    import os, time
    for _ in range({count}):
        if os.fork() == 0:
            time.sleep({stay_s})
            os._exit(0)
        time.sleep({pause_s})
    time.sleep({stay_s})
    """


async def test_processes_are_counted_while_they_are_begun(scene: Scene) -> None:
    """Not only at the next look at the whole tree, which comes half a second after its start."""
    ended = await scene.python(BRIEF.format(count=400, stay_s=60, pause_s=0.001), processes_max=20)
    assert (ended.ended_by, ended.limit) == (EndedBy.PROCESSES_MAX, 20)
    assert ended.killed < 400
    assert scene.survivors() == []


async def test_processes_that_are_gone_before_the_next_look_are_noticed(scene: Scene) -> None:
    ended = await scene.python(BRIEF.format(count=60, stay_s=0.3, pause_s=0), processes_max=20)
    assert (ended.ended_by, ended.limit) == (EndedBy.PROCESSES_MAX, 20)


async def test_processes_one_after_the_other_are_not_too_many(scene: Scene) -> None:
    ended = await scene.bash("for n in $(seq 300); do /bin/true; done", processes_max=5)
    assert (ended.ended_by, ended.exit_code) == (EndedBy.EXIT, 0)


def test_a_tree_is_counted_only_when_enough_processes_were_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    newest, counted = [100], list[int]()

    def two_below(root: int, _enough: int = 0) -> list[int]:
        counted.append(root)
        return [1, 2]

    monkeypatch.setattr(process_table, "newest_pid", lambda: newest[0])
    monkeypatch.setattr(process_table, "pids_below", two_below)
    limits = Limits(10, 0)
    assert limits.passed(7) is None
    newest[0] = 108  # eight more: two that are there and eight are ten
    assert limits.passed_by_count(7) is None
    assert counted == [7]
    newest[0] = 109
    assert limits.passed_by_count(7) is None
    assert counted == [7, 7]
    newest[0] = 3  # pids wrapped around: the number is unknown
    assert limits.passed_by_count(7) is None
    assert counted == [7, 7, 7]
