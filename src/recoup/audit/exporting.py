"""Bringing the audit up to the ledger."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from recoup.audit.chain import last_link
from recoup.audit.folder import AuditFolder
from recoup.audit.line import Link, entry_in, entry_of
from recoup.audit.log import FILE_BYTES_MAX, AuditLog
from recoup.audit.mending import opened_log
from recoup.errors import StateError
from recoup.model.instant import Instant
from recoup.model.storage import Arrival
from recoup.ports import Ledger

WAIT_MAX_S = 2.0
EVENTS_MAX = 1_000_000
PAGE_EVENTS_MAX = 500
"""Made durable together: a few milliseconds in which the loop does nothing else."""


class Exported(msgspec.Struct, frozen=True):
    events: int
    n: int
    """The number of the last line."""
    file: Path | None
    busy: bool = False
    """Another process was exporting all the time: what is missing is left to it, or to who comes next."""


async def export(
    ledger: Ledger,
    root: Path,
    now: Instant,
    *,
    wait_s: float = WAIT_MAX_S,
    file_bytes_max: int = FILE_BYTES_MAX,
    events_max: int = EVENTS_MAX,
) -> Exported:
    """Append to the audit in the folder `root` what the ledger has and the audit has not. At any time, by anybody.

    Raises StateError when the audit cannot be written or is another ledger's, and LedgerError: no run is harmed by
    either, and the next export goes on where this one stopped.
    """
    folder = AuditFolder(root)
    with _in_words(root):
        folder.make()
        async with folder.locked(wait_s) as ours:
            if not ours:
                return Exported(0, 0, None, busy=True)
            folder.sweep()
            with opened_log(folder, file_bytes_max, now) as log:
                events = await _bring_up(ledger, folder, log, events_max)
                return Exported(events, log.head.n, log.path)


async def export_whole(
    ledger: Ledger,
    root: Path,
    now: Instant,
    *,
    wait_s: float = WAIT_MAX_S,
    part_events_max: int = EVENTS_MAX,
) -> Exported:
    """Part after part, so that others get their turn at the audit between them, until it holds all there is."""
    events = 0
    while True:
        done = await export(ledger, root, now, wait_s=wait_s, events_max=part_events_max)
        events += done.events
        if done.busy or done.events < part_events_max:
            return msgspec.structs.replace(done, events=events)


async def _bring_up(ledger: Ledger, folder: AuditFolder, log: AuditLog, events_max: int) -> int:
    page = await _first_page(ledger, folder, log)
    done = 0
    while page and done < events_max:
        log.append(map(entry_of, page))
        done += len(page)
        await asyncio.sleep(0)
        page = await ledger.arrivals(log.head.arrival, PAGE_EVENTS_MAX)
    return done


async def _first_page(ledger: Ledger, folder: AuditFolder, log: AuditLog) -> list[Arrival]:
    """Read from the last exported event on: it shows whether this is the ledger that the audit is of."""
    last = log.head.arrival
    page = await ledger.arrivals(max(0, last - 1), PAGE_EVENTS_MAX)
    if last == 0:
        return page
    if not page or (page[0].number == last and not _is(_end_of_chain(folder), page[0])):
        raise StateError(
            f"the audit in {folder.root} was exported from another ledger, or from a later state of this one",
            hint="Move the folder away; `recoup audit export` makes it anew from this ledger.",
        )
    return page[1:] if page[0].number == last else page


def _is(link: Link | None, arrival: Arrival) -> bool:
    """A gap at the end says nothing about the event before it."""
    return link is None or link.is_gap or entry_in(link) == entry_of(arrival)


def _end_of_chain(folder: AuditFolder) -> Link | None:
    for path in reversed(folder.files()):
        if path.stat().st_size:
            return last_link(path)
    return None


@contextlib.contextmanager
def _in_words(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(
            f"the audit in {root} cannot be written: {error.strerror or error}",
            hint="No run is harmed. Free some space or fix its permissions; "
            "the next `recoup audit export` goes on where this one stopped.",
        ) from error
