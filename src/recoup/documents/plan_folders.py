"""Where plans may come from, for those who ask from afar: a file counts for where it really is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recoup.errors import InvalidPlan, Problem

_SHOWN_CHARS_MAX = 200


def allowed_plan(path: Path, folders: Sequence[Path]) -> Path | None:
    """Where it really is, links followed: a link in a folder leads nowhere else. None: in none of the folders. Without
    folders everything is allowed. Raises InvalidPlan where no file can have this name."""
    try:
        real = path.resolve()
        real.exists()
    except (OSError, ValueError, RuntimeError):
        shown = str(path)[:_SHOWN_CHARS_MAX].replace("\0", "\ufffd")
        raise InvalidPlan(shown, [Problem("planPath", "no file can have this name")]) from None
    inside = not folders or any(real.is_relative_to(folder.resolve()) for folder in folders)
    return real if inside else None
