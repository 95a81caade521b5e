"""Forgetting what ended long ago: whole families of runs, with everything that belongs to them, in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence

from recoup.ledger import appending
from recoup.ledger.places import find_stream, first_place
from recoup.ledger.queries import queries
from recoup.ledger.stored_folds import family
from recoup.ledger.transaction import Transaction
from recoup.model.ids import LEDGER_STREAM, escalation_stream, run_stream
from recoup.model.instant import Instant
from recoup.model.storage import Append, Draft, EndedRun, StreamAppend

_Q = queries()
_OF_A_RUN = (
    *("forget_run", "forget_attempts", "forget_checkpoints", "forget_heals"),
    *("forget_lease", "forget_controls"),
)


def ended_families(
    families: Mapping[str, Collection[str]], known: Collection[str], ended: Collection[str]
) -> list[str]:
    """The families, by their first run, of which every run that is known has ended, and one is."""
    return [
        root
        for root, members in families.items()
        if any(member in known for member in members)
        and all(member in ended for member in members if member in known)
    ]


def ended_runs(connection: sqlite3.Connection, before_us: int, after: str, limit: int) -> list[EndedRun]:
    found: list[EndedRun] = []
    while len(found) < limit:
        page = connection.execute(_Q["ended"], (after, before_us, limit)).fetchall()
        families = _families(connection, [run_id for run_id, _ in page])
        gone = {one for root in _free(connection, families, before_us) for one in families[root]}
        found += [EndedRun(*row) for row in page if row[0] in gone]
        if len(page) < limit:
            break
        after = page[-1][0]
    return found[:limit]


def forget(
    transaction: Transaction, run_ids: Sequence[str], before_us: int, at: Instant, note: Draft
) -> list[str]:
    connection = transaction.connection
    families = _families(connection, run_ids)
    doomed = _free(connection, families, before_us)
    if doomed:
        # First: numbers of events go on from the highest one that there is.
        appending.perform(transaction, Append(at=at, streams=(StreamAppend(LEDGER_STREAM, (note,)),)))
    for root in doomed:
        for run_id in families[root]:
            _forget_run(transaction, run_id)
        transaction.execute(_Q["forget_family"], (root,))
        transaction.execute(_Q["forget_claims"], (root,))
    transaction.forget()
    return [run_id for run_id in run_ids if not _is_known(connection, run_id)]


def _families(connection: sqlite3.Connection, run_ids: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for run_id in run_ids:
        members = family(connection, run_id)
        found[members[0]] = members
    return found


def _free(
    connection: sqlite3.Connection, families: Mapping[str, Collection[str]], before_us: int
) -> list[str]:
    runs = {run_id for members in families.values() for run_id in members}
    known = {run_id for run_id in runs if _is_known(connection, run_id)}
    ended = {
        run_id for run_id in known if connection.execute(_Q["has_ended"], (run_id, before_us)).fetchone()
    }
    return ended_families(families, known, ended)


def _is_known(connection: sqlite3.Connection, run_id: str) -> bool:
    row: object = connection.execute(_Q["run_is_known"], (run_id,)).fetchone()
    return row == (1,)


def _forget_run(transaction: Transaction, run_id: str) -> None:
    stream = run_stream(run_id)
    stream_id = find_stream(transaction.connection, stream)
    if stream_id is not None:
        key = (first_place(stream_id) + 1, run_id)
        for (key_id,) in transaction.execute(_Q["key_of"], key).fetchall():
            _forget_stream(transaction, key_id)
        _forget_stream(transaction, stream_id)
    for query in _OF_A_RUN:
        transaction.execute(_Q[query], (run_id,))
    for (escalation_id,) in transaction.execute(_Q["escalations_of"], (stream,)).fetchall():
        said_id = find_stream(transaction.connection, escalation_stream(escalation_id))
        if said_id is not None:
            _forget_stream(transaction, said_id)
    transaction.execute(_Q["forget_escalations"], (stream,))


def _forget_stream(transaction: Transaction, stream_id: int) -> None:
    transaction.execute(_Q["forget_events"], (first_place(stream_id), first_place(stream_id + 1)))
    transaction.execute(_Q["forget_stream"], (stream_id,))
