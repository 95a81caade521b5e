"""A patch as a reader wants it: which files, how much, and its first lines."""

from __future__ import annotations

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
