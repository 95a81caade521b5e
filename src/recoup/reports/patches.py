"""A patch as a reader wants it: which files, how much, and its first lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recoup.reports.plain import Plain
from recoup.reports.view import DiffView

_LINES_MAX = 2_000
_FILES_MAX = 50


def diff_view(owner: str, patch: str, plain: Plain, cut: bool = False) -> DiffView | None:
    """None: it changed nothing. `cut`: the text is only the beginning of the patch."""
    if not patch.strip():
        return None
    lines = plain.start(patch, _LINES_MAX)
    total = patch.count("\n") + (not patch.endswith("\n"))
    names = [
        line.removeprefix("diff --git ").rpartition(" b/")[2]
        for line in lines
        if line.startswith("diff --git ")
    ]
    added, removed = _counts(patch)
    return DiffView(
        owner=plain.line(owner, 120),
        files=tuple(plain.line(name, 200) for name in names[:_FILES_MAX]),
        files_count=patch.count("\ndiff --git ") + patch.startswith("diff --git "),
        added=added,
        removed=removed,
        lines=lines,
        lines_left_out=max(int(cut), total - len(lines)),
    )


def kinds_of(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each line with its kind. Of what git says about a file, its name and what happened to it are enough."""
    in_hunk = False
    for line in lines:
        if line.startswith("diff --git "):
            in_hunk = False
            yield "file", line.rpartition(" b/")[2] or line
        elif line.startswith("@@"):
            in_hunk = True
            yield "hunk", line
        elif in_hunk:
            yield {"+": "add", "-": "del"}.get(line[:1], "same"), line
        elif not line.startswith(("index ", "--- ", "+++ ")):
            yield "file", line.partition(" mode ")[0]


def _counts(patch: str) -> tuple[int, int]:
    added = removed = 0
    in_hunk = False
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            in_hunk = False
        elif line.startswith("@@"):
            in_hunk = True
        elif in_hunk:
            added += line.startswith("+")
            removed += line.startswith("-")
    return added, removed
