"""A worker is lost in the middle of a step: the time until another one runs that step again.

Two real workers on the command line, and one run whose first step is done and whose second one is active. Its
worker is killed with SIGKILL, or frozen with SIGSTOP; the time runs from that signal until the step's own first
command runs again under the other worker. "On another host" the other worker has a separate pid namespace and
cannot see that the first is dead: the lease must expire. Bars: a second on the same host, a lease plus a second
otherwise. In no round may the finished step be repeated.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.progress import rounds
from benchmarks.report import Figure, LeftOut, Row, of_rounds, scaled
from recoup.testing.postgres import postgres_server

ROUNDS = scaled(5, 1)
LEASE_S = 3.0
HEARTBEAT_S = 0.5
SAME_HOST_MAX_S = 1.0
PATIENCE_S = 60.0
LOOK_S = 0.002
PLAN = """
version: 1
name: taken-over
steps:
  - {id: done, run: 'echo done >> "$JOURNAL"'}
  - {id: begun, run: 'echo begun >> "$JOURNAL"; sleep 60'}
"""
ELSEWHERE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def run() -> Iterator[Row]:
    yield of_rounds("killed, on one SQLite file", several(kill), "s", SAME_HOST_MAX_S, at_most=True)
    yield frozen("frozen, on one SQLite file", several(freeze))
    with postgres_server() as server:

        def url() -> str:
            return server.prepared_database()

        yield of_rounds("killed, on PostgreSQL", several(kill, url), "s", SAME_HOST_MAX_S, at_most=True)
        yield frozen("frozen, on PostgreSQL", several(freeze, url))
        what = "killed, the other worker on another host, on PostgreSQL"
        if subprocess.run([*ELSEWHERE, "true"], capture_output=True, check=False).returncode:
            yield LeftOut(what, "process ids of its own need root, or user namespaces")
            return
        yield frozen(what, several(kill, url, ELSEWHERE))


def frozen(name: str, waits: list[float]) -> Figure:
    """Or as good as frozen: nobody can know that it is dead."""
    return of_rounds(name, waits, "s", LEASE_S + 1, at_most=True, note=f"a lease lasts {LEASE_S:g} s")


def kill(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()


def freeze(worker: subprocess.Popen[bytes]) -> None:
    worker.send_signal(signal.SIGSTOP)


def several(
    lose: Callable[[subprocess.Popen[bytes]], None],
    url: Callable[[], str] | None = None,
    second_within: tuple[str, ...] = (),
) -> list[float]:
    where = "PostgreSQL" if url else "SQLite"
    return [once(lose, url and url(), second_within) for _ in rounds(ROUNDS, f"{lose.__name__} on {where}")]


def once(
    lose: Callable[[subprocess.Popen[bytes]], None], url: str | None, second_within: tuple[str, ...]
) -> float:
    folder = Path(tempfile.mkdtemp())
    scene = Scene(folder, url)
    try:
        with scene.worker(1) as first:
            scene.recoup("submit", str(scene.plan))
            scene.until(lambda: scene.journal() == ["done", "begun"])
            with scene.worker(2, second_within):
                scene.until(lambda: len(json.loads(scene.recoup("workers", "--json"))) == 2)
                began_s = time.monotonic()
                lose(first)
                scene.until(lambda: len(scene.journal()) > 2)
                took_s = time.monotonic() - began_s
                assert scene.journal() == ["done", "begun", "begun"], "nothing that was done is repeated"
        return took_s
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Scene:
    """One database, a home for each worker where the database allows it."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self._folder, self._url = folder, url
        self.plan = folder / "plan.yaml"
        self.plan.write_text(PLAN)
        self._journal = folder / "journal"
        self._journal.touch()

    def journal(self) -> list[str]:
        return self._journal.read_text().splitlines()

    def recoup(self, *words: str) -> str:
        argv = [sys.executable, "-m", "recoup.cli.main", *words]
        return subprocess.run(argv, env=self._env(0), check=True, stdout=subprocess.PIPE, text=True).stdout

    @contextlib.contextmanager
    def worker(self, number: int, within: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
        argv = [*within, sys.executable, "-m", "recoup.cli.main", "worker", "--grace", "0"]
        quiet = subprocess.DEVNULL
        worker = subprocess.Popen(argv, env=self._env(number), stdout=quiet, stderr=quiet)
        try:
            yield worker
        finally:
            # The keeper of a step that is still under way ends it: no lifeline, no step.
            worker.kill()
            worker.wait()

    def until(self, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline_s, self.journal()
            time.sleep(LOOK_S)

    def _env(self, number: int) -> dict[str, str]:
        ours = {
            "JOURNAL": str(self._journal),
            "RECOUP_HOME": str(self._folder / (f"home-{number}" if self._url else "home")),
            "RECOUP_LEASE_S": str(LEASE_S),
            "RECOUP_HEARTBEAT_S": str(HEARTBEAT_S),
        }
        return {**os.environ, **ours, **({"RECOUP_DATABASE": self._url} if self._url else {})}
