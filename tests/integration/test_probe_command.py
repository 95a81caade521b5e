"""`recoup probe` as people use it: the command itself, killed and started again."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recoup.cli.main import recoup
from recoup.cli.output import print_error
from recoup.errors import RecoupError

RECOUP = (sys.executable, "-m", "recoup.cli.main")
PATIENCE_S = 40.0


@dataclass(frozen=True)
class Answer:
    returncode: int
    stdout: str
    stderr: str


class Home:
    """A state folder, a probe file, and the command."""

    def __init__(self, root: Path, text: str) -> None:
        self.root = root
        self.file = root / "dev.yaml"
        self.file.write_text(textwrap.dedent(text))
        self.environ = {**os.environ, "RECOUP_HOME": str(root / "home"), "NO_COLOR": "1"}

    def start(self, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*RECOUP, "probe", "run", str(self.file), "--json"],
            env={**self.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def call(self, *words: str) -> Answer:
        """In this process: an interpreter takes longer to start than most of them to answer."""
        out, err, code = io.StringIO(), io.StringIO(), 0
        given = ["--home", str(self.root / "home"), "probe", *words]
        with redirect_stdout(out), redirect_stderr(err):
            try:
                answer = recoup.main(given, standalone_mode=False)
                code = answer if isinstance(answer, int) else 0
            except RecoupError as error:
                code = print_error(error)
        return Answer(code, out.getvalue(), err.getvalue())

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.call("status", "--json").stdout)
        return found

    def pids(self) -> list[int]:
        file = self.root / "pids"
        return [int(line) for line in file.read_text().split()] if file.exists() else []


def lines_until(
    process: subprocess.Popen[str], holds: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    assert process.stdout is not None
    lines = []
    for text in process.stdout:
        lines.append(json.loads(text))
        if holds(lines[-1]):
            return lines
    raise AssertionError(f"it ended before: {lines}")


def entered(resource: str, phase: str) -> Callable[[dict[str, Any]], bool]:
    return lambda line: (
        line["type"] == "PhaseChanged" and line["resource_id"] == resource and line["phase"] == phase
    )


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, "it did not come about"
        time.sleep(0.02)


ONE = """
    version: 1
    budget: {delays_s: [1s]}
    resources:
      - id: api
        process: {command: [sh, -c, "echo $$ >> pids; exec sleep 1000"], settle: 100ms}
"""


def test_a_killed_probe_leaves_no_orphan_and_the_next_one_no_second_copy(tmp_path: Path) -> None:
    home = Home(tmp_path, ONE)
    first = home.start()
    try:
        lines_until(first, entered("api", "running"))
        assert home.status()["running"]
        first.kill()
        first.wait()
        wait_until(lambda: not alive(home.pids()[0]))
        assert not home.status()["running"]
        second = home.start()
        try:
            lines = lines_until(second, entered("api", "running"))
            assert lines[0]["type"] == "ProbeStarted" and lines[0]["lease_epoch"] == 2
            assert [alive(pid) for pid in home.pids()] == [False, True]
            second.send_signal(signal.SIGTERM)
            rest = [json.loads(line)["type"] for line in second.stdout or ()]
            assert rest == ["PhaseChanged", "ProbeStopped"] and second.wait() == 0
        finally:
            second.kill()
            second.communicate()
    finally:
        first.kill()
        first.communicate()
    assert not any(alive(pid) for pid in home.pids())


GETS_AWAY = """
import os, signal, time
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
anchor = os.getppid()
keeper = parent(anchor)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("pids", "a") as file:
            file.write(f"{os.getpid()}\\n")
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.execve("/bin/sleep", ["sleep", "1000"], {})
    os._exit(0)
while not os.path.exists("pids") or not open("pids").read().endswith("\\n"):
    time.sleep(0.01)
for pid in (anchor, keeper):
    os.kill(pid, signal.SIGKILL)
time.sleep(1000)
"""


def test_a_process_does_not_outlive_its_probe_by_killing_what_keeps_it(tmp_path: Path) -> None:
    """In a session of its own and without the mark in its environment, it can be known only as an orphan."""
    home = Home(tmp_path, ONE.replace("echo $$ >> pids; exec sleep 1000", "exec python3 escape.py"))
    (tmp_path / "escape.py").write_text(GETS_AWAY)
    probe = home.start()
    try:
        wait_until(lambda: bool(home.pids()))
        away = home.pids()[0]
        wait_until(lambda: not alive(away))
        probe.send_signal(signal.SIGTERM)
        probe.communicate(timeout=PATIENCE_S)
        wait_until(lambda: not any(alive(pid) for pid in home.pids()))
    finally:
        probe.kill()
        probe.communicate()
        for pid in filter(alive, home.pids()):
            os.kill(pid, signal.SIGKILL)


def test_a_probe_leaves_the_processes_of_another_one_of_its_name_alone(tmp_path: Path) -> None:
    """In another state folder on the same machine; one of them was killed and is started again."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = Home(tmp_path / "a", ONE), Home(tmp_path / "b", ONE)
    running = [one.start(), other.start()]
    try:
        for process in running:
            lines_until(process, entered("api", "running"))
        running[0].kill()
        running[0].wait()
        running.append(one.start())
        lines_until(running[-1], entered("api", "running"))
        assert [alive(pid) for pid in other.pids()] == [True]
        assert [alive(pid) for pid in one.pids()] == [False, True]
    finally:
        for process in running:
            process.kill()
            process.communicate()


def test_people_look_act_and_give_budgets_back(tmp_path: Path) -> None:
    home = Home(tmp_path, ONE.replace("delays_s: [1s]", "delays_s: [1s], max_retries: 1"))
    running = home.start()
    try:
        lines_until(running, entered("api", "running"))
        told = home.call("act", "api", "restart", "--reason", "new certificate", "--json")
        assert json.loads(told.stdout)["outcome"] == "accepted", told.stderr
        lines_until(running, entered("api", "running"))
        refused = home.call("act", "api", "restart", "--reason", "again")
        assert refused.returncode == 2 and "budget" in refused.stderr, home.call("events").stdout
        forbidden = home.call("act", "api", "archive", "--reason", "tidy up", "--json")
        assert (forbidden.returncode, json.loads(forbidden.stdout)["rule"]) == (2, "silent_termination")
        given_back = home.call("reset-budget", "api", "--reason", "it was me")
        assert given_back.returncode == 0, given_back.stderr
        shown = home.call("status").stdout
        assert "api" in shown and "running" in shown and "retries" not in shown
    finally:
        running.terminate()
        running.communicate(timeout=PATIENCE_S)
    lines = [json.loads(line) for line in home.call("events", "--json").stdout.splitlines()]
    kinds = [line["type"] for line in lines]
    assert {"RecoveryAttempted", "RecoverySucceeded", "ActionRefused", "BudgetReset"} <= set(kinds)
    attempted = lines[kinds.index("RecoveryAttempted")]
    assert attempted["payload"]["action"] == attempted["action"] == "restart" and attempted["manual"]
    audit = "".join(file.read_text() for file in sorted((tmp_path / "home/audit").glob("*.jsonl")))
    assert audit.count('"RecoveryAttempted"') == 1 and audit.count('"BudgetReset"') == 1
    away = home.call("act", "api", "restart", "--reason", "nobody there")
    assert away.returncode == 2 and "not running" in away.stderr
    offline = home.call("reset-budget", "api", "--reason", "while it is away")
    assert offline.returncode == 0, offline.stderr
    words = home.call("events", "--resource", "api").stdout
    assert "retries given back by" in words and "restart for" in words


def test_status_says_where_to_read_what_a_broken_process_printed(tmp_path: Path) -> None:
    home = Home(tmp_path, ONE.replace("echo $$ >> pids; exec sleep 1000", "echo no such database; exit 1"))
    running = home.start()
    try:
        lines_until(running, entered("api", "recovering"))
        [said] = [line for line in home.call("status").stdout.splitlines() if "what api printed" in line]
        assert "no such database" in Path(said.partition(": ")[2]).read_text()
    finally:
        running.terminate()
        running.communicate(timeout=PATIENCE_S)


def test_a_file_that_asks_for_what_no_probe_may_do_is_refused_and_audited(tmp_path: Path) -> None:
    home = Home(tmp_path, ONE + "        on_fault: {process_exited: migrate_host}\n")
    checked = home.call("check", str(home.file))
    assert checked.returncode == 3 and "host_placement" in checked.stderr
    refused = home.call("run", str(home.file))
    assert refused.returncode == 3 and "host_placement" in refused.stderr
    audit = "".join(file.read_text() for file in (tmp_path / "home/audit").glob("*.jsonl"))
    assert audit.count("ActionRefused") == 1 and "host_placement" in audit
    assert not home.pids()


def test_a_service_manager_is_told_that_the_probe_is_there(tmp_path: Path) -> None:
    import socket

    home = Home(tmp_path, ONE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        settings = {"RECOUP_LEASE_S": "3", "RECOUP_HEARTBEAT_S": "0.2"}
        running = home.start(NOTIFY_SOCKET=str(tmp_path / "notify"), **settings)
        try:
            words = {manager.recv(200).decode().split("\n")[0] for _ in range(3)}
            assert words == {"READY=1", "WATCHDOG=1"}
        finally:
            running.terminate()
            running.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("words", [["status"], ["events"], ["act", "api", "restart", "--reason", "r"]])
def test_where_no_probe_has_run_that_is_said(tmp_path: Path, words: list[str]) -> None:
    found = Home(tmp_path, ONE).call(*words)
    assert found.returncode == 2 and "no probe has run here yet" in found.stderr


def test_a_frozen_probe_loses_its_processes_and_its_lease(tmp_path: Path) -> None:
    """Its keepers end everything before the lease is over, so that nobody who takes over meets a second copy."""
    home = Home(tmp_path, ONE)
    frozen = home.start(RECOUP_LEASE_S="6", RECOUP_HEARTBEAT_S="0.5")
    try:
        lines_until(frozen, entered("api", "running"))
        frozen.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        wait_until(lambda: not alive(home.pids()[-1]))
        assert time.monotonic() - began < 10
        time.sleep(max(0, began + 7 - time.monotonic()))
        frozen.send_signal(signal.SIGCONT)
        rest, _ = frozen.communicate(timeout=PATIENCE_S)
        assert frozen.returncode == 75 and "lost its lease" in rest
    finally:
        frozen.kill()
        frozen.communicate()
    assert not any(alive(pid) for pid in home.pids()), "nothing was started again without the lease"


def test_on_a_terminal_there_is_a_table(tmp_path: Path) -> None:
    import pty

    home = Home(tmp_path, ONE)
    near, far = pty.openpty()
    running = subprocess.Popen(
        [*RECOUP, "probe", "run", str(home.file)],
        env={**home.environ, "COLUMNS": "100", "LINES": "30", "TERM": "xterm"},
        stdin=far,
        stdout=far,
        stderr=far,
    )
    os.close(far)
    shown = b""
    try:
        end_s = time.monotonic() + PATIENCE_S
        while b"running" not in shown and time.monotonic() < end_s:
            shown += os.read(near, 4096)
        assert b"probe dev" in shown and b"api" in shown and b"running" in shown
    finally:
        running.terminate()
        while running.poll() is None:
            try:
                os.read(near, 4096)
            except OSError:
                break
        running.wait(PATIENCE_S)
        os.close(near)
    assert running.returncode == 0
