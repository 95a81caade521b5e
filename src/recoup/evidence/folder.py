"""Evidence in a folder: content-addressed, written whole, checked when read."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

from recoup.errors import NotFound
from recoup.evidence.durable import write_whole
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
        if not path.exists():
            write_whole(path, data)
        return handle

    async def get(self, handle: str) -> bytes:
        if not self.is_handle(handle):
            raise NotFound(
                f"{handle!r} is not an evidence handle", hint="Handles look like sha256:<64 hex digits>."
            )
        try:
            data = self._path(handle).read_bytes()
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

    def prune(self, keep: frozenset[str], older_than_s: float) -> int:
        """Remove what nobody cites any more; young files stay, their event may still be on its way."""
        horizon = time.time() - older_than_s
        removed = 0
        for path in self._root.glob("??/*"):
            if f"sha256:{path.name}" not in keep and path.stat().st_mtime < horizon:
                path.unlink(missing_ok=True)
                removed += 1
        return removed

    def _path(self, handle: str) -> Path:
        name = handle.removeprefix("sha256:")
        return self._root / name[:2] / name
