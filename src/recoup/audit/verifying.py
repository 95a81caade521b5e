"""Walking the whole chain, and comparing it with the ledger."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from recoup.audit.chain import Torn, links
from recoup.audit.folder import AuditFolder, NotedHead, number_of
from recoup.audit.line import GENESIS, BadLine, Entry, Gap, Link, TooLong, entry_in, entry_of, gap_in
from recoup.errors import StateError
from recoup.model.events import LedgerPruned
from recoup.model.ids import key_stream
from recoup.model.storage import Arrival

GAPS_SHOWN_MAX = 1_000
WAIT_MAX_S = 30.0
_PAGE_EVENTS_MAX = 2_000
_PRUNED = LedgerPruned.TYPE
_KEY = key_stream("")


class Arrivals(Protocol):
    """What is needed of a ledger."""

    async def arrivals(self, after: int, limit: int) -> list[Arrival]: ...

    async def head(self, stream: str) -> int: ...


class Break(msgspec.Struct, frozen=True):
    """The first thing that is wrong."""

    file: str
    line: int | None
    """Counted from 1 within the file."""
    what: str


class GapFound(msgspec.Struct, frozen=True, rename="camel"):
    file: str
    line: int
    gap: Gap
    filled: bool
    """What the ledger still had of the events that were lost there stands behind it."""


class Compared(msgspec.Struct, frozen=True):
    """With the ledger."""

    events: int
    waiting: int
    """Not exported yet."""
    pruned: int
    """In the audit alone: their whole streams are gone from the ledger."""


class Verified(msgspec.Struct, frozen=True, rename="camel"):
    files: int
    lines: int
    events: int
    gaps: tuple[GapFound, ...]
    gaps_count: int
    first_break: Break | None
    ledger: Compared | None

    @property
    def intact(self) -> bool:
        return self.first_break is None


async def verify(root: Path, ledger: Arrivals | None = None, *, wait_s: float = WAIT_MAX_S) -> Verified:
    """Everything that was in the folder when it began. Writes nothing. Raises StateError, LedgerError."""
    folder = AuditFolder(root)
    try:
        stands = await _stands(folder, wait_s)
        return await _Verification(stands, ledger).verified()
    except OSError as error:
        raise StateError(
            f"the audit in {root} cannot be read: {error.strerror or error}",
            hint="Mend its permissions, then verify it again.",
        ) from error


class _Stand(msgspec.Struct, frozen=True):
    """The files and how far each went, at one moment at which nobody wrote."""

    files: tuple[tuple[Path, int], ...]
    noted: NotedHead | None


class _Place(msgspec.Struct, frozen=True):
    file: str
    line: int
    link: Link


class _Wrong(Exception):
    def __init__(self, file: str, line: int | None, what: str) -> None:
        super().__init__(what)
        self.first_break = Break(file, line, what)


async def _stands(folder: AuditFolder, wait_s: float) -> _Stand:
    if not folder.root.is_dir():
        return _Stand((), None)
    async with folder.locked(wait_s, shared=True) as quiet:
        if not quiet:
            raise StateError(
                f"the audit in {folder.root} was being written for {wait_s:g} s",
                hint="Verify it when the export has ended.",
            )
        files = tuple((path, path.stat().st_size) for path in folder.files())
        return _Stand(files, folder.noted_head())


class _Verification:
    """One walk, and what it has seen so far."""

    def __init__(self, stands: _Stand, ledger: Arrivals | None) -> None:
        self._stands = stands
        self._beside = _Beside(ledger) if ledger is not None else None
        self._lines = 0
        self._events = 0
        self._head = GENESIS
        self._absent: _Place | None = None
        self._gaps: list[tuple[_Place, Gap]] = []
        self._gaps_count = 0

    async def verified(self) -> Verified:
        first_break = compared = None
        try:
            for place in self._places():
                await self._look_at(place)
            self._require_the_noted_end()
            compared = await self._compared()
        except _Wrong as wrong:
            first_break = wrong.first_break
        return Verified(
            files=len(self._stands.files),
            lines=self._lines,
            events=self._events,
            gaps=tuple(self._found(place, gap, compared) for place, gap in self._gaps),
            gaps_count=self._gaps_count,
            first_break=first_break,
            ledger=compared,
        )

    def _places(self) -> Iterator[_Place]:
        for index, (path, size) in enumerate(self._stands.files, 1):
            if number_of(path) != index:
                raise _Wrong(f"audit-{index:06d}.jsonl", None, "the file is missing")
            number = 0
            try:
                for found in links(path, 0, self._head, size):
                    number += 1
                    self._head = found.link.head
                    yield _Place(path.name, number, found.link)
            except BadLine as bad:
                raise _Wrong(path.name, number + 1, _words(bad)) from None
            except FileNotFoundError:
                raise _Wrong(path.name, None, "the file is missing") from None

    async def _look_at(self, place: _Place) -> None:
        self._require_the_noted(place)
        try:
            if place.link.is_gap:
                self._note_gap(place)
            elif self._beside and not await self._beside.meet(entry_in(place.link)):
                self._absent = self._absent or place
        except BadLine as bad:
            raise _Wrong(place.file, place.line, str(bad)) from None
        self._lines += 1
        self._events += not place.link.is_gap

    def _note_gap(self, place: _Place) -> None:
        gap = gap_in(place.link)
        self._gaps_count += 1
        if len(self._gaps) < GAPS_SHOWN_MAX:
            self._gaps.append((place, gap))

    def _require_the_noted(self, place: _Place) -> None:
        noted = self._stands.noted
        if noted and noted.head.n == place.link.body.n and noted.head != place.link.head:
            raise _Wrong(
                place.file, place.line, "it is not the line that was written here: the chain was made anew"
            )

    def _require_the_noted_end(self) -> None:
        noted = self._stands.noted
        if noted and noted.head.n > self._head.n:
            lost = noted.head.n - self._head.n
            raise _Wrong(
                noted.file, None, f"it ends too early: {lost} {_lines_word(lost)} taken away from the end"
            )

    async def _compared(self) -> Compared | None:
        if self._beside is None:
            return None
        compared = await self._beside.rest()
        if self._absent and not self._beside.explains_what_is_absent():
            what = (
                "the ledger has no such event, and pruned nothing since: it is another one, or an older state"
            )
            raise _Wrong(self._absent.file, self._absent.line, what)
        return compared

    def _found(self, place: _Place, gap: Gap, compared: Compared | None) -> GapFound:
        followed = self._head.arrival > place.link.body.arrival and self._head.arrival >= gap.up_to
        return GapFound(
            place.file, place.line, gap, followed or (compared is not None and not compared.waiting)
        )


class _Beside:
    """The ledger, read along with the audit."""

    def __init__(self, ledger: Arrivals) -> None:
        self._ledger = ledger
        self._page: deque[Arrival] = deque()
        self._cursor = 0
        self._met = 0
        self._pruned_at = 0
        self._last_absent = 0
        self._absent_count = 0

    async def meet(self, entry: Entry) -> bool:
        """False: the ledger has its stream no more. Raises BadLine when it is not the ledger's next event."""
        await self._fill()
        here = self._page[0] if self._page else None
        if here is not None and here.number < entry.arrival:
            raise BadLine(f"{here.stream} {here.seq} is missing before it, which the ledger has")
        if here is None or here.number > entry.arrival:
            return await self._miss(entry)
        if entry_of(here) != entry:
            raise BadLine(f"the ledger says otherwise about {here.stream} {here.seq}")
        self._pass(self._page.popleft())
        self._met += 1
        return True

    async def rest(self) -> Compared:
        waiting = 0
        while await self._fill():
            waiting += len(self._page)
            while self._page:
                self._pass(self._page.popleft())
        return Compared(self._met + waiting, waiting, self._absent_count)

    def explains_what_is_absent(self) -> bool:
        """By having been pruned afterwards. To be asked at the end."""
        return self._last_absent <= self._pruned_at

    async def _fill(self) -> bool:
        if not self._page:
            self._page.extend(await self._ledger.arrivals(self._cursor, _PAGE_EVENTS_MAX))
            self._cursor = self._page[-1].number if self._page else self._cursor
        return bool(self._page)

    def _pass(self, arrival: Arrival) -> None:
        if arrival.type == _PRUNED:
            self._pruned_at = arrival.number

    async def _miss(self, entry: Entry) -> bool:
        # A key may be taken again after the run that had it was pruned.
        if not entry.stream.startswith(_KEY) and await self._ledger.head(entry.stream):
            raise BadLine(f"the ledger has no such event: {entry.stream} {entry.seq}")
        self._absent_count += 1
        self._last_absent = entry.arrival
        return False


def _words(bad: BadLine) -> str:
    match bad:
        case Torn():
            return f"{bad}: `recoup audit export` sets it aside and fills the gap"
        case TooLong():
            return (
                f"{bad}: in the last file `recoup audit export` sets it aside and fills the gap; "
                "in another one move the folder away, and export anew"
            )
    return str(bad)


def _lines_word(count: int) -> str:
    return "line was" if count == 1 else "lines were"
