"""What is there, by its name. Nothing is opened."""

from __future__ import annotations

import os
from pathlib import Path


def size_bytes(path: Path) -> int:
    """0 for a file that is missing."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def has_entries(folder: Path) -> bool:
    """False for a folder that is missing."""
    try:
        with os.scandir(folder) as entries:
            return next(iter(entries), None) is not None
    except OSError:
        return False
