"""Turns between processes. SQLite alone lets one busy writer starve all others; two file locks make a queue.

Whoever wants to write takes `turn`, then `write`, then gives `turn` back: so a waiting process holds `turn`,
and the one that has just written cannot be first again. This is fairness only. Safety is SQLite's own lock;
therefore a process that waited too long (the holder may be frozen) goes on without its turn.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from recoup.errors import LedgerError, hint_for
from recoup.files.named import is_misplaced, open_own

_POLL_S = 0.0005
_DISTRUST_S = 10.0
_DISTRUSTFUL_S = 0.02


class Turnstile:
    """One for each ledger and process. Used by one thread at a time."""

    def __init__(self, database: Path, patience_s: float) -> None:
        self._patience_s = patience_s
        self._turn = _lock_file(database.with_suffix(".turn"))
        self._write = _lock_file(database.with_suffix(".write"))
        self._distrusted_until_s = 0.0

    def try_enter(self) -> bool:
        """Without waiting."""
        if not _locked(self._turn):
            return False
        entered = _locked(self._write)
        _unlock(self._turn)
        return entered

    def enter(self) -> bool:
        """Waits for a turn. False: none within the limit; go on without, and do not `leave`."""
        start_s = time.monotonic()
        deadline_s = start_s + self._patience_left_s(start_s)
        entered = _locked_by(self._turn, deadline_s) and self._enter_from_turn(deadline_s)
        if entered:
            self._distrusted_until_s = 0.0
        elif self._distrusted_until_s <= start_s:
            self._distrusted_until_s = time.monotonic() + _DISTRUST_S
        return entered

    def leave(self) -> None:
        _unlock(self._write)

    def close(self) -> None:
        os.close(self._turn)
        os.close(self._write)

    def _enter_from_turn(self, deadline_s: float) -> bool:
        try:
            return _locked_by(self._write, deadline_s)
        finally:
            _unlock(self._turn)

    def _patience_left_s(self, now_s: float) -> float:
        # A holder that was frozen a moment ago probably still is: pay for finding out only now and then.
        return _DISTRUSTFUL_S if now_s < self._distrusted_until_s else self._patience_s


def _lock_file(path: Path) -> int:
    try:
        return open_own(path)
    except OSError as error:
        if is_misplaced(error):
            hint = f"Remove {path}: it is made again."
            raise LedgerError(f"the lock file {path} is not a regular file", hint=hint) from error
        words = f"the lock file {path} cannot be opened: {error.strerror}"
        raise LedgerError(words, hint=hint_for(error)) from error


def _locked_by(descriptor: int, deadline_s: float) -> bool:
    while not _locked(descriptor):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without such locks: there are no turns, SQLite alone decides.
        return True
    return True


def _unlock(descriptor: int) -> None:
    try:  # noqa: SIM105 - done twice at every commit, and contextlib.suppress costs as much as the call itself
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except OSError:
        pass
