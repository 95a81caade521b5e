"""Several statements in one trip, prepared once, without what psycopg does for questions of any kind (a cursor, a look
for types, a turn of the event loop for each): that takes most of the client's time."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

from psycopg import generators
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from recoup.ledger.postgres.connecting import Connection, CuttingOff
from recoup.ledger.postgres.text import escaped

Statement = tuple[str, tuple[Any, ...]]
"""With a %s for each value: None, text, a number, or bytes for a bytea."""


class Line:
    """To one session of the server. Nobody but this may roll back there: psycopg would drop what is prepared."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.cutting_off = CuttingOff(connection)
        self._names: dict[str, bytes] = {}
        self._numbers = itertools.count()

    async def ask_all(self, statements: Sequence[Statement]) -> list[PGresult]:
        """All of them or none, unless a transaction is under way. Raises psycopg.Error."""
        connection = self.connection
        async with connection.lock:
            return await connection.wait(self._answers(connection.pgconn, statements))

    async def rollback(self) -> None:
        connection = self.connection
        async with connection.lock:
            await connection.wait(_said(connection.pgconn, b"ROLLBACK"))

    def _answers(self, pgconn: PGconn, statements: Sequence[Statement]) -> PQGen[list[PGresult]]:
        unprepared = dict.fromkeys(sql for sql, _ in statements if sql not in self._names)
        if len(statements) == 1 and not unprepared:
            self._send(pgconn, self._names, *statements[0])
            results = yield from generators.execute(pgconn)
            return _good(results)
        new = {sql: b"recoup_%d" % next(self._numbers) for sql in unprepared}
        results = yield from self._in_one_trip(pgconn, statements, new)
        for (sql, name), result in zip(new.items(), results, strict=False):
            if result.status == ExecStatus.COMMAND_OK:  # and so it stays, whatever becomes of the statements
                self._names[sql] = name
        return _good(results)[len(new) :]

    def _in_one_trip(
        self, pgconn: PGconn, statements: Sequence[Statement], new: dict[str, bytes]
    ) -> PQGen[list[PGresult]]:
        pgconn.enter_pipeline_mode()
        try:
            for sql, name in new.items():
                pgconn.send_prepare(name, _numbered(sql))
            for sql, values in statements:
                self._send(pgconn, self._names | new, sql, values)
            pgconn.pipeline_sync()
            yield from generators.send(pgconn)
            results: list[PGresult] = []
            for _ in range(len(new) + len(statements)):
                results += yield from generators.fetch_many(pgconn)
            yield from generators.fetch_many(pgconn)  # the sync
        finally:
            if pgconn.status == ConnStatus.OK:
                pgconn.exit_pipeline_mode()
        return results

    def _send(self, pgconn: PGconn, names: dict[str, bytes], sql: str, values: tuple[Any, ...]) -> None:
        pgconn.send_query_prepared(names[sql], [_sent(value) for value in values])


def _said(pgconn: PGconn, words: bytes) -> PQGen[list[PGresult]]:
    pgconn.send_query(words)
    results = yield from generators.execute(pgconn)
    return _good(results)


def _good(results: list[PGresult]) -> list[PGresult]:
    """The first that is not good says what is wrong: those after it were not even tried."""
    for result in results:
        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            raise error_from_result(result, encoding="utf-8")
    return results


def _sent(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return escaped(value).encode()
    if isinstance(value, bytes):
        return b"\\x" + value.hex().encode()
    return repr(value).encode()


@functools.cache
def _numbered(sql: str) -> bytes:
    first, *others = sql.split("%s")
    return "".join([first, *(f"${number}{after}" for number, after in enumerate(others, 1))]).encode()
