"""A depot in whatever fsspec has a word for: s3://bucket/prefix, gs://…, abfs://…, sftp://…"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from recoup.depot.names import NAMES_MAX, checked_name, checked_prefix, checked_size, folder_of
from recoup.depot.threads import Threads
from recoup.errors import DepotError, NotFound, SettingsError

T = TypeVar("T")

_S3 = {
    # A store that is slow to answer is asked again by the library; one that never does must not keep a thread.
    "config_kwargs": {"connect_timeout": 5, "read_timeout": 30, "retries": {"max_attempts": 3}},
}


class ObjectStoreDepot:
    """Whatever an object store promises: an object is there whole or not at all, and everybody sees it at once."""

    def __init__(self, url: str) -> None:
        """`url` may hold a password, and is never shown."""
        self._scheme = urlsplit(url).scheme
        self._url = url
        self._threads = Threads()
        self._opened: tuple[Any, str] | None = None
        self._fsspec = _library(self._scheme)

    async def put(self, name: str, data: bytes) -> None:
        checked_name(name)
        checked_size(name, data)

        def write(files: Any, root: str) -> None:
            files.pipe_file(f"{root}/{name}", data)
            _must_be_there(files, f"{root}/{name}", name, len(data))

        await self._call(write)

    async def get(self, name: str) -> bytes:
        checked_name(name)

        def read(files: Any, root: str) -> bytes | None:
            try:
                return bytes(files.cat_file(f"{root}/{name}"))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

        found = await self._call(read)
        if found is None:
            raise NotFound(f"{name} is not in the depot", hint="It was removed, or never stored.")
        return found

    async def names(self, prefix: str) -> list[str]:
        checked_prefix(prefix)

        def find(files: Any, root: str) -> list[str]:
            folder = "/".join(filter(None, (root, folder_of(prefix))))
            files.invalidate_cache()  # what others have stored is to be seen
            try:
                found = files.find(folder)
            except FileNotFoundError:
                return []
            inside = (str(path).strip("/").removeprefix(root.strip("/")).strip("/") for path in found)
            return sorted(name for name in inside if name.startswith(prefix))[:NAMES_MAX]

        return await self._call(find)

    async def remove(self, name: str) -> None:
        checked_name(name)

        def remove(files: Any, root: str) -> None:
            try:
                files.rm_file(f"{root}/{name}")
            except FileNotFoundError:
                return

        await self._call(remove)

    async def close(self) -> None:
        """The library keeps its connections for the next one who asks."""

    async def _call(self, work: Callable[[Any, str], T]) -> T:
        return await self._threads.call(lambda: self._explained(work))

    def _explained(self, work: Callable[[Any, str], T]) -> T:
        try:
            return work(*self._open())
        except DepotError:
            raise
        except Exception as error:  # noqa: BLE001 every library behind fsspec has errors of its own
            raise DepotError(
                f"the depot at {self._scheme}:// cannot be used: {_said(error, self._url)}",
                hint="See RECOUP_EVIDENCE and the rights of this machine there. Then: recoup resume RUN",
            ) from None

    def _open(self) -> tuple[Any, str]:
        if self._opened is None:
            options = _S3 if self._scheme in ("s3", "s3a") else {}
            files, root = self._fsspec.core.url_to_fs(self._url, **options)
            self._opened = files, str(root).rstrip("/")
        return self._opened


def _must_be_there(files: Any, path: str, name: str, size_bytes: int) -> None:
    """What the ledger will rely on is looked at once: an acknowledgement alone is a promise."""
    files.invalidate_cache()
    try:
        stored_bytes = files.info(path).get("size")
    except FileNotFoundError:
        stored_bytes = None
    if stored_bytes != size_bytes:
        found = "does not have it" if stored_bytes is None else f"has {stored_bytes} of {size_bytes} bytes"
        raise DepotError(
            f"the depot acknowledged {name} and {found}",
            hint="See to the store that RECOUP_EVIDENCE names. Then: recoup resume RUN",
        )


def _library(scheme: str) -> Any:
    try:
        fsspec = importlib.import_module("fsspec")
        fsspec.get_filesystem_class(scheme)
    except ImportError:
        raise SettingsError(
            f"RECOUP_EVIDENCE names a place at {scheme}://, for which a library is missing",
            hint="For s3://: pip install 'recoup[s3]'. For others: the fsspec library of that place.",
        ) from None
    except ValueError:
        raise SettingsError(
            f"RECOUP_EVIDENCE names a place at {scheme}://, which is not known",
            hint="Give a folder that the machines share, or a URL such as s3://bucket/prefix.",
        ) from None
    return fsspec


def _said(error: Exception, url: str) -> str:
    """Never with the URL, or what is in it."""
    words, parts = f"{type(error).__name__}: {error}", urlsplit(url)
    for hidden in (url, parts.netloc, parts.password, parts.username, parts.query):
        if hidden:
            words = words.replace(hidden, "…")
    return words[:300]
