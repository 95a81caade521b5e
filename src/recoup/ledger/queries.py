"""The named queries of queries.sql, and the statements that write cached rows."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from recoup.kernel.projection import SHAPES, Shape, Value

_NAME = re.compile(r"^-- (\w+): .+$", re.MULTILINE)


@cache
def queries() -> dict[str, str]:
    """All of them by name."""
    return named_queries(sql_file("queries.sql"))


@cache
def row_writes() -> dict[str, str]:
    """By the name of the shape; the parameters are the values of a RowChange."""
    return {shape.name: _upsert(shape) if shape.inserts else _update(shape) for shape in SHAPES}


def sql_file(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def named_queries(text: str) -> dict[str, str]:
    parts = _NAME.split(text)
    return {name: sql.strip() for name, sql in zip(parts[1::2], parts[2::2], strict=True)}


def _upsert(shape: Shape) -> str:
    names = (*shape.columns, *shape.key, *shape.fixed)
    values = [*("?" for _ in (*shape.columns, *shape.key)), *map(_literal, shape.fixed.values())]
    settings = ", ".join(f"{name} = excluded.{name}" for name in (*shape.columns, *shape.fixed))
    into = f"INSERT INTO {shape.table} ({', '.join(names)}) VALUES ({', '.join(values)})"
    return f"{into} ON CONFLICT ({', '.join(shape.key)}) DO UPDATE SET {settings}"


def _update(shape: Shape) -> str:
    fixed = [f"{name} = {_literal(value)}" for name, value in shape.fixed.items()]
    settings = ", ".join([*fixed, *(f"{name} = ?" for name in shape.columns)])
    where = " AND ".join(f"{name} = ?" for name in shape.key)
    return f"UPDATE {shape.table} SET {settings} WHERE {where}"


def _literal(value: Value) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(int(value))
