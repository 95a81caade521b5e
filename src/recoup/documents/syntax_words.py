"""What a YAML parser stumbled over, in words for the person who wrote the file."""

from __future__ import annotations

from typing import Any

import yaml

from recoup.shapes.tree import Unreadable, clipped

_PLAIN_WORDS: tuple[tuple[str, str], ...] = (
    ("tab character", "this line is indented with a tab: YAML wants spaces"),
    (
        "mapping values are not allowed",
        "a `: ` stands where no key can begin: check the indentation, or use quotes",
    ),
    ("cannot start any token", "text cannot begin with this character: put it in quotes"),
    ("expected key", "the indentation does not fit the lines above, or a bracket is not opened or closed"),
    (
        "expected <block end>",
        "the indentation does not fit the lines above, or a bracket is not opened or closed",
    ),
    (
        "could not find expected ':'",
        "this line has no `: ` after its key, or is not indented under the one above",
    ),
    (
        "expected '-' indicator",
        "this line does not begin with `- ` like the list above it, or is not indented under it",
    ),
    (
        "expected ',' or",
        "a comma or a closing bracket is missing, or text with special characters has no quotes",
    ),
    ("unknown escape character", "this backslash means nothing inside double quotes: use single quotes"),
    ("<document start>", "this line is indented less than the first one, or follows a closed bracket"),
    ("node content", "a value or a closing bracket is missing"),
)


def syntax_problem(error: yaml.YAMLError, text: str) -> Unreadable:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return Unreadable(f"this is not YAML: {clipped(' '.join(str(error).split()), 200)}")
    return _located(error, int(mark.line), text)


def _located(error: Any, line: int, text: str) -> Unreadable:
    rows = text.splitlines()
    row = rows[line] if line < len(rows) else ""
    problem, context = str(error.problem), str(error.context)
    if "\t" in row[: len(row) - len(row.lstrip())]:
        return Unreadable("this line is indented with a tab: YAML wants spaces", line + 1)
    if "${{" in row and "flow" in context:
        return Unreadable("text with ${{ … }} inside [ ] or { } must stand in quotes", line + 1)
    if "end of stream" in problem and error.context_mark is not None:
        return Unreadable("the quote that is opened on this line is never closed", _context_line(error, line))
    if "flow" in context and not any(map(str.strip, rows[line:])):
        return Unreadable("the file ends before every bracket that was opened is closed", _last_line(rows))
    if "expected ':'" in problem:
        return Unreadable(_in_plain_words(problem), _context_line(error, line))
    return Unreadable(_in_plain_words(problem) + _opened_before(error, line), line + 1)


def _last_line(rows: list[str]) -> int:
    return max((n for n, row in enumerate(rows, 1) if row.strip()), default=1)


def _context_line(error: Any, line: int) -> int:
    return 1 + (int(error.context_mark.line) if error.context_mark is not None else line)


def _opened_before(error: Any, line: int) -> str:
    opened = _context_line(error, line)
    return f" (opened on line {opened})" if "flow" in str(error.context) and opened != line + 1 else ""


def _in_plain_words(problem: str) -> str:
    for needle, words in _PLAIN_WORDS:
        if needle in problem:
            return words
    return f"this is not YAML: {problem}"
