"""Which process is which, whether it lives, and the sweeps that rest on it."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from recoup.model.ids import ProcessIdentity
from recoup.processes import identity as identity_module
from recoup.processes.census import HostCensus
from recoup.processes.identity import boot_id, host_id, identify, is_alive, own_identity, wait_dead
from recoup.processes.sweep import sweep_marked, sweep_run


class Nursery:
    """Processes of this test, ended with it."""

    def __init__(self) -> None:
        self.born: list[subprocess.Popen[bytes]] = []

    def start(self, *argv: str, **env: str) -> subprocess.Popen[bytes]:
        path = {"PATH": os.environ["PATH"]}
        popen = subprocess.Popen(argv, env={**path, **env}, stdout=subprocess.PIPE, start_new_session=True)
        self.born.append(popen)
        return popen

    def sleeper(self, **env: str) -> ProcessIdentity:
        popen = self.start("bash", "-c", "echo up; exec sleep 100", **env)
        assert popen.stdout is not None
        popen.stdout.readline()
        return sure(identify(popen.pid))


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    for popen in nursery.born:
        popen.kill()
        popen.communicate()


def sure(identity: ProcessIdentity | None) -> ProcessIdentity:
    assert identity is not None
    return identity


def test_a_process_knows_itself() -> None:
    me = own_identity()
    assert me == identify(os.getpid())
    assert (me.host, me.boot_id, me.pid) == (host_id(), boot_id(), os.getpid())
    assert is_alive(me) is True


def test_the_host_is_named_without_giving_its_machine_id_away() -> None:
    machine = Path("/etc/machine-id")
    assert len(host_id()) == 32
    assert not machine.exists() or machine.read_text().strip() != host_id()


def test_a_machine_without_an_id_goes_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    assert identity_module._machine_name(tmp_path / "empty") == platform.node()
    assert identity_module._machine_name(tmp_path / "absent") == platform.node()


def test_a_process_with_an_odd_name_is_identified(nursery: Nursery, tmp_path: Path) -> None:
    odd = tmp_path / "a) R (1 2"
    odd.write_bytes(Path("/bin/sleep").read_bytes())
    odd.chmod(0o755)
    popen = nursery.start(str(odd), "100")
    assert is_alive(sure(identify(popen.pid))) is True


def test_a_reused_pid_is_another_process() -> None:
    assert is_alive(replace(own_identity(), start_ticks=1)) is False


async def test_another_boot_may_be_another_machine_that_was_made_from_the_same_image() -> None:
    cloned = replace(own_identity(), boot_id=str(uuid.uuid4()))
    assert is_alive(cloned) is None
    assert HostCensus().is_alive(cloned) is None
    assert await wait_dead(cloned, 5) is False


def test_where_there_is_one_machine_another_boot_left_nothing_alive() -> None:
    me = own_identity()
    earlier = replace(me, boot_id=str(uuid.uuid4()))
    census = HostCensus(alone=True)
    assert census.is_alive(earlier) is False
    assert census.is_alive(me) is True
    assert census.is_alive(replace(me, host="another")) is None
    assert census.is_alive(replace(earlier, host="another")) is None


def test_a_container_with_pids_of_its_own_is_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    outside = replace(own_identity(), pid=2**22 + 1)
    monkeypatch.setattr(identity_module, "_own_pid_namespace", lambda: "pid:[4026539999]")
    host_id.cache_clear()
    try:
        assert [is_alive(outside, alone=alone) for alone in (True, False)] == [None, None]
    finally:
        host_id.cache_clear()


async def test_of_another_host_nothing_is_known() -> None:
    elsewhere = replace(own_identity(), host="another")
    assert is_alive(elsewhere) is None
    assert is_alive(replace(elsewhere, boot_id="another")) is None
    assert await wait_dead(elsewhere, 5) is False


async def test_a_zombie_is_dead(nursery: Nursery) -> None:
    popen = nursery.start("sleep", "100")
    born = sure(identify(popen.pid))
    popen.kill()
    os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 it ends at once
    assert Path(f"/proc/{popen.pid}/stat").exists()
    assert is_alive(born) is False
    assert identify(popen.pid) is None
    assert await wait_dead(born, 5) is True


def test_a_process_whose_first_thread_ended_is_alive(nursery: Nursery) -> None:
    script = """
        import ctypes, threading, time
        threading.Thread(target=lambda: (time.sleep(0.05), print("up", flush=True), time.sleep(100))).start()
        ctypes.CDLL(None).pthread_exit(None)
    """
    popen = nursery.start(sys.executable, "-c", textwrap.dedent(script))
    assert popen.stdout is not None
    popen.stdout.readline()
    assert Path(f"/proc/{popen.pid}/stat").read_text().split()[2] == "Z"
    assert is_alive(sure(identify(popen.pid))) is True


async def test_a_death_is_noticed_when_it_happens(nursery: Nursery) -> None:
    born = nursery.sleeper()
    waiting = asyncio.create_task(wait_dead(born, 30))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    os.kill(born.pid, signal.SIGKILL)
    assert await asyncio.wait_for(waiting, 60) is True
    assert await wait_dead(born, 0) is True


async def test_waiting_for_a_death_ends_in_time(nursery: Nursery) -> None:
    assert await wait_dead(nursery.sleeper(), 0.1) is False


def test_out_of_descriptors_is_no_proof_of_death() -> None:
    me = own_identity()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            is_alive(me)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_sweep_kills_the_marked_and_what_is_below_them(nursery: Nursery) -> None:
    marker, other = uuid.uuid4().hex, uuid.uuid4().hex
    marked = nursery.start("bash", "-c", "env -i sleep 100 & echo $!; wait", RECOUP_KEEPER=marker)
    stranger = nursery.sleeper(RECOUP_KEEPER=other)
    assert marked.stdout is not None
    below = sure(identify(int(marked.stdout.readline())))
    assert await sweep_marked(marker) == 2
    assert is_alive(below) is False
    assert is_alive(stranger) is True
    assert await sweep_marked(marker) == 0


async def test_a_run_is_swept_only_where_a_keeper_started_it(nursery: Nursery) -> None:
    run = uuid.uuid4().hex
    left = nursery.sleeper(RECOUP_RUN_ID=run, RECOUP_KEEPER="x")
    shell = nursery.sleeper(RECOUP_RUN_ID=run)
    longer = nursery.sleeper(RECOUP_RUN_ID=run + "0", RECOUP_KEEPER="x")
    assert await sweep_run(run) == 1
    assert [is_alive(process) for process in (left, shell, longer)] == [False, True, True]


SWEEP = """
import asyncio, sys
from recoup.processes.sweep import sweep_run
print(asyncio.run(sweep_run(sys.argv[1])))
"""


def test_a_sweep_spares_itself_and_those_it_descends_from(nursery: Nursery) -> None:
    run = uuid.uuid4().hex
    argv = ["bash", "-c", '"$0" -c "$1" "$2"; echo alive', sys.executable, SWEEP, run]
    popen = nursery.start(*argv, RECOUP_RUN_ID=run, RECOUP_KEEPER="x")
    assert popen.communicate(timeout=30)[0] == b"0\nalive\n"


@pytest.mark.soak
@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_a_sweep_names_what_it_cannot_kill(nursery: Nursery) -> None:
    run = uuid.uuid4().hex
    script = "echo up; exec setpriv --reuid 1234 --clear-groups sleep 100"
    left = nursery.start("bash", "-c", script, RECOUP_RUN_ID=run, RECOUP_KEEPER="x")
    assert left.stdout is not None
    left.stdout.readline()
    sweep = ["setpriv", "--bounding-set", "-kill", sys.executable, "-c", SWEEP, run]
    done = subprocess.run(sweep, capture_output=True, text=True, timeout=60)
    assert f"KeeperError: processes of the command cannot be killed: {left.pid}" in done.stderr
