"""Forgetting what ended long ago, on a connection of its own: nobody's commit waits for it.

The locks come in the order that all writers keep; they are of runs that have ended, so that hardly anybody wants them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from recoup.ledger.appending import stored
from recoup.ledger.forgetting import ended_families
from recoup.ledger.postgres.connecting import Connection
from recoup.ledger.postgres.queries import queries
from recoup.model.ids import LEDGER_STREAM, run_stream
from recoup.model.instant import Instant
from recoup.model.storage import Draft, EndedRun

_Q = queries()


async def ended_runs(connection: Connection, before_us: int, after: str, limit: int) -> list[EndedRun]:
    found: list[EndedRun] = []
    while len(found) < limit:
        values = {"after": after, "before": before_us, "limit": limit}
        page = await _rows(connection, "ended", values)
        families = await _families(connection, [run_id for run_id, _ in page])
        gone = {one for root in await _free(connection, families, before_us) for one in families[root]}
        found += [EndedRun(*row) for row in page if row[0] in gone]
        if len(page) < limit:
            break
        after = page[-1][0]
    return found[:limit]


async def forget(
    connection: Connection, run_ids: Sequence[str], before_us: int, at: Instant, note: Draft
) -> list[str]:
    await connection.execute(_Q["note_start"])
    # Looked up before they are locked: a run never changes its family nor its key, and newcomers wait for the locks.
    streams = _streams(await _families(connection, run_ids))
    keys = [name for name, _ in await _rows(connection, "keys_of", (streams,))]
    streams += keys + [name for (name,) in await _rows(connection, "escalation_streams", (streams,))]
    async with connection.transaction():
        await connection.execute(_Q["patience_to_forget"])
        await connection.execute(_Q["lock_to_forget"], (streams, LEDGER_STREAM))
        families = await _families(connection, run_ids)
        doomed = [
            root
            for root in await _free(connection, families, before_us)
            if set(_streams({root: families[root]})) <= set(streams)
        ]
        if doomed:
            gone = {root: families[root] for root in doomed}
            keys = [name for name, _ in await _rows(connection, "keys_of", (_streams(gone),))]
            keys += [name for (name,) in await _rows(connection, "escalation_streams", (_streams(gone),))]
            runs = [run_id for members in gone.values() for run_id in members]
            # A prune is numbered above all that it removes: what came while it waited for locks is left for later.
            if not await _rows(connection, "written_above", (_streams(gone) + keys,)):
                await connection.execute(_Q["forget"], (runs, doomed, keys))
                await connection.execute(_Q["forget_heals"], (runs,))
                await _add_note(connection, at, note)
    known = {run_id for (run_id,) in await _rows(connection, "known_among", (list(run_ids),))}
    return [run_id for run_id in run_ids if run_id not in known]


async def _families(connection: Connection, run_ids: Sequence[str]) -> dict[str, list[str]]:
    roots = dict(await _rows(connection, "roots_of", (list(run_ids),)))
    found = {roots.get(run_id, run_id): [roots.get(run_id, run_id)] for run_id in run_ids}
    for root, member in await _rows(connection, "members_of", (list(found),)):
        found[root].append(member)
    return found


async def _free(connection: Connection, families: dict[str, list[str]], before_us: int) -> list[str]:
    runs = [run_id for members in families.values() for run_id in members]
    known = {run_id for (run_id,) in await _rows(connection, "known_among", (runs,))}
    ended = {run_id for (run_id,) in await _rows(connection, "ended_among", (runs, before_us))}
    return ended_families(families, known, ended)


def _streams(families: dict[str, list[str]]) -> list[str]:
    return [run_stream(run_id) for members in families.values() for run_id in members]


async def _add_note(connection: Connection, at: Instant, note: Draft) -> None:
    ((end,),) = await _rows(connection, "head", (LEDGER_STREAM,))
    what = {"q": end + 1, "k": note.type, "p": stored(note.payload).decode()}
    added = [{"n": 1, "w": at.wall_us, "b": at.boot_us, "i": at.boot_id, **what}]
    batch = {"names": [LEDGER_STREAM], "ends": [end + 1], "events": added}
    await connection.execute(_Q["put_events"], (msgspec.json.encode(batch).decode(),))


async def _rows(
    connection: Connection, name: str, values: Collection[Any] | dict[str, Any]
) -> list[tuple[Any, ...]]:
    answer = await connection.execute(_Q[name], values, binary=True, prepare=False)  # type: ignore[arg-type]
    return await answer.fetchall()
