"""The named queries of queries.sql."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import LiteralString

from recoup.ledger.queries import named_queries


@cache
def queries() -> dict[str, LiteralString]:
    """All of them by name. They come with the program, hence are as literal as if they stood in its text."""
    return named_queries(sql_file("queries.sql"))


def sql_file(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")
