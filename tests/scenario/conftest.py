"""The real command line, in a home of its own."""

from __future__ import annotations

import json
import os
import signal
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.commands import Commands, Started, new_interpreter
from tests.repositories import new_repository

from recoup.ledger.holders import lock_holders
from recoup.processes.sweep import RUN_MARK

if TYPE_CHECKING:
    from tests.scenario.fleets import Fleet

    from recoup.testing.postgres import PostgresServer


@dataclass
class Result:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def document(self) -> Any:
        """The run document that ends `run --json` and `resume --json`."""
        return self.lines[-1]

    @property
    def events(self) -> list[Any]:
        return self.lines[:-1]

    def payloads(self, event_type: str) -> list[Any]:
        return [event["payload"] for event in self.events if event["type"] == event_type]


@dataclass
class Cli:
    """`recoup` with one home."""

    home: Path
    folder: Path
    commands: Commands
    env: dict[str, str] = field(default_factory=dict)
    started: list[Started] = field(default_factory=list)

    def __call__(self, *args: str, timeout: float = 60, env: dict[str, str] | None = None) -> Result:
        done = self.commands.run(*args, env=self.environ(env), cwd=self.folder, timeout=timeout)
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str, env: dict[str, str] | None = None) -> Started:
        process = self.commands.start(*args, env=self.environ(env), cwd=self.folder)
        self.started.append(process)
        return process

    def argv(self, *args: str) -> list[str]:
        return new_interpreter(*args)

    def environ(self, more: dict[str, str] | None = None) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "RECOUP_HOME": str(self.home), **self.env, **(more or {})}

    def plan(self, text: str, name: str = "plan.yaml") -> str:
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    def obey(self, **policy: Any) -> None:
        """Every command from now on has this policy in force."""
        path = self.folder / "policy.json"
        path.write_text(json.dumps(policy))
        self.env["RECOUP_POLICY"] = str(path)

    def ledger(self, run: str = "last") -> Any:
        return self("ledger", run, "--json").json

    def freeze(self, driver: Started) -> None:
        """Not with the lock of the database in its hand: then nobody writes until it wakes, as the page of faults says."""
        driver.send_signal(signal.SIGSTOP)
        while driver.pid in lock_holders(self.home / "ledger.db"):
            driver.send_signal(signal.SIGCONT)
            time.sleep(0.02)
            driver.send_signal(signal.SIGSTOP)

    def run_dir(self, run_id: str) -> Path:
        return self.home / "runs" / run_id


@pytest.fixture
def cli(tmp_path: Path, commands: Commands) -> Iterator[Cli]:
    folder = tmp_path / "work"
    folder.mkdir()
    one = Cli(tmp_path / "home", folder, commands)
    yield one
    for process in one.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def repo(cli: Cli) -> Path:
    """A small repository beside the plan."""
    return new_repository(cli.folder / "repo", {"README": "hello\n"})


def wait_for(path: Path, seconds: float = 60, text: str = "") -> None:
    """Until the file is there (with this in it)."""
    deadline = time.monotonic() + seconds
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def kill(process: Started) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def processes_of(run_id: str) -> list[int]:
    """Those that were started for the run and live."""
    mark, found = f"{RUN_MARK}={run_id}".encode(), []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, cli: Cli, tmp_path: Path) -> Fleet:
    from tests.scenario.fleets import Fleet

    url = None
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.prepared_database()
    return Fleet(cli, tmp_path, url)
