"""Whoever stops `make bench` stops the benchmark under way, and that one what it has started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.commands import PROJECT

ALL = """
import subprocess, sys
from benchmarks.__main__ import ended, stop_when_told
stop_when_told()
ended(subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], text=True, start_new_session=True))
"""
ONE = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from benchmarks import one

def run():
    try:
        print("under way", flush=True)
        time.sleep(60)
    finally:
        Path(sys.argv[1]).write_text("its server was stopped")
    return []

one.importlib = SimpleNamespace(import_module=lambda _name: SimpleNamespace(run=run))
one.main("sleeps", Path(sys.argv[1] + ".json"))
"""


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_benchmark_under_way_ends_with_whoever_runs_it(tmp_path: Path, told: signal.Signals) -> None:
    """As a job in the background, which begins with Ctrl-C ignored."""
    ended = tmp_path / "ended"
    program = [sys.executable, "-c", ALL, ONE, str(ended)]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        bench = subprocess.Popen(program, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGINT, before)
    with bench:
        assert bench.stdout is not None
        assert bench.stdout.readline() == b"under way\n"
        bench.send_signal(told)
        assert bench.wait(30) != 0
    assert ended.read_text() == "its server was stopped"
