"""Where plans may come from, for those who ask from afar: a file counts for where it really is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def allowed_plan(path: Path, folders: Sequence[Path]) -> Path | None:
    """Where it really is, links followed: a link in a folder leads nowhere else. None: in none of the folders. Without
    folders everything is allowed."""
    real = path.resolve()
    inside = not folders or any(real.is_relative_to(folder.resolve()) for folder in folders)
    return real if inside else None
