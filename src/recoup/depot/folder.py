"""A depot in a folder that several machines share."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from recoup.depot.names import NAMES_MAX, checked_name, checked_prefix, checked_size, folder_of
from recoup.depot.threads import Threads
from recoup.durable import sync_directory, write_whole
from recoup.errors import DepotError, NotFound
from recoup.files.named import read_named

T = TypeVar("T")

_TRIES_MAX = 3


class FolderDepot:
    """One file for each object. Files are written whole: nobody ever sees half of one."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._threads = Threads()

    async def put(self, name: str, data: bytes) -> None:
        path = self._path(name)
        checked_size(name, data)
        await self._threads.call(lambda: self._explained(lambda: self._put(path, data)))

    async def get(self, name: str) -> bytes:
        path = self._path(name)
        found = await self._threads.call(lambda: self._explained(lambda: _read(path)))
        if found is None:
            raise NotFound(f"{name} is not in the depot", hint="It was removed, or never stored.")
        return found

    async def names(self, prefix: str) -> list[str]:
        checked_prefix(prefix)
        return await self._threads.call(lambda: self._explained(lambda: self._names(prefix)))

    async def remove(self, name: str) -> None:
        path = self._path(name)
        await self._threads.call(lambda: self._explained(lambda: self._remove(path)))

    async def close(self) -> None:
        """Nothing is held."""

    def _path(self, name: str) -> Path:
        return self._root / checked_name(name)

    def _put(self, path: Path, data: bytes) -> None:
        for _ in range(_TRIES_MAX - 1):
            # Somebody who removes the last file of a folder removes the folder too.
            with contextlib.suppress(FileNotFoundError):
                return self._write(path, data)
        return self._write(path, data)

    def _write(self, path: Path, data: bytes) -> None:
        _make_folder(path.parent)
        write_whole(path, data)

    def _names(self, prefix: str) -> list[str]:
        found = []
        for folder, _, files in os.walk(self._root / folder_of(prefix)):
            inside = Path(folder).relative_to(self._root)
            found += [(inside / file).as_posix() for file in files if not file.startswith(".")]
        return sorted(name for name in found if name.startswith(prefix))[:NAMES_MAX]

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        for folder in path.relative_to(self._root).parents:
            try:
                if folder != Path():
                    (self._root / folder).rmdir()
            except OSError:
                return  # not empty

    def _explained(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as error:
            raise DepotError(
                f"the depot {self._root} cannot be used: {error.strerror or error}",
                hint="Free some space there or fix its permissions (RECOUP_EVIDENCE). Then: recoup resume RUN",
            ) from None


def _read(path: Path) -> bytes | None:
    try:
        return read_named(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _make_folder(path: Path) -> None:
    """Durable with all of its parents: a power cut must not take a folder away from under a file."""
    if path.is_dir():
        return
    _make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    sync_directory(path.parent)
