"""Steps that kill or freeze what keeps them, and drivers that are killed together with their keepers."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from tests.scenario.conftest import Cli, kill, wait_for

from recoup.processes.process_table import process_of

GETS_AWAY = """
import os, sys, time
keeper = os.getppid()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("{home}/away", "w") as file:
            file.write(f"{{os.getpid()}}\\n")
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.execve("/bin/sleep", ["sleep", "300"], {environment})
    os._exit(0)
while not os.path.exists("{home}/away"):
    time.sleep(0.01)
{then}
time.sleep(300)
"""


def is_running(pid: int) -> bool:
    process = process_of(pid)
    return process is not None and process.state not in "ZX"


def wait_gone(pid: int, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still running"
        time.sleep(0.02)


def escaping(cli: Cli, then: str, environment: str = "{}", **step: str) -> str:
    """A plan whose step leaves a process of its own session behind, and then does something."""
    home = cli.folder
    (cli.folder / "escape.py").write_text(GETS_AWAY.format(home=home, then=then, environment=environment))
    limits = "".join(f", {name}: {value}" for name, value in step.items())
    run = f"exec python3 {cli.folder}/escape.py"
    return cli.plan(
        f"version: 1\nname: escape\nsteps: [{{id: one, run: '{run}', max_attempts: 1{limits}}}]\n"
    )


def escaped(cli: Cli) -> int:
    wait_for(cli.folder / "away", text="\n")
    return int((cli.folder / "away").read_text())


@pytest.fixture
def end_it(cli: Cli) -> Iterator[None]:
    """Nothing of a failed test stays behind."""
    yield
    away = cli.folder / "away"
    if away.exists() and away.read_text().strip() and is_running(int(away.read_text())):
        os.kill(int(away.read_text()), signal.SIGKILL)


@pytest.mark.usefixtures("end_it")
@pytest.mark.parametrize("environment", ["{}", "dict(os.environ)"])
def test_a_step_does_not_outlive_its_attempt_by_killing_its_keeper(cli: Cli, environment: str) -> None:
    done = cli("run", escaping(cli, f"os.kill(keeper, {int(signal.SIGKILL)})", environment), timeout=100)
    assert done.code != 0
    wait_gone(escaped(cli))


@pytest.mark.usefixtures("end_it")
def test_a_worker_ends_what_a_step_left_by_killing_its_keeper_and_keeps_no_zombie(cli: Cli) -> None:
    cli("submit", escaping(cli, f"os.kill(keeper, {int(signal.SIGKILL)})"))
    worker = cli.start("worker")
    pid = escaped(cli)
    wait_gone(pid)
    deadline = time.monotonic() + 60
    while (process := process_of(pid)) is not None and process.parent == worker.pid:
        assert time.monotonic() < deadline, f"{pid} stays in the process table"
        time.sleep(0.05)
    cli("control", "last", "cancel", "--reason", "seen enough")
    worker.send_signal(signal.SIGTERM)


def keeper_of(cli: Cli, run: str = "last") -> int:
    """The process that the ledger names as the keeper of the attempt under way."""
    launched = [line for line in cli("events", run, "--json").lines if line["type"].endswith(".launched")]
    return int(launched[-1]["payload"]["keeper"]["pid"])


@pytest.mark.usefixtures("end_it")
def test_what_a_driver_and_its_keeper_leave_when_killed_together_ends_with_the_next_driver(cli: Cli) -> None:
    """As long as it kept the marks in its environment; one that threw them away is nobody's then."""
    driver = cli.start("run", escaping(cli, "pass", "dict(os.environ)"))
    pid = escaped(cli)
    keeper = keeper_of(cli)
    driver.send_signal(signal.SIGSTOP)  # it must not see its keeper die first
    os.kill(keeper, signal.SIGKILL)
    kill(driver)
    assert is_running(pid)
    (cli.folder / "escape.py").write_text("print('done')\n")
    resumed = cli("resume", "last", timeout=100)
    assert resumed.code in (0, 1, 5, 75), resumed.err
    wait_gone(pid)


TINY = "version: 1\nname: tiny\nsteps: [{id: one, run: '%s'}]\n"


@pytest.mark.usefixtures("end_it")
@pytest.mark.parametrize("command", [("run", "tiny.yaml"), ("worker", "--until-idle")], ids=["run", "worker"])
def test_what_a_driver_and_its_keeper_leave_when_killed_together_ends_with_any_next_command_that_drives(
    cli: Cli, command: tuple[str, ...]
) -> None:
    """Whether or not it is about that run: another machine may go on with it."""
    driver = cli.start("run", escaping(cli, "pass", "dict(os.environ)"))
    pid, keeper = escaped(cli), keeper_of(cli)
    for victim in (driver.pid, keeper):
        os.kill(victim, signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    kill(driver)
    assert is_running(pid)
    cli.plan(TINY % "true", "tiny.yaml")
    done = cli(*command, timeout=100)
    assert done.code == 0, done.err
    wait_gone(pid)
    assert "left here when its driver was killed" in done.out + done.err


@pytest.mark.usefixtures("end_it")
def test_a_process_of_a_run_that_ended_in_good_order_is_left_alone(cli: Cli) -> None:
    """A job for `at` gets the whole environment of the step that asked for it, and begins when the step is long over."""
    cli("run", cli.plan(TINY % f"env -0 > {cli.folder}/env"))
    environment = dict(
        entry.split("=", 1) for entry in (cli.folder / "env").read_text().split("\0") if "=" in entry
    )
    assert environment["RECOUP_KEEPER"]
    with subprocess.Popen(["/bin/sleep", "300"], env=environment) as job:
        try:
            assert cli("run", cli.plan(TINY % "true")).code == 0
            assert job.poll() is None
        finally:
            job.kill()


@pytest.mark.usefixtures("end_it")
def test_a_keeper_that_was_frozen_when_its_driver_was_killed_does_not_hold_the_run(cli: Cli) -> None:
    driver = cli.start("run", escaping(cli, "pass", "dict(os.environ)"))
    pid, keeper = escaped(cli), keeper_of(cli)
    driver.send_signal(signal.SIGSTOP)  # it would wake its keeper
    os.kill(keeper, signal.SIGSTOP)
    kill(driver)
    (cli.folder / "escape.py").write_text("print('done')\n")
    resumed = cli("resume", "last", timeout=100)
    assert resumed.code in (0, 1, 5, 75), resumed.err
    wait_gone(pid)
