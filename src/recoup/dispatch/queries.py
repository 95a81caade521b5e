"""The named queries of a .sql file of this room."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_NAME = re.compile(r"^-- (\w+): .+$", re.MULTILINE)


@cache
def queries(file: str) -> dict[str, str]:
    """All of them by name."""
    parts = _NAME.split(sql_file(file))
    return {name: sql.strip() for name, sql in zip(parts[1::2], parts[2::2], strict=True)}


def sql_file(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")
