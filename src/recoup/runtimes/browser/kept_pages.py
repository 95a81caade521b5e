"""What is kept of a page, as bytes: its address, the steps that did something in its document, cookies and storage.

Read without the automation library: whoever only asks about a page opens no browser.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple


class KeptPage(NamedTuple):
    url: str
    touched_by: tuple[str, ...] | None
    """The steps that did something in its document. None: kept by a version that did not say which."""
    storage: dict[str, Any] | None


def encode(url: str, touched_by: Sequence[str], storage: dict[str, Any] | None, limit_bytes: int) -> bytes:
    """Without cookies and storage, if these are too large."""
    data = json.dumps([url, list(touched_by), storage]).encode()
    return data if len(data) <= limit_bytes else json.dumps([url, list(touched_by), None]).encode()


def decode(kept: bytes) -> KeptPage:
    url, touched_by, storage = json.loads(kept)
    return KeptPage(url, None if touched_by is True else tuple(touched_by or ()), storage)
