"""Hints in one SQLite file beside the ledger, for any number of processes on one machine."""

from __future__ import annotations

import asyncio
import json
import secrets
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from recoup.dispatch.lanes import bounded_s, hint_of, lane_of, one_for_each_run, open_lanes, queue_of
from recoup.dispatch.local_file import QueueFile
from recoup.dispatch.queries import queries
from recoup.errors import DispatchError
from recoup.model.dispatch import Hint, QueueDepth, Taken
from recoup.model.instant import Instant
from recoup.ports import Clock

HOLD_S = 10.0
LOOK_S = 0.015
"""How often a waiting process looks whether another one has written: some 0.1 ms of work each time."""

_Q = queries("local.sql")
T = TypeVar("T")


class LocalDispatch:
    """The `Dispatch` of the ports on SQLite. A thread does the work: the event loop never waits for a lock."""

    def __init__(self, path: Path, clock: Clock, *, hold_s: float = HOLD_S, look_s: float = LOOK_S) -> None:
        """Nothing is opened before it is needed."""
        path = path.absolute()
        self._clock = clock
        self._hold_s = hold_s
        self._look_s = look_s
        self._file = QueueFile(path)
        self._watch = _Watch(path)
        self._thread: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "recoup-queue")
        self._wake = asyncio.Event()

    async def hint(self, hints: Sequence[Hint], delay_s: float = 0) -> None:
        if not hints:
            return
        now = self._clock.now()
        rows = [_row(hint, now, delay_s) for hint in one_for_each_run(hints)]
        await self._transact(now, lambda connection: _put(connection, rows))
        self._wake.set()

    async def take(self, queues: Sequence[str], capabilities: frozenset[str], limit: int) -> list[Taken]:
        if limit <= 0:
            return []
        now = self._clock.now()
        token = secrets.token_hex(8)

        def lanes_in(connection: sqlite3.Connection) -> list[str]:
            return open_lanes(_lanes(connection, now), queues, capabilities)

        def work(connection: sqlite3.Connection) -> list[Taken]:
            connection.execute(_Q["promote"], (now.boot_us,))
            return _take(connection, lanes_in(connection), limit, token, now.plus_s(self._hold_s))

        additions, lanes = await self._ask(
            now, lambda connection: (_additions(connection), lanes_in(connection))
        )
        taken = await self._transact(now, work) if lanes else []
        self._watch.took(now, additions, len(taken) >= limit)
        return taken

    async def keep(self, taken: Sequence[Taken]) -> None:
        if not taken:
            return
        now = self._clock.now()
        until = now.plus_s(self._hold_s)
        rows = [(until.boot_us, until.wall_us, each.hint.run_id, each.token) for each in taken]
        await self._transact(now, lambda connection: _keep(connection, rows))

    async def done(self, taken: Taken, again_in_s: float | None = None) -> None:
        now = self._clock.now()
        await self._transact(now, lambda connection: _finish(connection, taken, again_in_s, now))
        self._wake.set()

    async def wait(self, timeout_s: float) -> None:
        """Another process is noticed within `look_s`, this one at once."""
        start_us = self._clock.now().boot_us
        while True:
            self._wake.clear()
            now = self._clock.now()
            left_s = timeout_s - (now.boot_us - start_us) / 1e6
            if left_s <= 0 or self._watch.may_take(now):
                return
            await self._clock.wait(self._wake, min(left_s, self._look_s))

    async def depths(self) -> list[QueueDepth]:
        now = self._clock.now()
        asked = {"now_us": now.boot_us}
        rows = await self._ask(now, lambda connection: connection.execute(_Q["depths"], asked).fetchall())
        by_queue: dict[str, list[tuple[int, ...]]] = defaultdict(list)
        for lane, *counts in rows:
            by_queue[queue_of(lane)].append(tuple(counts))
        return [_depth(queue, lanes, now) for queue, lanes in sorted(by_queue.items())]

    async def hinted(self, run_ids: Sequence[str]) -> set[str]:
        asked = (json.dumps(list(run_ids)),)
        now = self._clock.now()
        rows = await self._ask(now, lambda connection: connection.execute(_Q["hinted"], asked).fetchall())
        return {run_id for (run_id,) in rows}

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._file.close)
            thread.shutdown()
            self._watch.close()

    async def _transact(self, now: Instant, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._in_thread(lambda: self._file.transact(now, work))

    async def _ask(self, now: Instant, question: Callable[[sqlite3.Connection], T]) -> T:
        return await self._in_thread(lambda: self._file.ask(now, question))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            raise DispatchError("the queue was closed", hint="Open it again.")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class _Watch:
    """Sees from the event loop what other processes do to the file. It reads only, and never waits."""

    def __init__(self, path: Path) -> None:
        self._file = QueueFile(path, busy_max_ms=0)
        self._taken_us = 0
        self._additions = -1
        self._more = True
        self._version = (0, -1)
        self._next_us: int | None = None
        self._seen = -1

    def took(self, now: Instant, additions: int, more: bool) -> None:
        self._taken_us, self._additions, self._more = now.boot_us, additions, more
        self._version = (0, -1)

    def may_take(self, now: Instant) -> bool:
        """Something was added since the last taking began, or became due, or was left. Told once: a worker without room
        would be told again and again."""
        try:
            additions = self._file.ask(now, self._look)
        except DispatchError:
            # It may be locked for a moment. Whoever takes will hear of what is worse.
            return False
        is_due = self._next_us is not None and self._next_us <= now.boot_us
        if self._more or is_due or additions != self._additions:
            self.took(now, additions, more=False)
            return True
        return False

    def close(self) -> None:
        self._file.close()

    def _look(self, connection: sqlite3.Connection) -> int:
        """The additions so far; and `_next_us` is kept up to date."""
        # SQLite counts per connection: a new one must not repeat what an older one said.
        version = (self._file.openings, connection.execute("PRAGMA data_version").fetchone()[0])
        if version != self._version:
            (self._next_us,) = connection.execute(_Q["next_at"], (self._taken_us,)).fetchone()
            self._seen = _additions(connection)
            self._version = version
        return self._seen


def _row(hint: Hint, now: Instant, delay_s: float) -> dict[str, object]:
    due = now.plus_s(bounded_s(delay_s))
    return {
        "run_id": hint.run_id,
        "lane": lane_of(hint),
        "priority": hint.priority,
        "ready": delay_s <= 0,
        "at_us": due.boot_us,
        "at_wall_us": due.wall_us,
    }


def _put(connection: sqlite3.Connection, rows: Sequence[dict[str, object]]) -> None:
    connection.executemany(_Q["put"], rows)
    connection.execute(_Q["count_additions"])


def _keep(connection: sqlite3.Connection, rows: Sequence[tuple[int, int, str, str]]) -> None:
    connection.executemany(_Q["keep"], rows)


def _lanes(connection: sqlite3.Connection, now: Instant) -> set[str]:
    ready = connection.execute(_Q["ready_lanes"]).fetchall()
    due = connection.execute(_Q["due_lanes"], (now.boot_us,)).fetchall()
    return {lane for (lane,) in (*ready, *due)}


def _additions(connection: sqlite3.Connection) -> int:
    (additions,) = connection.execute(_Q["additions"]).fetchone()
    return int(additions)


def _take(
    connection: sqlite3.Connection, lanes: Sequence[str], limit: int, token: str, until: Instant
) -> list[Taken]:
    found: list[tuple[int, int, str, str]] = []
    for lane in lanes:
        found += connection.execute(_Q["first_of_lane"], (lane, limit)).fetchall()
    best = sorted(found, key=lambda row: (-row[0], row[1]))[:limit]
    holds = [(until.boot_us, until.wall_us, token, run_id) for _, _, run_id, _ in best]
    connection.executemany(_Q["hold"], holds)
    return [Taken(hint_of(run_id, lane, priority), token) for priority, _, run_id, lane in best]


def _finish(connection: sqlite3.Connection, taken: Taken, again_in_s: float | None, now: Instant) -> None:
    run_id = taken.hint.run_id
    row = connection.execute(_Q["held"], (run_id, taken.token)).fetchone()
    if row is None:
        return
    held = _Held(*row)
    if held.again_us is None and again_in_s is None:
        connection.execute(_Q["remove"], (run_id,))
        return
    lane, priority, at_us = held.returned(again_in_s, now)
    wall_us = now.wall_us + at_us - now.boot_us
    is_later = again_in_s is not None and again_in_s > 0
    values = (is_later, lane, priority, at_us <= now.boot_us, at_us, wall_us, run_id)
    connection.execute(_Q["put_back"], values)
    connection.execute(_Q["count_additions"])


class _Held(msgspec.Struct, frozen=True):
    lane: str
    priority: int
    again_lane: str | None
    again_priority: int | None
    again_us: int | None

    def returned(self, again_in_s: float | None, now: Instant) -> tuple[str, int, int]:
        """The lane, the priority and the time of what waits now: the hint that came meanwhile, the one that goes back,
        or of both the best."""
        back_us = None if again_in_s is None else now.plus_s(bounded_s(again_in_s)).boot_us
        lane = self.again_lane or self.lane
        times = [at_us for at_us in (self.again_us, back_us) if at_us is not None]
        if back_us is None:
            assert self.again_priority is not None, "a hint that came meanwhile has a priority"
            return lane, self.again_priority, min(times)
        return lane, max(self.priority, self.again_priority or self.priority), min(times)


def _depth(queue: str, lanes: Sequence[tuple[int, ...]], now: Instant) -> QueueDepth:
    waiting, delayed, taken = (sum(lane[place] for lane in lanes) for place in range(3))
    oldest_us = min(lane[3] for lane in lanes)
    oldest_s = max(0, now.boot_us - oldest_us) / 1e6 if waiting else None
    return QueueDepth(queue, waiting, delayed, taken, oldest_s)
