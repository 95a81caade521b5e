"""Work for a transaction in SQLite: an append, and making the cached rows anew."""

from __future__ import annotations

import msgspec

from recoup.kernel.projection import ATTEMPTED, PROJECTED, changes
from recoup.ledger import appending
from recoup.ledger.claims import HEEDED, keep_claim
from recoup.ledger.folds import write_attempts
from recoup.ledger.inbox import rebuild_inbox
from recoup.ledger.places import find_stream, first_place
from recoup.ledger.queries import queries
from recoup.ledger.stored_folds import stream_facts
from recoup.ledger.transaction import Transaction
from recoup.model.ids import run_stream
from recoup.model.instant import Instant
from recoup.model.storage import Append, Appended, Draft, Position

_RUN = run_stream("")
_Q = queries()


class AppendJob(msgspec.Struct, frozen=True):
    append: Append

    def perform(self, transaction: Transaction) -> Appended:
        return appending.perform(transaction, self.append)

    def is_written(self, transaction: Transaction, appended: Appended) -> bool:
        """The events stand where they were put."""
        placed = appending.placed_drafts(self.append, appended)
        return bool(placed) and all(_stands(transaction, self.append.at, *pair) for pair in placed)


def rebuild_cached_rows(transaction: Transaction) -> None:
    """From the events alone. Workflow states need no more than to be forgotten: reading them folds anew."""
    for table in ("runs", "attempts", "checkpoints", "heals", "workflow_state", "families", "claims"):
        transaction.execute(f"DELETE FROM {table}")
    transaction.forget()
    for stream_id, stream in transaction.execute(_Q["run_streams"]).fetchall():
        end = first_place(stream_id)
        facts = stream_facts(transaction.connection, stream, stream_id, 0, PROJECTED | HEEDED)
        for end, at, kind, payload in facts:  # noqa: B007
            if kind not in ATTEMPTED:
                for change in changes(stream, at, payload):
                    transaction.write_row(change)
            if kind in HEEDED:
                keep_claim(transaction, stream.removeprefix(_RUN), payload)
        write_attempts(transaction, stream, end)
    rebuild_inbox(transaction)


def _stands(transaction: Transaction, at: Instant, position: Position, draft: Draft) -> bool:
    stream_id = find_stream(transaction.connection, position.stream)
    if stream_id is None:
        return False
    row: object = transaction.execute(_Q["event_at"], (first_place(stream_id) + position.seq,)).fetchone()
    return row == (at.wall_us, at.boot_us, at.boot_id, draft.type, draft.payload.data.decode())
