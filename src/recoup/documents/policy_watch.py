"""A policy file that people change while runs go on."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from recoup.files.named import read_named
from recoup.model.policy import WrittenPolicy

QUIET_S = 0.5
"""So long nobody must have written to it. One that claims to be of the future must be the same at two looks."""

_Stamp = tuple[int, int, int, int] | None


class WatchedPolicyFile:
    """Looks whether the file was changed. What is being written at this moment is left alone until it is quiet."""

    def __init__(self, path: Path, host: str) -> None:
        self.name = f"{path}@{host}"
        self._path = path
        self._read: _Stamp = None
        self._seen: _Stamp = None

    def look(self) -> WrittenPolicy | None:
        """What the file says, once after each change; None: nothing new. A file that is gone is no change."""
        stamp = self._stamp()
        quiet, self._seen = stamp == self._seen or _is_old(stamp), stamp
        if stamp is None or stamp == self._read or not quiet:
            return None
        written = self.read()
        if self._stamp() != stamp:
            return None
        self._read = stamp
        return written

    def read(self) -> WrittenPolicy:
        """What it says at this moment."""
        from recoup.documents.policy_file import POLICY_BYTES_MAX, parse_policy
        from recoup.errors import InvalidPolicy

        try:
            # Not from a pipe: every run would wait for its writer.
            raw = read_named(self._path, POLICY_BYTES_MAX + 1)
        except OSError as error:
            return WrittenPolicy("", None, f"{self._path} cannot be read: {error.strerror}")
        digest = hashlib.sha256(raw).hexdigest()
        try:
            return WrittenPolicy(digest, parse_policy(raw, str(self._path)))
        except InvalidPolicy as error:
            return WrittenPolicy(digest, None, error.message)

    def _stamp(self) -> _Stamp:
        try:
            status = self._path.stat()
        except OSError:
            return None
        # Tools that unpack or synchronise set the time of the content; nobody sets that of the change.
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _is_old(stamp: _Stamp) -> bool:
    return stamp is not None and time.time_ns() - stamp[0] >= QUIET_S * 1e9
