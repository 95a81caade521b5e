"""Evidence in a folder: content-addressed, written whole, checked when read."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from pathlib import Path

from recoup.durable import write_whole
from recoup.errors import NotFound
from recoup.files.named import read_named
from recoup.model.redacted import Redacted

_HANDLE = re.compile(r"sha256:[0-9a-f]{64}")
_CUT = b"\n[cut: over evidence_bytes_max]\n"


class FolderEvidence:
    """A handle is the digest of the content, so equal evidence is kept once and altered evidence is noticed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, content: Redacted, limit_bytes: int) -> str:
        data = content.data if len(content) <= limit_bytes else content.data[:limit_bytes] + _CUT
        handle = f"sha256:{hashlib.sha256(data).hexdigest()}"
        path = self._path(handle)
        try:
            os.utime(path)  # young again: whoever prunes must not take it away before an event cites it
        except FileNotFoundError:
            write_whole(path, data)
        return handle

    async def get(self, handle: str) -> bytes:
        if not self.is_handle(handle):
            raise NotFound(
                f"{handle!r} is not an evidence handle", hint="Handles look like sha256:<64 hex digits>."
            )
        try:
            data = read_named(self._path(handle))
        except FileNotFoundError:
            raise NotFound(
                f"evidence {handle} is gone", hint="It was pruned, or belongs to another home."
            ) from None
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != handle:
            raise NotFound(
                f"evidence {handle} was altered on disk", hint="Do not trust it; run the step again."
            )
        return data

    def is_handle(self, handle: str) -> bool:
        return _HANDLE.fullmatch(handle) is not None

    def keep(self, handle: str, data: bytes) -> None:
        """What is known to be the content of this handle."""
        write_whole(self._path(handle), data)

    def has(self, handle: str) -> bool:
        return self._path(handle).is_file()

    def older_than(self, age_s: float) -> set[str]:
        """The handles of what was stored, or stored again, longer ago than this."""
        found = (path for path in self._root.glob("??/*") if not path.name.startswith("."))
        return {f"sha256:{path.name}" for path in found if _age_s(path) > age_s}

    def remove(self, handle: str, older_than_s: float) -> int | None:
        """How many bytes that was. None: it is not here, or young: its event may still be on its way."""
        try:
            return _removed(self._path(handle), older_than_s)
        except FileNotFoundError:
            return None  # somebody else prunes here, too, and was faster

    def sweep(self, older_than_s: float) -> None:
        """Remove what was begun, to be written or to be removed, and never ended."""
        for path in self._root.glob("??/.*"):
            if _age_s(path) > older_than_s:
                path.unlink(missing_ok=True)

    def _path(self, handle: str) -> Path:
        name = handle.removeprefix("sha256:")
        return self._root / name[:2] / name


def _removed(path: Path, older_than_s: float) -> int | None:
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.gone")
    if not path.is_file() or _age_s(path) <= older_than_s:
        return None
    # Aside first: somebody may have stored it again between the look and this.
    path.rename(aside)
    if _age_s(aside) <= older_than_s:
        aside.rename(path)
        return None
    size_bytes = aside.stat().st_size
    aside.unlink()
    return size_bytes


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
