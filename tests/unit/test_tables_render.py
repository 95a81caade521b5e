"""Every table in the documents is one where they are read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

PROJECT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("src/recoup/**/*.md"))
    if "|" in path.read_text()
)
PARSER = MarkdownIt("commonmark").enable("table")
BETWEEN_CELLS = re.compile(r"(?<!\\)\|")


def cells(row: str) -> int:
    return len(BETWEEN_CELLS.split(row.strip().strip("|")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_row_is_part_of_a_table_and_has_its_cells(page: Path) -> None:
    lines, tokens = page.read_text().split("\n"), PARSER.parse(page.read_text())
    tables = [token.map for token in tokens if token.type == "table_open" and token.map]
    other = [token.map for token in tokens if token.type in ("fence", "code_block") and token.map]
    inside = {line for begin, end in (*tables, *other) for line in range(begin, end)}
    stray = [
        number + 1
        for number, line in enumerate(lines)
        if line.lstrip().startswith("|") and number not in inside
    ]
    assert not stray, f"{page}: these lines look like a table and render as text: {stray}"
    for begin, end in tables:
        torn = [
            n + 1 for n in range(begin, end) if lines[n].strip() and cells(lines[n]) != cells(lines[begin])
        ]
        assert not torn, f"{page}: these rows have other cells than their heading: {torn}"
