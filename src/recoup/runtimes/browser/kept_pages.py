"""What is kept of a page, as bytes: its address, the steps that did something in its document, cookies and storage.

Read without the automation library: whoever only asks about a page opens no browser.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class KeptTab(NamedTuple):
    """A tab beside the page."""

    url: str
    touched_by: tuple[str, ...]


class KeptPage(NamedTuple):
    url: str
    touched_by: tuple[str, ...] | None
    """The steps that did something in its document. None: kept by a version that did not say which."""
    storage: dict[str, Any] | None
    before: tuple[KeptTab, ...] = ()
    """The other tabs, as they are counted: those before this page, and those after it."""
    after: tuple[KeptTab, ...] = ()

    @property
    def touched_elsewhere(self) -> tuple[str, ...]:
        """The steps that did something in the other tabs."""
        return tuple(step for tab in (*self.before, *self.after) for step in tab.touched_by)


def encode(page: KeptPage, limit_bytes: int) -> bytes:
    """Without cookies and storage, if these are too large."""
    tabs = [page.before, page.after] if page.before or page.after else []
    data = json.dumps([page.url, page.touched_by, page.storage, *tabs]).encode()
    if len(data) <= limit_bytes:
        return data
    return json.dumps([page.url, page.touched_by, None, *tabs]).encode()


def decode(kept: bytes) -> KeptPage:
    url, touched_by, storage, *tabs = json.loads(kept)
    sides: list[list[list[Any]]] = tabs or [[], []]
    before, after = ([KeptTab(at, tuple(by)) for at, by in side] for side in sides)
    here = None if touched_by is True else tuple(touched_by or ())
    return KeptPage(url, here, storage, tuple(before), tuple(after))
