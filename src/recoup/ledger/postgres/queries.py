"""The named queries of queries.sql."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import LiteralString

from recoup.ledger.queries import named_queries


@cache
def queries() -> dict[str, LiteralString]:
    """All of them by name. They come with the program, hence are as literal as if they stood in its text."""
    return named_queries(sql_file("queries.sql"))


def sql_file(name: str) -> str:
    return files(__package__).joinpath(name).read_text()
