"""Workers on the real command line, on either database."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.commands import Started
from tests.scenario.conftest import Cli

QUICK = {"RECOUP_LEASE_S": "3", "RECOUP_HEARTBEAT_S": "0.5"}


class Fleet:
    """Any number of workers, each with a home of its own where the database allows it."""

    def __init__(self, cli: Cli, tmp_path: Path, url: str | None) -> None:
        self.cli = cli
        self._tmp_path = tmp_path
        self._url = url
        self.journal = tmp_path / "journal"
        self.journal.touch()
        self.go = tmp_path / "go"
        cli.env |= {"JOURNAL": str(self.journal), "GO": str(self.go), **QUICK}
        if url is not None:
            cli.env["RECOUP_DATABASE"] = url

    def worker(self, *words: str, number: int = 0, **env: str) -> Started:
        """Its notices are JSON lines on stdout."""
        home = {} if self._url is None else {"RECOUP_HOME": str(self._tmp_path / f"home-{number}")}
        return self.cli.start("worker", "--json", *words, env={**home, **env})

    def lines(self) -> list[str]:
        return self.journal.read_text().split("\n")[:-1]

    def state(self, run_id: str) -> Any:
        return self.cli("show", run_id, "--json").json

    def submit(self, plan: str, *words: str) -> str:
        done = self.cli("submit", plan, *words)
        assert done.code == 0, done.err
        return done.out.strip()

    def until(self, run_id: str, status: str, seconds: float = 60) -> Any:
        deadline = time.monotonic() + seconds
        while (state := self.state(run_id))["status"] != status:
            assert time.monotonic() < deadline, state
            time.sleep(0.1)  # to ask is a command: one after the other would take a core from those who work
        return state


def eventually(holds: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def notices(worker: Started, timeout: float = 60) -> list[dict[str, Any]]:
    out, err = worker.communicate(timeout=timeout)
    assert worker.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]
