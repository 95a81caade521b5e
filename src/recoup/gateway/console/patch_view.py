"""What a step changed, file by file. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import msgspec

from recoup.reports.patches import diff_view, kinds_of
from recoup.reports.plain import Plain

FILES_MAX: Final = 100
OPEN_LINES_MAX: Final = 200
"""With more, files are closed until somebody opens them."""


class Piece(msgspec.Struct, frozen=True):
    """Lines of one kind that follow each other."""

    kind: str
    text: str


class FileDiff(msgspec.Struct, frozen=True):
    name: str
    added: int
    removed: int
    pieces: tuple[Piece, ...]


class StepDiff(msgspec.Struct, frozen=True, kw_only=True):
    step_id: str
    index: int
    files: tuple[FileDiff, ...]
    files_count: int
    added: int
    removed: int
    left_out: int
    is_open: bool


def step_diff(step_id: str, index: int, patch: str, cut: bool, plain: Plain) -> StepDiff | None:
    """None: it changed nothing."""
    whole = diff_view(step_id, patch, plain, cut)
    if whole is None:
        return None
    files = _files(whole.lines)
    return StepDiff(
        step_id=step_id,
        index=index,
        files=tuple(files[:FILES_MAX]),
        files_count=max(whole.files_count, len(files)),
        added=whole.added,
        removed=whole.removed,
        left_out=whole.lines_left_out,
        is_open=len(whole.lines) <= OPEN_LINES_MAX,
    )


def _files(lines: Sequence[str]) -> list[FileDiff]:
    cut = [at for at, line in enumerate(lines) if line.startswith("diff --git ")]
    begins = cut if cut and cut[0] == 0 else [0, *cut]
    return [_file(lines[begin:end]) for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True)]


def _file(lines: Sequence[str]) -> FileDiff:
    told = list(kinds_of(lines))
    name = told[0][1] if told and told[0][0] == "file" else "changes"
    body = told[1:] if name != "changes" else told
    pieces = tuple(
        Piece(kind, "\n".join(text for _, text in group)) for kind, group in groupby(body, lambda one: one[0])
    )
    kinds = [kind for kind, _ in body]
    return FileDiff(name, kinds.count("add"), kinds.count("del"), pieces)
