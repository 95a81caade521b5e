"""What is sent to many at once is made once: messages as bytes, and where to go on from behind them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any, Final

import msgspec

CHUNK_BYTES_MAX: Final = 64 << 10
"""Sent at once; a single event may be larger."""
_MADE_MAX: Final = 64


class Batch(msgspec.Struct, frozen=True):
    """What came since, as it is sent; `over`: nothing will come any more."""

    body: bytes = b""
    place: int = 0
    """Where to go on from, where there is a body."""
    over: bool = False


def message(place: int, event: str, data: Any) -> bytes:
    return _message(place, event, msgspec.json.encode(data))


def batch_of(told: Iterable[tuple[int, str, bytes]]) -> Batch:
    """Events by place, type and line, one message each, as many as fit into a chunk."""
    body, place = bytearray(), 0
    for place, kind, line in told:
        body += _message(place, kind, line)
        if len(body) >= CHUNK_BYTES_MAX:
            break
    return Batch(bytes(body), place)


class Made:
    """Batches that were made last. Most who watch are at the same place, and are sent the same bytes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Batch] = OrderedDict()

    def get(self, key: Hashable) -> Batch | None:
        return self._kept.get(key)

    def keep(self, key: Hashable, batch: Batch) -> Batch:
        if len(batch.body) <= 2 * CHUNK_BYTES_MAX:
            self._kept[key] = batch
        while len(self._kept) > _MADE_MAX:
            self._kept.popitem(last=False)
        return batch


def _message(place: int, event: str, data: bytes) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (place, event.encode(), data)
