"""Folders below the state folder. Only opening a home creates the home itself.

A home that was moved away or unmounted during a run must be able to come back. Code that creates missing parent folders
would put an empty home in its place. So each process registers the home that it uses, and never creates it again.
"""

from __future__ import annotations

import errno
from pathlib import Path

OWNER_ONLY_FOLDER = 0o700

_homes: dict[Path, bool] = {}
"""The homes of this process, by each of their names, and whether a disk was mounted there."""


class HomeGone(OSError):
    """The state folder was moved away, removed or unmounted since this process opened it."""

    def __init__(self, home: Path) -> None:
        super().__init__(errno.ENODEV, "the folder is gone", str(home))


def hold_home(home: Path) -> None:
    """The home is there, and this process uses it."""
    _homes[home] = _homes[home.resolve()] = home.is_mount()


def is_gone(home: Path) -> bool:
    """Whether the home is missing, or the disk that was mounted there is."""
    return not home.is_dir() or (_homes.get(home, False) and not home.is_mount())


def make_folder(path: Path, mode: int = OWNER_ONLY_FOLDER) -> None:
    """With those above it, as far as they are missing, up to the home. Raises OSError, HomeGone."""
    for home in (path, path.parent):
        if home in _homes and is_gone(home):
            raise HomeGone(home)
    if path in _homes:
        return
    try:
        path.mkdir(mode)
    except FileExistsError:
        if not path.is_dir():
            raise
    except FileNotFoundError:
        make_folder(path.parent, mode)
        path.mkdir(mode, exist_ok=True)
