"""Removes what the guard of a browser leaves, its folder and the profile, also after driver and guard were killed."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Final

from recoup.files.named import open_named
from recoup.model.ids import ProcessIdentity
from recoup.processes.identity import boot_id, host_id, is_alive
from recoup.processes.marks import driver_of
from recoup.processes.sweep import is_marked

FOLDER_PREFIX: Final = "recoup-browser-"
MARK_FILE: Final = "mark"
DEADLINE_FILE: Final = "deadline"
PROFILE_FILE: Final = "profile"
"""Names the folder in which the automation library keeps the browser's profile."""
ENTRIES_MAX: Final = 100_000
EXAMINED_MAX: Final = 1_000
FOLDER_BYTES_MAX: Final = 30
"""Of the name of a folder for temporary files: below a longer one there is no room for the name of a socket."""
_USUAL_FOLDERS: Final = ("/tmp", "/var/tmp")
_FILE_BYTES_MAX: Final = 4_096
_PROFILE_PREFIX: Final = "playwright_"


def temporary_folders() -> list[Path]:
    """Where guards may have made folders: a browser keeps a socket there, whose path must fit into 107 bytes."""
    named = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    short = [folder for folder in named if folder and len(os.fsencode(folder)) <= FOLDER_BYTES_MAX]
    return [Path(folder) for folder in dict.fromkeys([*short, *_USUAL_FOLDERS])]


def abandoned_folders(folders: Sequence[Path] = ()) -> list[Path]:
    """Those of this user whose driver is proven dead and has left no process."""
    paths = islice(chain.from_iterable(map(_guard_folders, folders or temporary_folders())), EXAMINED_MAX)
    return [path for path in paths if _is_abandoned(path)]


async def clear_abandoned_folders() -> None:
    """Others are answered meanwhile."""
    if folders := abandoned_folders():
        await asyncio.to_thread(remove_folders, folders)


def remove_folders(paths: Sequence[Path]) -> None:
    """Each with the profile, whose name the guard wrote into a folder that only this user can change."""
    from shutil import rmtree  # takes longer to load than all the rest, for next to nobody

    for path in paths:
        profile = Path(_content(path / PROFILE_FILE))
        if profile.name.startswith(_PROFILE_PREFIX) and _is_own_folder(profile):
            rmtree(profile, ignore_errors=True)
        rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    marker = _content(path / MARK_FILE)
    driver = driver_of(marker)
    return driver is not None and _is_dead(driver, path) and not is_marked(marker)


def _guard_folders(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            named = [
                entry.path for entry in islice(entries, ENTRIES_MAX) if entry.name.startswith(FOLDER_PREFIX)
            ]
    except OSError:
        return
    yield from (Path(path) for path in named if _is_own_folder(Path(path)))


def _is_own_folder(path: Path) -> bool:
    """No link to one either."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _is_dead(driver: ProcessIdentity, path: Path) -> bool:
    """Of an earlier boot: only if nothing was written since this one began. Two machines that were made from one
    image may share the folder."""
    if driver.host == host_id() and driver.boot_id != boot_id():
        return _written_s(path) < time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return is_alive(driver) is False


def _written_s(path: Path) -> float:
    try:
        return max(path.lstat().st_mtime, (path / DEADLINE_FILE).lstat().st_mtime)
    except OSError:
        return float("inf")


def _content(path: Path) -> str:
    with suppress(OSError):
        descriptor = open_named(path, follow_links=False)
        try:
            return os.read(descriptor, _FILE_BYTES_MAX).decode("utf-8", "surrogateescape")
        finally:
            os.close(descriptor)
    return ""
