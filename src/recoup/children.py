"""The processes that this process started by itself, as opposed to those that it inherits from others that died."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_own: set[int] = set()


@contextmanager
def starting() -> Iterator[set[int]]:
    """Held while a child is started and its pid added, and while the children are listed: nobody sees one in between
    and takes it for a stranger."""
    with _lock:
        yield _own


def buried(pid: int) -> None:
    """It has been waited for: another process may get its pid."""
    with _lock:
        _own.discard(pid)
