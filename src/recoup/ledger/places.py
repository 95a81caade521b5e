"""Where events stand in SQLite: the stream's number times 2^32 plus the sequence."""

from __future__ import annotations

import sqlite3

from recoup.ledger.queries import queries
from recoup.ledger.transacting import SEQ_BITS

_Q = queries()


def first_place(stream_id: int) -> int:
    """The place before the first event of a stream; `first_place(id + 1)` lies behind its last."""
    return stream_id << SEQ_BITS


def find_stream(connection: sqlite3.Connection, stream: str) -> int | None:
    row = connection.execute(_Q["stream_id"], (stream,)).fetchone()
    return None if row is None else int(row[0])


def find_last_place(connection: sqlite3.Connection, stream_id: int) -> int:
    row = connection.execute(_Q["last_place"], (first_place(stream_id + 1),)).fetchone()
    return max(first_place(stream_id), row[0]) if row else first_place(stream_id)
