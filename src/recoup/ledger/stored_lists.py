"""Lists, counts and histories of runs in SQLite."""

from __future__ import annotations

import sqlite3
from typing import Final

from recoup.kernel.history import Counted, history
from recoup.ledger.queries import queries
from recoup.ledger.run_lists import Dialect, Listing, page_of
from recoup.model.storage import (
    ENDS_COUNTED_MAX,
    MOMENTS_COUNTED_MAX,
    History,
    Place,
    RunCount,
    RunFilter,
    RunPage,
    Span,
)

_Q = queries()
DIALECT: Final = Dialect(
    value=":{}",
    equal="{column} = {value}",
    index=" INDEXED BY {}",
    holds="instr(lower({column}), {value}) > 0",
    merges=True,
    looked_up="CROSS JOIN runs AS looked ON looked.run_id = named.run_id",
    whole=_Q["rows_of_runs"].removesuffix(";"),
    newest=b"\xff" * 16,  # a damaged time may be a text, and SQLite sorts bytes behind texts and numbers
)


def run_page(connection: sqlite3.Connection, wanted: RunFilter, limit: int, before: Place | None) -> RunPage:
    listing = Listing(DIALECT, wanted)
    rows = connection.execute(*listing.page(limit, before)).fetchall()
    return page_of(rows, limit, _edge(connection, listing, before) if len(rows) <= limit else None)


def run_count(connection: sqlite3.Connection, wanted: RunFilter, cap: int) -> RunCount:
    listing = Listing(DIALECT, wanted)
    (count,) = connection.execute(*listing.count(cap)).fetchone()
    return RunCount(min(count, cap), count > cap or _edge(connection, listing, None) is not None)


def tallies(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute(_Q["tallies"]).fetchall())


def run_history(connection: sqlite3.Connection, span: Span, workflow: str | None) -> History:
    whole_since_us = max(
        _counted_since(connection, "ends_counted", span, ENDS_COUNTED_MAX),
        _counted_since(connection, "recoveries_counted", span, MOMENTS_COUNTED_MAX),
        _counted_since(connection, "heals_counted", span, MOMENTS_COUNTED_MAX),
    )
    values = {
        "since": span.since_us,
        "bucket": span.bucket_us,
        "from": whole_since_us,
        "until": span.until_us,
        "workflow": workflow,
    }
    counted = Counted(
        ended=connection.execute(_Q["ends"], values).fetchall(),
        healed=connection.execute(_Q["heals"], values).fetchall(),
        recovered=connection.execute(_Q["recoveries"], values).fetchall(),
        whole_since_us=whole_since_us,
    )
    return history(span, counted)


def _edge(connection: sqlite3.Connection, listing: Listing, before: Place | None) -> Place | None:
    return connection.execute(*listing.edge(before)).fetchone() if listing.searches else None


def _counted_since(connection: sqlite3.Connection, query: str, span: Span, most: int) -> int:
    """Since when no more than that are there; what is older is left out."""
    row = connection.execute(_Q[query], (span.since_us, span.until_us, most)).fetchone()
    return span.since_us if row is None or row[0] is None else int(row[0]) + 1
