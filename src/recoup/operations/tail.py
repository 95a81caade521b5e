"""One look at the ledger for everybody who watches. What came last is kept in a ring that has a limit, and whoever is
concerned is woken; whoever is behind the ring reads the ledger by their own cursor.

Nothing here is a truth: a watcher that was told too much looks once more and finds nothing, and one that is woken late
goes on from its own place.
"""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from recoup.damage import read_leniently
from recoup.errors import LedgerError
from recoup.model.events import event_line, why_unreadable
from recoup.model.ids import run_stream
from recoup.model.storage import Arrival
from recoup.ports import Ledger

if TYPE_CHECKING:
    from recoup.app import App

TICK_S: Final = 0.025
LOGS_EVERY_TICKS: Final = 4
QUIET_TICKS_MAX: Final = 40
"""So long nobody is asked where nothing is heard. What a database withholds behind another's transaction is looked for
again soon after, whoever that was."""
RING_EVENTS_MAX: Final = 4_000
RING_BYTES_MAX: Final = 8 << 20
WORKFLOWS_MAX: Final = 5_000
PAGE_EVENTS: Final = 200
TROUBLE_S: Final = 0.5
ENDINGS: Final = frozenset(
    {"task.run.succeeded", "task.run.failed", "task.run.cancelled", "task.run.dead_lettered"}
)


Key = TypeVar("Key")


class Watch:
    """Somebody who waits: for anything, for the events of a stream, for a file to grow."""

    __slots__ = ("file", "latest", "may_be_over", "stream", "woken")

    def __init__(self, stream: str | None = None, file: Path | None = None) -> None:
        self.stream = stream
        self.file = file
        self.woken = asyncio.Event()
        self.latest: int | None = None
        """The last event of the stream that is known; None: the ledger must be asked."""
        self.may_be_over = True
        """The run has said since the last look that it has ended; at first nobody knows."""

    def told(self, one: Entry) -> None:
        self.latest = one.arrival.seq
        self.may_be_over = self.may_be_over or one.arrival.type in ENDINGS
        self.woken.set()

    async def wait(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self.woken.wait()
        except TimeoutError:
            return self.woken.is_set()  # both may have happened at once
        return True


class Entry:
    """One event in the ring, and its line as it is sent: encoded once, for all."""

    __slots__ = ("_line", "arrival")

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival
        self._line: bytes | None = None

    @property
    def line(self) -> bytes:
        if self._line is None:
            self._line = msgspec.json.encode(arrival_line(self.arrival))
        return self._line


def arrival_line(one: Arrival) -> dict[str, Any]:
    """The public form of an event, as `Event.line` makes it."""
    return event_line(
        one.stream, one.seq, one.at, one.type, one.payload.data, why_unreadable(one.payload.data)
    )


class Ring:
    """The events that came last, without a gap, within limits of number and size."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, place: int) -> None:
        """Nothing is known, and it goes on from here."""
        self.floor = self.head = place
        self._entries: list[Entry] = []
        self._numbers: list[int] = []
        self._streams: dict[str, deque[Entry]] = {}
        self._bytes = 0

    def add(self, arrivals: Sequence[Arrival]) -> list[Entry]:
        made = [Entry(one) for one in arrivals]
        for entry in made:
            self._entries.append(entry)
            self._numbers.append(entry.arrival.number)
            self._streams.setdefault(entry.arrival.stream, deque()).append(entry)
            self._bytes += len(entry.arrival.payload)
        if arrivals:
            self.head = arrivals[-1].number
        self._shorten()
        return made

    def behind(self, place: int, limit: int) -> list[Entry] | None:
        """None: they are not all here."""
        if place < self.floor:
            return None
        first = bisect_right(self._numbers, place)
        return self._entries[first : first + limit]

    def of_stream(self, stream: str, seq: int, limit: int) -> list[Entry] | None:
        """Those of one stream, which has no gaps. None: they are not all here."""
        kept = self._streams.get(stream)
        if not kept or kept[0].arrival.seq > seq + 1:
            return None
        first = seq + 1 - kept[0].arrival.seq
        return [kept[index] for index in range(first, min(len(kept), first + limit))]

    def _shorten(self) -> None:
        """Half of it at once, so that a list serves: to take off its first one each time would move them all."""
        if len(self._entries) <= RING_EVENTS_MAX and self._bytes <= RING_BYTES_MAX:
            return
        gone = 0
        while len(self._entries) - gone > RING_EVENTS_MAX // 2 or self._bytes > RING_BYTES_MAX // 2:
            entry = self._entries[gone]
            self._forget(entry.arrival)
            gone += 1
        self.floor = self._numbers[gone - 1]
        del self._entries[:gone], self._numbers[:gone]

    def _forget(self, oldest: Arrival) -> None:
        self._bytes -= len(oldest.payload)
        kept = self._streams[oldest.stream]
        kept.popleft()
        if not kept:
            del self._streams[oldest.stream]


class Tail:
    """Follows the ledger as long as somebody watches."""

    def __init__(self, ledger: Ledger, stopping: Callable[[], bool]) -> None:
        self._ledger = ledger
        self._stopping = stopping
        self._entering = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._watches: set[Watch] = set()
        self._of_all: set[Watch] = set()
        self._of_stream: dict[str, set[Watch]] = {}
        self._of_file: dict[Path, set[Watch]] = {}
        self._sizes: dict[Path, int] = {}
        self._marker = 0
        self._workflows: OrderedDict[str, str | None] = OrderedDict()
        self.ring = Ring()

    @property
    def follows(self) -> bool:
        """The head of the ring is where the ledger ends, as far as is known."""
        return self._task is not None

    @contextlib.asynccontextmanager
    async def watched(self, watch: Watch) -> AsyncIterator[None]:
        """Raises LedgerError."""
        async with self._entering:
            if self._task is None:
                await self._begin()
            # What it knew is from before anybody told it anything.
            watch.latest, watch.may_be_over = None, True
            self._enter(watch)
        try:
            yield
        finally:
            self._leave(watch)

    async def behind(self, place: int, limit: int) -> list[Entry]:
        """What came behind this number, from the ring or from the ledger."""
        kept = self.ring.behind(place, limit) if self.follows else None
        if kept is not None:
            return kept
        return [Entry(one) for one in await self._ledger.arrivals(place, limit)]

    async def workflow_of(self, stream: str) -> str | None:
        kind, _, name = stream.partition(":")
        if kind != "run":
            return name if kind in ("workflow", "targets") else None
        if name not in self._workflows:
            self._workflows[name] = await self._submitted_for(name)
        self._workflows.move_to_end(name)
        while len(self._workflows) > WORKFLOWS_MAX:
            self._workflows.popitem(last=False)
        return self._workflows.get(name)

    async def _submitted_for(self, run_id: str) -> str | None:
        for event in await read_leniently(self._ledger, run_stream(run_id), 0, 1):
            return getattr(event.payload, "workflow", None)
        return None

    def _enter(self, watch: Watch) -> None:
        self._watches.add(watch)
        if watch.stream is None:
            self._of_all.add(watch)
        else:
            self._of_stream.setdefault(watch.stream, set()).add(watch)
        if watch.file is not None:
            self._of_file.setdefault(watch.file, set()).add(watch)

    def _leave(self, watch: Watch) -> None:
        self._watches.discard(watch)
        self._of_all.discard(watch)
        _drop(self._of_stream, watch.stream, watch)
        _drop(self._of_file, watch.file, watch)
        if watch.file not in self._of_file and watch.file is not None:
            self._sizes.pop(watch.file, None)

    async def _begin(self) -> None:
        # The marker first: whatever is written after it makes itself known, and may be told twice, but not never.
        self._marker = await self._ledger.change_marker()
        self.ring.begin(await self._ledger.last_arrival())
        self._task = asyncio.create_task(self._follow(), name="recoup-tail")

    async def _follow(self) -> None:
        try:
            tick = quiet = pause = 0
            while self._watches and not self._stopping():
                await asyncio.sleep(TICK_S)
                tick, quiet = tick + 1, quiet + 1
                if tick % LOGS_EVERY_TICKS == 0:
                    self._look_at_files()
                if await self._has_changed():
                    quiet = pause = 1
                if quiet >= pause:
                    quiet, pause = 0, 1 if await self._take() else min(pause * 2 or 1, QUIET_TICKS_MAX)
        finally:
            self._task = None
            _wake(self._watches)

    async def _has_changed(self) -> bool:
        try:
            marker = await self._ledger.change_marker()
        except LedgerError:
            await asyncio.sleep(TROUBLE_S)
            return False
        changed, self._marker = marker != self._marker, marker
        return changed

    async def _take(self) -> bool:
        """Whether anything came."""
        came = False
        with contextlib.suppress(LedgerError):  # it is tried again, and whoever reads for themselves is told
            while True:
                arrivals = await self._ledger.arrivals(self.ring.head, PAGE_EVENTS)
                self._tell(self.ring.add(arrivals))
                came = came or bool(arrivals)
                if len(arrivals) < PAGE_EVENTS:
                    break
                await asyncio.sleep(0)
        return came

    def _tell(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            for watch in self._of_stream.get(entry.arrival.stream, ()):
                watch.told(entry)
        if entries:
            _wake(self._of_all)

    def _look_at_files(self) -> None:
        for path, watches in self._of_file.items():
            try:
                size = path.stat().st_size
            except OSError:
                size = 0
            if self._sizes.get(path) != size:
                self._sizes[path] = size
                _wake(watches)


def _wake(watches: Iterable[Watch]) -> None:
    for watch in watches:
        watch.woken.set()


def _drop(kept: dict[Key, set[Watch]], key: Key | None, watch: Watch) -> None:
    found = None if key is None else kept.get(key)
    if found is None or key is None:
        return
    found.discard(watch)
    if not found:
        del kept[key]


def tail_of(app: App, stopping: Callable[[], bool]) -> Tail:
    return Tail(app.ledger, stopping)
