"""Hints in PostgreSQL, in the tables of pgqueuer, for any number of machines. The server's clock counts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Self
from uuid import UUID, uuid4

from pgqueuer.domain.models import Job
from pgqueuer.domain.types import QueueEntrypoint, QueueManagerId
from pgqueuer.ports.repository import EntrypointExecutionParameter

from recoup.dispatch.lanes import bounded_s, hint_of, lane_of, one_for_each_run, open_lanes, queue_of
from recoup.dispatch.pg_connections import HUNG_UP_MAX_S, Connections
from recoup.dispatch.pg_listener import Listener
from recoup.dispatch.pg_queuer import CHANNEL, BorrowingDriver, fetch, install, queuer
from recoup.dispatch.queries import queries
from recoup.errors import DispatchError
from recoup.model.dispatch import Hint, QueueDepth, Taken

HOLD_S = 10.0
BUSY_MAX_S = 5.0
CONNECTIONS_MAX = 4
AT_ONCE_MAX = 1_000
TOGETHER_S = 0.003
"""Takings that are done within this time are told of together."""
WAIT_MAX_S = 5.0
"""After that a waiting worker looks by itself: a notification may have been lost."""
LOOK_MAX_S = 2.0
LOG_KEPT_S = 600.0
STATISTICS_KEPT_S = 7 * 86_400.0
TIDY_EVERY_S = 30.0
TIDY_ROWS_MAX = 10_000
TIDY_ROUNDS_MAX = 20

_LOCKED_S = 0.005
_ROUNDS_MAX = 20
_TIDYING = 0x7265636F75700052
_ANY_NUMBER = EntrypointExecutionParameter(concurrency_limit=0)
_Q = queries("pg.sql")
_NEWS = json.dumps(
    {"type": "table_changed_event", "operation": "update", "table": "pgqueuer", "channel": CHANNEL}
)


class PgDispatch:
    """The `Dispatch` of the ports on PostgreSQL. pgqueuer's calls where it has one; otherwise pg.sql on its table."""

    def __init__(self, connections: Connections, hold_s: float) -> None:
        self._connections = connections
        self._queuer = queuer(BorrowingDriver(connections))
        self._listener = Listener(connections)
        self._hold = timedelta(seconds=hold_s)
        self._look_s = min(LOOK_MAX_S, hold_s / 3)
        self._tidier: asyncio.Task[None] | None = None
        self._lanes: list[str] = []
        self._looked: datetime | None = None
        self._heard = -1
        self._more = True
        self._removals: list[tuple[int, UUID, asyncio.Future[bool]]] = []
        self._remover: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, url: str, *, hold_s: float = HOLD_S, busy_max_s: float = BUSY_MAX_S) -> Self:
        """Makes the tables or brings them up to date as needed. Raises DispatchError, SettingsError."""
        connections = Connections(url, count_max=CONNECTIONS_MAX, busy_max_s=busy_max_s)
        try:
            await install(connections)
        except BaseException:
            await connections.close()
            raise
        connections.make_tables = lambda: install(connections)
        return cls(connections, hold_s)

    async def hint(self, hints: Sequence[Hint], delay_s: float = 0) -> None:
        wanted = one_for_each_run(hints)
        delay = timedelta(seconds=bounded_s(delay_s))
        for start in range(0, len(wanted), AT_ONCE_MAX):
            await self._hint(wanted[start : start + AT_ONCE_MAX], delay)

    async def take(self, queues: Sequence[str], capabilities: frozenset[str], limit: int) -> list[Taken]:
        if limit <= 0:
            return []
        self._tidier = self._tidier or asyncio.create_task(self._tidy(), name="recoup-queue-tidier")
        heard = self._listener.heard
        (look,) = await self._ask("lanes", self._hold)
        lanes = open_lanes(look["lanes"], queues, capabilities)
        # A new id for every taking: so a row tells whose it is, and nobody ends what another one has taken since.
        taker = uuid4()
        jobs = await self._dequeue(lanes, taker, limit) if lanes else []
        self._lanes, self._looked, self._heard, self._more = lanes, look["looked"], heard, len(jobs) >= limit
        hints = {job.id: _hint(job) for job in jobs}
        if strange := [number for number, hint in hints.items() if hint is None]:
            await self._ask("discard", strange, taker)
        return [Taken(hint, f"{number}:{taker}") for number, hint in hints.items() if hint]

    async def keep(self, taken: Sequence[Taken]) -> None:
        # All who change several rows do so in the order of their numbers: otherwise two would wait for each other.
        mine = sorted(_parts(each.token) for each in taken)
        if mine:
            await self._ask("keep", [number for number, _ in mine], [taker for _, taker in mine])

    async def done(self, taken: Taken, again_in_s: float | None = None) -> None:
        mine = _parts(taken.token)
        if again_in_s is None and await self._removed(*mine):
            return
        again_in = None if again_in_s is None else timedelta(seconds=bounded_s(again_in_s))
        await self._ask("put_back", *mine, again_in, CHANNEL, _NEWS)

    async def _removed(self, number: int, taker: UUID) -> bool:
        """Together with others that are done at this moment."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._removals.append((number, taker, answer))
        if len(self._removals) == 1:
            self._remover = asyncio.create_task(self._remove_all(), name="recoup-queue-remover")
        return await answer

    async def _remove_all(self) -> None:
        await asyncio.sleep(TOGETHER_S)
        batch, self._removals = sorted(self._removals, key=lambda removal: removal[0]), []
        try:
            rows = await self._ask(
                "remove", [number for number, *_ in batch], [taker for _, taker, _ in batch]
            )
        except DispatchError as error:
            for *_, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        gone = {row["id"] for row in rows}
        for number, _, answer in batch:
            if not answer.done():
                answer.set_result(number in gone)

    async def wait(self, timeout_s: float) -> None:
        self._listener.start()
        deadline_s = time.monotonic() + min(timeout_s, WAIT_MAX_S)
        while True:
            self._listener.news.clear()
            if self._more or self._listener.heard != self._heard:
                break
            next_s = await self._next_s()
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return
            if next_s <= 0:
                # Due, and yet not taken: another taker has the row locked for a moment.
                await asyncio.sleep(_LOCKED_S)
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, next_s, self._look_s)):
                    await self._listener.news.wait()
        # Told once: a worker without room would be told again and again.
        self._lanes, self._looked, self._more, self._heard = [], None, False, self._listener.heard

    async def depths(self) -> list[QueueDepth]:
        by_queue: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in await self._ask("depths", self._hold):
            by_queue[queue_of(row["lane"])].append(row)
        return [_depth(queue, lanes) for queue, lanes in sorted(by_queue.items())]

    async def hinted(self, run_ids: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for start in range(0, len(run_ids), AT_ONCE_MAX):
            rows = await self._ask("hinted", list(run_ids[start : start + AT_ONCE_MAX]))
            found |= {row["key"] for row in rows}
        return found

    async def close(self) -> None:
        if self._tidier is not None:
            self._tidier.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._tidier
        await self._listener.close()
        await self._connections.close()
        if self._remover is not None:
            await asyncio.wait({self._remover}, timeout=HUNG_UP_MAX_S)

    async def _hint(self, hints: list[Hint], delay: timedelta) -> None:
        """A row that was there and is gone again when it shall be changed: so it can be added now."""
        for _ in range(_ROUNDS_MAX):
            hints = await self._added(hints, delay)
            hints = await self._forwarded(hints, delay) if hints else []
            if not hints:
                return
        raise DispatchError(
            f"{len(hints)} hints found neither a row nor room for one",
            hint="Give them again: somebody was faster.",
        )

    async def _added(self, hints: list[Hint], delay: timedelta) -> list[Hint]:
        """Those that were not, because the run has one."""
        places = await self._queuer.enqueue(
            [lane_of(hint) for hint in hints],
            [hint.run_id.encode() for hint in hints],
            [hint.priority for hint in hints],
            [delay for _ in hints],
            [hint.run_id for hint in hints],
            on_conflict="skip",
        )
        return [hint for hint, place in zip(hints, places, strict=True) if place is None]

    async def _forwarded(self, hints: list[Hint], delay: timedelta) -> list[Hint]:
        """Those that could not be."""
        keys, lanes = [hint.run_id for hint in hints], [lane_of(hint) for hint in hints]
        priorities = [hint.priority for hint in hints]
        rows = await self._ask("forward", keys, lanes, priorities, delay, CHANNEL, _NEWS)
        found = {row["key"] for row in rows}
        return [hint for hint in hints if hint.run_id not in found]

    async def _dequeue(self, lanes: list[str], taker: UUID, limit: int) -> list[Job]:
        entries = {QueueEntrypoint(lane): _ANY_NUMBER for lane in lanes}
        return await self._queuer.dequeue(limit, entries, QueueManagerId(taker), None, self._hold)

    async def _next_s(self) -> float:
        """Until the next one is due, or a while. Who cannot ask waits as well: the taker hears of what is wrong."""
        with contextlib.suppress(DispatchError):
            (row,) = await self._ask("next_in_s", self._lanes, self._looked, self._hold)
            return self._look_s if row["in_s"] is None else float(row["in_s"])
        return self._look_s

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY_EVERY_S)
            with contextlib.suppress(DispatchError):
                await self.tidy()

    async def tidy(self, log_kept_s: float = LOG_KEPT_S) -> None:
        """pgqueuer writes a line for every hint and every taking, and deletes none."""
        kept = timedelta(seconds=log_kept_s)
        for _ in range(TIDY_ROUNDS_MAX):
            gone = await self._ask("tidy_log", kept, TIDY_ROWS_MAX, _TIDYING)
            if len(gone) < TIDY_ROWS_MAX:
                break
        await self._ask("tidy_statistics", timedelta(seconds=STATISTICS_KEPT_S))

    async def _ask(self, name: str, *args: object) -> list[dict[str, Any]]:
        return await self._connections.run(lambda connection: fetch(connection, _Q[name], *args))


def _hint(job: Job) -> Hint | None:
    """None: the row is not one of ours. Left there it would be taken again and again."""
    try:
        return hint_of((job.payload or b"").decode(), job.entrypoint, job.priority)
    except ValueError:
        return None


def _parts(token: str) -> tuple[int, UUID]:
    number, _, taker = token.partition(":")
    return int(number), UUID(taker)


def _depth(queue: str, lanes: Sequence[dict[str, Any]]) -> QueueDepth:
    waiting, delayed, taken = (sum(lane[name] for lane in lanes) for name in ("waiting", "delayed", "taken"))
    oldest_s = max(0.0, *(lane["oldest_s"] for lane in lanes)) if waiting else None
    return QueueDepth(queue, waiting, delayed, taken, oldest_s)
