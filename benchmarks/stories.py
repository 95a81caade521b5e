"""The short forms of the stories in `examples/`: their cost in `make test`.

Four at a time, as in the tests: every `recoup` is a fork of one process that has everything loaded, files are in memory
if there is room, and the PostgreSQL server is shared with other tests. Bar: all of them in 15 s. One after the other
they would mostly wait for leases and idle limits: there is no bar for that sum.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from examples.__main__ import names, tell
from examples.stage import Launch, Stage
from tests.commands import loaded_commands
from tests.scenario.awaited import forked

from benchmarks.progress import rounds
from benchmarks.report import Figure, of_rounds, scaled
from recoup.testing.postgres import VARIABLE, postgres_server

ROUNDS = scaled(5, 1)
AT_ONCE = 4
ALL_MAX_S = 15.0
MEMORY = Path("/dev/shm")


def run() -> Iterator[Figure]:
    with (
        postgres_server() as server,
        tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder,
        loaded_commands() as commands,
    ):
        os.environ[VARIABLE] = server.url
        yield from measured(Path(folder), forked(commands))


def measured(folder: Path, launch: Launch) -> Iterator[Figure]:
    together: list[float] = []
    alone: dict[str, list[float]] = {name: [] for name in names()}
    for number in rounds(ROUNDS, "the stories, four at a time and one after the other"):
        together.append(all_told(folder / f"{number}-together", launch))
        for name, taken in alone.items():
            taken.append(told(name, folder / f"{number}-alone", launch))
    yield of_rounds("all short stories, four at a time", together, "s", ALL_MAX_S, at_most=True)
    sums = [sum(turn) for turn in zip(*alone.values(), strict=True)]
    yield of_rounds("all short stories, one after the other", sums, "s", at_most=True)
    for name, taken in alone.items():
        yield of_rounds(f"{name}, alone", taken, "s", at_most=True)


def all_told(folder: Path, launch: Launch) -> float:
    began_s = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as tellers:
        list(tellers.map(lambda name: told(name, folder, launch), names()))
    return time.perf_counter() - began_s


def told(name: str, folder: Path, launch: Launch) -> float:
    """How long it took. Raises StoryBroken."""
    began_s = time.perf_counter()
    tell(name, Stage(folder / name, short=True, quiet=True, launch=launch))
    return time.perf_counter() - began_s
