"""One benchmark in a process of its own: `python -m benchmarks.one NAME FILE`. The file is what it told."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from benchmarks import progress
from benchmarks.report import Row, lines
from benchmarks.results import split


def main(name: str, path: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background would ignore it
    rows: list[Row] = []
    run: Iterable[Row] = importlib.import_module(f"benchmarks.{name}").run()
    for row in run:
        progress.done()
        print(*lines(row), sep="\n", flush=True)
        rows.append(row)
    path.write_bytes(msgspec.json.encode(split(rows)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
