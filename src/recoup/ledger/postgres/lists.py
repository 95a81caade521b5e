"""Lists, counts and histories of runs in PostgreSQL."""

from __future__ import annotations

from typing import Any, Final, LiteralString

from recoup.kernel.history import Counted, history
from recoup.ledger.postgres.connecting import Connection
from recoup.ledger.postgres.queries import queries
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
    value="%({})s",
    equal="{column} >= {value} AND {column} <= {value}",
    index="",
    holds='strpos(lower({column} COLLATE "C"), {value}) > 0',
    merges=False,
    looked_up="CROSS JOIN LATERAL (SELECT * FROM runs WHERE runs.run_id = named.run_id OFFSET 0) AS looked",
    whole=_Q["rows_of_runs"].removesuffix(";"),
)
_Question = tuple[LiteralString, dict[str, Any]]


async def run_page(connection: Connection, wanted: RunFilter, limit: int, before: Place | None) -> RunPage:
    listing = Listing(DIALECT, wanted)
    rows = await _asked(connection, listing.page(limit, before))
    return page_of(rows, limit, await _edge(connection, listing, before) if len(rows) <= limit else None)


async def run_count(connection: Connection, wanted: RunFilter, cap: int) -> RunCount:
    listing = Listing(DIALECT, wanted)
    ((count,),) = await _asked(connection, listing.count(cap))
    return RunCount(min(count, cap), count > cap or await _edge(connection, listing, None) is not None)


async def run_history(connection: Connection, span: Span, workflow: str | None) -> History:
    whole_since_us = max(
        await _counted_since(connection, "ends_counted", span, ENDS_COUNTED_MAX),
        await _counted_since(connection, "recoveries_counted", span, MOMENTS_COUNTED_MAX),
        await _counted_since(connection, "heals_counted", span, MOMENTS_COUNTED_MAX),
    )
    values = {
        "since": span.since_us,
        "bucket": span.bucket_us,
        "from": whole_since_us,
        "until": span.until_us,
        "workflow": workflow,
    }
    counted = Counted(
        ended=await _asked(connection, (_Q["ends"], values)),
        healed=await _asked(connection, (_Q["heals"], values)),
        recovered=await _asked(connection, (_Q["recoveries"], values)),
        whole_since_us=whole_since_us,
    )
    return history(span, counted)


async def _edge(connection: Connection, listing: Listing, before: Place | None) -> Place | None:
    if not listing.searches:
        return None
    return next(iter(await _asked(connection, listing.edge(before))), None)


async def _counted_since(connection: Connection, query: str, span: Span, most: int) -> int:
    """Since when no more than that are there; what is older is left out."""
    values = {"since": span.since_us, "until": span.until_us, "most": most}
    rows = await _asked(connection, (_Q[query], values))
    return int(rows[0][0]) + 1 if rows else span.since_us


async def _asked(connection: Connection, question: _Question) -> list[Any]:
    """Its text is made of our own words alone; what people say is in its values."""
    sql, values = question
    answer = await connection.execute(sql, values, binary=True)
    return await answer.fetchall()
