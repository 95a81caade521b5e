"""A plan of eight targets, night after night on a shop that drifts over thirty releases: with and without learning.

The shop is the judge: a false heal is an action that it received on another element than the intended one, whatever the
ledger says. A night is right if the whole flow was done, or if a part was missing and nothing was chosen for it. After
any other night the failed step is recorded again: that is a repair.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.drift.releases import RELEASES, releases
from benchmarks.progress import doing
from benchmarks.report import Figure, LeftOut, Row, percentile, scaled
from recoup.runtimes.browser.finding import find_browser, has_library

if TYPE_CHECKING:
    from benchmarks.drift.nights import Night


NIGHTS: Final = scaled(RELEASES, 3)
ALL_S_MAX: Final = 240
"""On two cores that do nothing else."""


def run() -> Iterator[Row]:
    if not has_library() or find_browser(os.environ) is None:
        yield LeftOut("everything", "there is no Chromium here (recoup browser install)")
        return
    from benchmarks.drift.nights import EXACT, FORGETTING, LEARNING, go_through

    doing("thirty nights of three arms side by side, some minutes")
    arms = (LEARNING, FORGETTING, EXACT)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        nights = asyncio.run(go_through(arms, releases()[:NIGHTS], Path(folder)))
    print(chart(nights))
    yield Figure("all nights of all arms", time.perf_counter() - began, "s", bar=ALL_S_MAX, at_most=True)
    yield from figures(nights, LEARNING.name, FORGETTING.name)


def figures(nights: Mapping[str, Sequence[Night]], learning: str, forgetting: str) -> Iterator[Figure]:
    for name, some in nights.items():
        bar = right(nights[forgetting]) if name == learning else None
        yield Figure(f"correct nights, {name}", right(some), f"of {len(some)}", bar)
    for name, some in nights.items():
        bar = repairs(nights[forgetting]) if name == learning else None
        yield Figure(f"manual repairs, {name}", repairs(some), "", bar, at_most=True)
    for name, some in nights.items():
        yield Figure(f"false heals, {name}", sum(len(night.wrong) for night in some), "", 0, at_most=True)
    for name in (learning, forgetting):
        ways = Counter(way for night in nights[name] for way in night.healed.values())
        for way, count in sorted(ways.items()):
            yield Figure(f"steps healed by {way}, {name}", count, "")
    yield from _times(nights[learning], learning)
    yield from _times(nights[forgetting], forgetting)


def _times(nights: Sequence[Night], name: str) -> Iterator[Figure]:
    """By how the target was found: a step that heals waits until the page has been at rest for a while."""
    times: dict[str, list[float]] = {}
    for night in nights:
        for key, took in night.steps_ms.items():
            times.setdefault(night.healed.get(key, "exact"), []).append(took)
    for way, some in sorted(times.items()):
        for share in (0.5, 0.95):
            yield Figure(f"a step found by {way}, p{100 * share:.0f}, {name}", percentile(some, share), "ms")


def right(nights: Sequence[Night]) -> int:
    return sum(night.right for night in nights)


def repairs(nights: Sequence[Night]) -> int:
    return sum(night.needs_repair for night in nights)


def chart(nights: Mapping[str, Sequence[Night]]) -> str:
    """A mark for each night: # done, o stopped before what was missing, . given up, ! something wrong was done."""
    lines = [f"  {name:<14}{''.join(map(_mark, some))}" for name, some in nights.items()]
    scale = "".join(f"{number:<5}" for number in range(1, RELEASES + 1, 5))
    return "\n".join(
        [f"  {'release':<14}{scale}", *lines, "  # done  o rightly stopped  . given up  ! wrong"]
    )


def _mark(night: Night) -> str:
    if night.wrong:
        return "!"
    return "#" if night.done else "o" if night.right else "."
