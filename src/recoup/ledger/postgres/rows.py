"""Cached rows in as few statements as possible: each row once, and all rows of one kind together."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, LiteralString

import msgspec

from recoup.kernel.projection import RowChange, Shape
from recoup.ledger.postgres.text import escaped

ATTEMPTS_SEQ = Shape(name="attempts_seq", table="runs", key=("run_id",), columns=("attempts_seq",))
"""Up to which event of a run its attempts are written as rows."""

_encode = msgspec.json.Encoder().encode


class _Row(msgspec.Struct):
    values: dict[str, Any]
    made: bool
    """If it is absent. A shape that makes rows names all that it does not leave to the others."""


def row_writes(changes: Iterable[RowChange]) -> list[tuple[LiteralString, tuple[str]]]:
    """To the same end as one statement for each change, in their order."""
    rows: dict[tuple[str, tuple[Any, ...]], _Row] = {}
    for change in changes:
        shape, width = change.shape, len(change.shape.columns)
        place = (shape.table, change.values[width:])
        values = dict(zip(shape.columns, map(_plain, change.values), strict=False))
        values |= {name: _plain(value) for name, value in shape.fixed.items()}
        row = rows.setdefault(place, _Row(dict(zip(shape.key, map(_plain, place[1]), strict=True)), False))
        row.values |= values
        row.made = row.made or shape.inserts
    return _together(rows)


def _together(
    rows: dict[tuple[str, tuple[Any, ...]], _Row],
) -> list[tuple[LiteralString, tuple[str]]]:
    kinds: dict[tuple[str, bool, int, tuple[str, ...]], list[dict[str, Any]]] = {}
    for (table, key), row in rows.items():
        kinds.setdefault((table, row.made, len(key), tuple(row.values)), []).append(row.values)
    return [(_statement(*kind), (_encode(values).decode(),)) for kind, values in kinds.items()]


@cache
def _statement(table: str, made: bool, keys: int, columns: tuple[str, ...]) -> LiteralString:
    """The first columns are the key."""
    key, rest, names = columns[:keys], columns[keys:], ", ".join(columns)
    given = f"json_populate_recordset(NULL::{table}, %s::json) AS given"
    if made:
        settings = ", ".join(f"{name} = excluded.{name}" for name in rest)
        into = f"INSERT INTO {table} ({names}) SELECT {names} FROM {given}"
        return f"{into} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {settings}"
    settings = ", ".join(f"{name} = given.{name}" for name in rest)
    where = " AND ".join(f"{table}.{name} = given.{name}" for name in key)
    return f"UPDATE {table} SET {settings} FROM {given} WHERE {where}"


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return escaped(value)
    return int(value) if isinstance(value, bool) else value
