"""Lanes: a queue and the capabilities that are needed, as one word. What may be taken is a question of the lane."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from recoup.model.dispatch import Hint

DELAY_MAX_S = 10 * 366 * 86_400.0
"""A hint that comes too early does no harm."""
_PLUS = "+"
"""No queue and no capability has it in its name."""


def lane_of(hint: Hint) -> str:
    return _PLUS.join((hint.queue, *hint.needs))


def queue_of(lane: str) -> str:
    return lane.partition(_PLUS)[0]


def hint_of(run_id: str, lane: str, priority: int) -> Hint:
    queue, *needs = lane.split(_PLUS)
    return Hint(run_id, queue, priority, tuple(needs))


def open_lanes(lanes: Iterable[str], queues: Collection[str], capabilities: Collection[str]) -> list[str]:
    """Those that a worker of these queues with these capabilities may take from."""
    return [lane for lane in lanes if _is_open(lane, queues, capabilities)]


def one_for_each_run(hints: Sequence[Hint]) -> list[Hint]:
    """By the runs' ids, so that two who hint the same ones at once do not wait for each other; each with its highest
    priority and its latest lane."""
    kept: dict[str, Hint] = {}
    for hint in hints:
        known = kept.get(hint.run_id, hint)
        kept[hint.run_id] = msgspec.structs.replace(hint, priority=max(hint.priority, known.priority))
    return [kept[run_id] for run_id in sorted(kept)]


def bounded_s(delay_s: float) -> float:
    return min(max(0.0, delay_s), DELAY_MAX_S)


def _is_open(lane: str, queues: Collection[str], capabilities: Collection[str]) -> bool:
    queue, *needs = lane.split(_PLUS)
    return queue in queues and all(need in capabilities for need in needs)
