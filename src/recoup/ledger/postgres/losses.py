"""Commits that a server had acknowledged and does not have any more: after a failover to a standby that was behind, or
when an older copy of its data was put back.

Evidence is compared whenever a writer connects, for no server loses anything while a session with it lasts. Certain: an
event that was acknowledged to a process of this home is missing, or is another one. Possible: the cluster is on another
timeline, and no standby had to confirm its commits.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from recoup.ledger.postgres.connecting import Connection
from recoup.ledger.postgres.picture import Picture
from recoup.ledger.postgres.queries import queries
from recoup.ledger.postgres.witness import Acknowledged, Witness
from recoup.model.storage import Loss

_PRUNE_SPARE_US = 3_600_000_000
"""Where only clocks can be compared: what was forgotten shortly before an event may have been forgotten after it."""
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_UNTOLD = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.FeatureNotSupported,
    psycopg.errors.ObjectNotInPrerequisiteState,
    psycopg.errors.UndefinedFunction,
)
"""A server that does not say which one it is: some that are rented do not. Then only missing events are evidence."""
_Q = queries()


class Acknowledgements:
    """The last event that was acknowledged to this process, and what other processes of this home left behind."""

    def __init__(self, folder: Path | None, lost: Callable[[], None]) -> None:
        """`lost` is called when commits were lost: nothing that was read before holds any more."""
        self._witness = Witness(folder)
        self._lost = lost
        self._ledger_id: str | None = None
        self._start: str | None = None
        self._started_boot_s = time.clock_gettime(_BOOT_CLOCK)
        self._last: Acknowledged | None = None

    def add(self, picture: Picture, number: int | None) -> None:
        """After its transaction was committed. `number`: of its last event."""
        if picture.events and self._ledger_id is not None:
            place, (_, wall_us, boot_us, boot_id, *_) = picture.events[-1]
            self._last = Acknowledged(
                self._ledger_id, place.stream, place.seq, wall_us, boot_us, boot_id, number, self._start
            )

    def started_s_ago(self) -> float:
        return time.clock_gettime(_BOOT_CLOCK) - self._started_boot_s

    async def write(self) -> None:
        """Durable when it returns. Raises OSError."""
        if self._last is not None:
            await asyncio.to_thread(self._witness.write, self._last, durable=True)

    def write_soon(self) -> None:
        """For a process that may be gone by the time that the server is back."""
        if self._last is not None:
            with contextlib.suppress(OSError):
                self._witness.write(self._last, durable=False)

    async def compare(self, connection: Connection) -> None:
        """With what this server has. Raises psycopg.Error."""
        row = await _one(connection, "ledger_id")
        self._ledger_id = None if row is None else row[0]
        row = await _one(connection, "note_start")
        self._start, age_s = row or (None, 0.0)
        self._started_boot_s = time.clock_gettime(_BOOT_CLOCK) - max(0.0, age_s)
        behind = await _note_server(connection)
        for path, last in self._known():
            found_seq = await _missing(connection, last)
            if found_seq is not None:
                behind = True
                await _note(connection, last, found_seq)
                if path is not None:
                    path.unlink(missing_ok=True)
        if behind:
            self._last = None
            self._lost()
        self._witness.tidy()

    def _known(self) -> list[tuple[Path | None, Acknowledged]]:
        if self._ledger_id is None:
            return []
        own = [] if self._last is None else [(None, self._last)]
        return [*own, *self._witness.read(self._ledger_id)]


async def _note_server(connection: Connection) -> bool:
    """Whether the server is one that may have lost commits."""
    try:
        server = await _one(connection, "this_server")
    except _UNTOLD:
        return False
    row = await _one(connection, "note_server", server or ())
    return row == (True,)


async def _note(connection: Connection, last: Acknowledged, found_seq: int) -> None:
    at = datetime.fromtimestamp(last.wall_us / 1e6, UTC).isoformat(timespec="milliseconds")
    words = f"event {last.seq} of {last.stream} was acknowledged at {at}; the server has {found_seq} events"
    await _one(connection, "note_loss", (last.stream, last.seq, found_seq, words))


async def _missing(connection: Connection, last: Acknowledged) -> int | None:
    """Where its stream ends, if the event is not there. None: it is there, or was forgotten on purpose."""
    row = await _one(connection, "stamp_at", (last.seq, last.stream))
    *stamp, last_seq, first_number = row or (None, None, None, 0, None)
    if stamp == [last.wall_us, last.boot_us, last.boot_id]:
        return None
    # Only whole streams are forgotten. One of the same name can be made later: a key may be used again.
    can_be_pruned = first_number is None or (last.number is not None and first_number > last.number)
    return None if can_be_pruned and await _is_pruned(connection, last) else int(last_seq)


async def _is_pruned(connection: Connection, last: Acknowledged) -> bool:
    """Of a missing event. A prune that came before it, or in a history that never had it, is no explanation."""
    if last.number is None or last.start is None:
        return await _one(connection, "pruned_since", (last.wall_us - _PRUNE_SPARE_US,)) == (True,)
    if await _one(connection, "was_reached", (last.start, last.number)) != (True,):
        return False
    return await _one(connection, "pruned_above", (last.number,)) == (True,)


def loss_of(row: Sequence[Any]) -> Loss:
    """Of the rows of `untold_losses` and `suspicion`."""
    loss_id, evidence, stream, seq, found_seq, detail, runs, noticed_at, *_ = row
    return Loss(
        id=loss_id,
        evidence=evidence,
        stream=stream,
        seq=seq,
        found_seq=found_seq,
        detail=detail,
        runs=runs,
        noticed_at=noticed_at,
    )


async def _one(connection: Connection, name: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    answer = await connection.execute(_Q[name], values, binary=True)
    return await answer.fetchone()
