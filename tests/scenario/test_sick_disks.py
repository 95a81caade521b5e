"""Disks that are full or read-only: never taken for a fault of the work. Each test mounts disks of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.keys import KEY
from tests.scenario.conftest import Cli
from tests.scenario.fleets import Fleet, eventually, notices

if TYPE_CHECKING:
    from recoup.testing.postgres import PostgresServer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk")
RUNS = 24
GIT_PLAN = """
    version: 1
    name: cloned
    workspace: {git: ./repo}
    steps:
      - {id: a, run: 'echo a > a; echo "a $RECOUP_RUN_ID" >> "$JOURNAL"', repeat: never}
      - {id: b, run: 'cat a > b; echo "b $RECOUP_RUN_ID" >> "$JOURNAL"', repeat: never}
"""


@contextlib.contextmanager
def disk(path: Path, options: str) -> Iterator[Path]:
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def remount(path: Path, options: str) -> None:
    """Waits for writes in progress: during one a disk cannot become read-only."""
    deadline = time.monotonic() + 30
    while subprocess.run(["mount", "-o", f"remount,{options}", path], capture_output=True).returncode:
        assert time.monotonic() < deadline, "the disk stays busy"
        time.sleep(0.001)


def fill(path: Path) -> Path:
    filling = path / "filling"
    with contextlib.suppress(OSError), filling.open("wb") as file:
        while True:
            file.write(bytes(1 << 16))
    return filling


def one_run(cli: Cli) -> Any:
    return cli("show", "last", "--json").json


@pytest.mark.parametrize("kilobytes", [24, 40, 56, 72, 200])
def test_a_home_without_room_never_ends_a_run(cli: Cli, repo: Path, tmp_path: Path, kilobytes: int) -> None:
    """The ledger has room and the files of the run have not: git fails in whichever of its writes."""
    cli.env["JOURNAL"] = str(tmp_path / "journal")
    plan = cli.plan(GIT_PLAN)
    with disk(cli.home / "runs", f"size={kilobytes}k") as runs:
        first = cli("run", plan)
        assert first.code in (0, 75), first.out + first.err
        assert "Traceback" not in first.err
        assert one_run(cli)["status"] in ("running", "queued", "succeeded"), one_run(cli)
        remount(runs, "size=64m")
        if first.code == 75:
            assert one_run(cli)["exitCode"] == 75
            settled(cli, cli("resume", "last").code)
    assert one_run(cli)["status"] == "succeeded"
    assert sorted(line.split()[0] for line in (tmp_path / "journal").read_text().splitlines()) == ["a", "b"]


def settled(cli: Cli, code: int) -> None:
    """A step that ended while its checkpoint found no room goes to a person, who looks and answers."""
    for _ in range(3):
        if code != 5:
            break
        journal = Path(cli.env["JOURNAL"]).read_text().split()
        step = one_run(cli)["frontier"]["stepId"]
        done = "done" if step.removeprefix("s") in journal else "not-done"
        assert cli("control", "last", "settle", "--step", step, "--as", done, "--reason", "looked").code == 0
        code = cli("resume", "last").code
    assert code == 0


def test_a_worker_on_a_full_disk_leaves_all_runs_to_the_healthy_one(
    cli: Cli, repo: Path, tmp_path: Path, postgres: PostgresServer
) -> None:
    fleet = Fleet(cli, tmp_path, postgres.prepared_database())
    cli.env["RECOUP_KEY"] = KEY
    plan = cli.plan(GIT_PLAN)
    with disk(tmp_path / "home-1", "size=16m") as home:
        sick = fleet.worker(number=1)  # well at first, so that it takes runs and fails
        assert eventually(lambda: len(cli("workers", "--json").json) == 1)
        filling = fill(home)
        ids = [fleet.submit(plan) for _ in range(RUNS)]
        assert eventually(lambda: cli("workers", "--json").json[0]["state"] == "troubled")
        assert "takes no runs" in cli("workers").out
        healthy = fleet.worker("--until-idle", number=2)
        notices(healthy, timeout=400)
        assert {fleet.state(run_id)["status"] for run_id in ids} == {"succeeded"}
        assert {fleet.state(run_id)["delivery"] for run_id in ids} == {1}, "nothing was spent"
        assert sorted(fleet.lines()) == sorted(f"{step} {run_id}" for run_id in ids for step in "ab")
        assert eventually(lambda: cli("workers", "--json").json[0]["state"] == "troubled")
        filling.unlink()
        assert eventually(lambda: cli("workers", "--json").json[0]["state"] == "working", 120)
        assert fleet.until(fleet.submit(plan), "succeeded", 120)["delivery"] == 1
        sick.terminate()
        events = [notice["event"] for notice in notices(sick)]
        assert events.index("trouble") < events.index("recovered")


def test_a_step_that_fails_on_a_full_disk_of_its_own_says_so(cli: Cli, tmp_path: Path) -> None:
    """Its folder is on another disk than the state folder: the table of classes decides."""
    with disk(tmp_path / "small", "size=2m") as small:
        plan = small / "plan.yaml"
        plan.write_text("{version: 1, name: own, steps: [{id: a, run: 'cat /dev/zero > filling'}]}")
        result = cli("run", str(plan), "--json")
    assert result.document["status"] == "failed", result.err
    told = result.payloads("task.step.attempt.failed")
    assert [fact["failureKind"] for fact in told] == ["disk_full"] * 2
    assert told[0]["failureClass"] == "unknown" and not told[0]["spared"]
    assert not result.document["machineTrouble"], "the state folder has room"


def test_a_step_that_fails_on_the_full_disk_of_the_state_folder_spends_nothing_three_times(
    cli: Cli, repo: Path
) -> None:
    """Then it has failed: it may be the one that fills the disk."""
    plan = cli.plan("""
        version: 1
        name: filling
        workspace: {git: ./repo}
        steps:
          - id: a
            run: |
              n=$(( $(df --output=avail -k . | tail -n 1) - 600 ))
              if [ "$n" -gt 0 ]; then head -c "${n}K" /dev/zero > "filling-$RECOUP_ATTEMPT"; fi
              exit 3
    """)
    with disk(cli.home / "runs", "size=16m"):
        assert cli("run", plan).code == 75
        assert (one_run(cli)["machineTrouble"], one_run(cli)["exitCode"]) == (True, 75)
        resumed = 0
        while one_run(cli)["status"] == "running" and resumed < 6:
            cli("resume", "last")
            resumed += 1
        assert one_run(cli)["status"] == "failed"
        failed = [e for e in cli("events", "last", "--json").lines if e["type"] == "task.step.attempt.failed"]
    assert {e["payload"]["failureKind"] for e in failed} == {"disk_full"}
    assert [e["payload"]["spared"] for e in failed][:4] == [True, True, True, False]


def test_a_state_folder_that_is_read_only_at_the_start_is_no_wrong_setting(cli: Cli) -> None:
    plan = cli.plan("{version: 1, name: plain, steps: [{id: a, run: 'true'}]}")
    with disk(cli.home, "size=8m") as home:
        remount(home, "ro")
        result = cli("run", plan)
        assert result.code == 75, result.err
        remount(home, "rw")
        assert cli("run", plan).code == 0


def test_doctor_fails_on_a_full_disk(cli: Cli) -> None:
    with disk(cli.home, "size=8m") as home:
        assert cli("run", cli.plan("{version: 1, name: plain, steps: [{id: a, run: 'true'}]}")).code == 0
        filling = fill(home)
        sick = cli("doctor")
        assert sick.code == 1
        line = next(line for line in sick.out.splitlines() if " space " in line)
        assert "FAIL" in line and "full" in line, line
        filling.unlink()
        assert "FAIL" not in cli("doctor").out


def test_a_worker_that_starts_on_a_full_disk_waits_for_room_and_commands_say_that_it_is_full(
    cli: Cli,
) -> None:
    """SQLite cannot make its index there, and calls that an I/O error."""
    plan = cli.plan("{version: 1, name: plain, steps: [{id: a, run: 'true'}]}")
    with disk(cli.home, "size=8m") as home:
        run_id = cli("submit", plan).out.strip()
        filling = fill(home)
        for command in (
            ["run", plan],
            ["submit", plan],
            ["serve", "--port", "0"],
            ["worker", "--until-idle"],
        ):
            refused = cli(*command)
            assert refused.code == 75, (command, refused.err)
            assert "the disk is full" in refused.err and "Free some space" in refused.err, refused.err
        worker = cli.start("worker", "--json")
        told = worker.stdout.readline()
        assert "the disk is full" in told and "waiting" in told, told
        filling.unlink()
        assert eventually(lambda: cli("show", run_id, "--json").json["status"] == "succeeded")
        worker.terminate()
        assert worker.wait(timeout=60) == 0


class FailingDisk:
    """An ext4 disk in a file. `fail` does what the kernel does when the disk fails: it turns read-only at once, with files
    open for writing. (An ordinary remount waits until nobody writes.)"""

    def __init__(self, folder: Path) -> None:
        self.image, self.path = folder / "image", folder / "disk"
        self.path.mkdir(parents=True)
        with self.image.open("wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["/sbin/mkfs.ext4", "-q", "-E", "nodiscard", self.image], check=True)
        self._mount()

    def fail(self) -> None:
        source = subprocess.run(
            ["findmnt", "-no", "SOURCE", self.path], capture_output=True, text=True, check=True
        ).stdout.strip()
        Path("/sys/fs/ext4", Path(source).name, "trigger_fs_error").write_text("1")

    def repair(self) -> None:
        self.close()
        subprocess.run(["e2fsck", "-fy", self.image], capture_output=True)
        self._mount()

    def close(self) -> None:
        deadline = time.monotonic() + 60
        while subprocess.run(["umount", self.path], capture_output=True).returncode:
            assert time.monotonic() < deadline, "the disk stays busy"
            time.sleep(0.1)

    def _mount(self) -> None:
        subprocess.run(["mount", "-o", "loop,errors=remount-ro", self.image, self.path], check=True)


def read_only_after(cli: Cli, failing: FailingDisk, plan: str, lines: int, delay_s: float) -> int:
    """The disk fails when that many steps have acted, or a little later: the run stops and says so, and goes on when the
    disk is repaired. Returns its exit code."""
    journal = Path(cli.env["JOURNAL"])
    driver = cli.start("run", plan, "--quiet")
    assert eventually(lambda: len(journal.read_text().split()) >= lines or driver.poll() is not None)
    time.sleep(delay_s)  # which instant it is does not matter: soak asks for many
    failing.fail()
    out, err = driver.communicate(timeout=120)
    failing.repair()
    assert "Traceback" not in err, err
    assert driver.returncode in (0, 75), (driver.returncode, out, err)
    if driver.returncode == 75:
        assert err.strip(), "it stopped without a word"
        code = cli("resume", "last").code if cli("runs", "--json").json else cli("run", plan).code
        settled(cli, code)
    return driver.returncode


STEPS = 6
READ_ONLY_PLAN = """
    version: 1
    name: long
    workspace: {git: ./repo}
    steps:
""" + "".join(
    f"      - {{id: s{n}, run: 'sleep 0.1; echo {n} >> all; sync all; echo {n} >> \"$JOURNAL\"', repeat: never}}\n"
    for n in range(STEPS)
)


def read_only_trials(cli: Cli, tmp_path: Path, instants: list[tuple[int, float]]) -> list[int]:
    codes = []
    for number, (lines, delay_s) in enumerate(instants):
        failing, journal = FailingDisk(tmp_path / f"trial-{number}"), tmp_path / f"journal-{number}"
        journal.touch()
        cli.env["JOURNAL"], cli.home = str(journal), failing.path / "home"
        try:
            codes.append(read_only_after(cli, failing, cli.plan(READ_ONLY_PLAN), lines, delay_s))
            assert one_run(cli)["status"] == "succeeded"
            workspace = cli.run_dir(one_run(cli)["runId"]) / "workspace"
            asked = {
                e["payload"]["stepId"]
                for e in cli("events", "last", "--json").lines
                if e["type"] == "Escalated"
            }
            kept = (workspace / "all").read_text().split()
            # Each step syncs its file before it acts: what a file system loses of pages that nobody synced is not ours.
            assert [n for n in kept if f"s{n}" not in asked] == [
                str(n) for n in range(STEPS) if f"s{n}" not in asked
            ]
        finally:
            failing.close()
        assert journal.read_text().split() == [str(n) for n in range(STEPS)], "lost or repeated"
    return codes


needs_ext4 = pytest.mark.skipif(
    shutil.which("/sbin/mkfs.ext4") is None or not Path("/dev/loop-control").exists(),
    reason="needs mkfs.ext4 and loop devices",
)


@needs_ext4
def test_a_disk_that_turns_read_only_stops_the_run_and_it_goes_on(
    cli: Cli, repo: Path, tmp_path: Path
) -> None:
    assert read_only_trials(cli, tmp_path, [(1, 0.0), (3, 0.05)]) == [75, 75]


@needs_ext4
@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_a_disk_that_turns_read_only_at_many_instants_loses_and_repeats_nothing(
    cli: Cli, repo: Path, tmp_path: Path
) -> None:
    instants = [(lines, 0.02 * n) for lines in range(STEPS) for n in range(8)]
    assert 75 in read_only_trials(cli, tmp_path, instants)


def test_nothing_is_left_where_the_disk_of_the_home_was_mounted(cli: Cli) -> None:
    """The mount point is a folder like any other: what is made there would hide, and be missed later."""
    plan = cli.plan("""
        version: 1
        name: waiting
        steps:
          - {id: a, run: 'touch started; until test -e go; do sleep 0.02; done; exit 3'}
    """)
    with disk(cli.home, "size=16m"):
        driver = cli.start("run", plan)
        assert eventually((cli.folder / "started").exists)
    (cli.folder / "go").touch()
    _, err = driver.communicate(timeout=60)
    assert driver.returncode == 75, err
    assert not [path.name for path in cli.home.iterdir() if path.is_dir()]
    assert not (cli.home / "ledger.db").exists()


def test_doctor_fails_on_a_disk_with_hardly_any_room(cli: Cli) -> None:
    with disk(cli.folder / "small", "size=2m") as small:
        said = cli("doctor", "--json", env={"RECOUP_HOME": str(small / "home")})
    space = next(one for one in said.json["findings"] if one["name"] == "space")
    assert (said.code != 0, space["ok"], "MiB free" in space["detail"]) == (True, False, True), space
