"""Many runs are many storms: each has a ledger of its own, and they rage beside each other on all processors."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from recoup.simulation.storm import Ended, Size, Storm

STORM_RUNS_MAX = 2_500
_IN_MEMORY = Path("/dev/shm")


def storms(seed: int, runs: int) -> Iterator[Ended]:
    """As they end. The first has this seed, the others those that follow."""
    sizes = [min(STORM_RUNS_MAX, runs - before) for before in range(0, runs, STORM_RUNS_MAX)]
    if len(sizes) == 1:
        yield _storm(seed, runs)
        return
    beside = min(len(sizes), len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(beside, multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(_storm, seed + number, size) for number, size in enumerate(sizes)]
        try:
            for one in as_completed(waiting):
                yield one.result()
        finally:
            pool.shutdown(cancel_futures=True)


def together(ended: Sequence[Ended]) -> Ended:
    """What they come to, in the order of their seeds."""
    ended = sorted(ended, key=lambda one: one.seed)
    if len(ended) == 1:
        return ended[0]
    return Ended(
        seed=ended[0].seed,
        runs=sum(one.runs for one in ended),
        events=sum(one.events for one in ended),
        digest=hashlib.sha256("".join(one.digest for one in ended).encode()).hexdigest(),
        statuses=_summed([one.statuses for one in ended]),
        types=_summed([one.types for one in ended]),
        troubles=_summed([one.troubles for one in ended]),
        kills=sum(one.kills for one in ended),
        virtual_s=sum(one.virtual_s for one in ended),
        unanswered=[f"seed {one.seed}: {name}" for one in ended for name in one.unanswered],
        unended=[f"seed {one.seed}: {name}" for one in ended for name in one.unended],
        broken=[f"seed {one.seed} ({one.runs} runs): {words}" for one in ended for words in one.broken],
    )


def _storm(seed: int, runs: int) -> Ended:
    in_memory = _IN_MEMORY if _IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="recoup-storm-", dir=in_memory) as folder:
        return Storm(seed, Size(runs=runs), Path(folder)).rage()


def _summed(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))
