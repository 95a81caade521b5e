"""Parcels: a small head and a body of any length, in as many objects as it takes.

A parcel is there when the object with its name is. The pieces of its body are stored before, under an id that is used
once, so that two senders of the same name never mix theirs.
"""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from recoup.depot.names import OBJECT_BYTES_MAX, checked_name
from recoup.depot.sealing import OVERHEAD_BYTES, Altered, Seal
from recoup.errors import DepotError, NotFound
from recoup.ports import Depot

PIECE_BYTES = 8 << 20
INLINE_BYTES_MAX = PIECE_BYTES
HEAD_BYTES_MAX = 4 << 20
BODY_BYTES_MAX = 64 << 30
_SIZE_BYTES = 4

assert HEAD_BYTES_MAX + INLINE_BYTES_MAX + OVERHEAD_BYTES + (1 << 10) <= OBJECT_BYTES_MAX


class Label(msgspec.Struct, frozen=True):
    """Stands before the head: where the body is."""

    head_bytes: int
    body_bytes: int
    pieces: int = 0
    """None: the body follows the head."""
    id: str = ""


class Received(NamedTuple):
    head: bytes
    bytes: int
    """Of the body."""


class Parcels:
    """Those of one owner: everything it sends is below `root`."""

    def __init__(self, depot: Depot, seal: Seal, root: str, piece_bytes: int = PIECE_BYTES) -> None:
        self._depot = depot
        self._seal = seal
        self._root = checked_name(root)
        self._piece_bytes = piece_bytes

    async def send(self, name: str, head: bytes, body: Path | bytes = b"") -> int:
        """Durable when this returns: all of it, or nothing that anybody finds. Gives the size of the body."""
        if len(head) > HEAD_BYTES_MAX:
            raise DepotError(f"the head of {name} has {len(head)} bytes, over the limit of {HEAD_BYTES_MAX}")
        size = body.stat().st_size if isinstance(body, Path) else len(body)
        if size > BODY_BYTES_MAX:
            raise DepotError(f"{name} has {size} bytes, over the limit of {BODY_BYTES_MAX}")
        if size <= self._piece_bytes:
            whole = await asyncio.to_thread(body.read_bytes) if isinstance(body, Path) else body
            await self._put(name, _labelled(Label(len(head), len(whole)), head, whole))
            return len(whole)
        id_ = secrets.token_hex(16)
        pieces = await self._send_pieces(id_, body)
        await self._put(name, _labelled(Label(len(head), size, pieces, id_), head, b""))
        return size

    async def receive(self, name: str, into: Path) -> Received:
        """The body goes into a file that does not exist yet. Raises NotFound, Altered, SettingsError."""
        label, head, body = _unlabelled(name, await self._get(name))
        with into.open("xb") as file:
            await asyncio.to_thread(file.write, body)
            for number in range(label.pieces):
                await self._receive_piece(name, label, number, file)
            if file.tell() != label.body_bytes:
                raise Altered(f"{name} in the depot is not whole")
        return Received(head, label.body_bytes)

    async def names(self, prefix: str = "") -> list[str]:
        found = await self._depot.names(f"{self._root}/{prefix}")
        return [name.removeprefix(f"{self._root}/") for name in found]

    async def remove(self, name: str) -> None:
        """One object: nobody finds the parcel any more."""
        await self._depot.remove(f"{self._root}/{name}")

    async def remove_whole(self, name: str) -> None:
        """With its pieces, if it has any."""
        try:
            label, _, _ = _unlabelled(name, await self._get(name))
        except (NotFound, Altered):
            label = Label(0, 0)
        await self.remove(name)
        for number in range(label.pieces):
            await self.remove(_piece(label.id, number))

    async def remove_all(self) -> int:
        """What makes a parcel seen goes before its pieces do."""
        removed = 0
        while names := sorted(await self.names(), key=lambda name: name.startswith("pieces/")):
            for name in names:
                await self.remove(name)
            removed += len(names)
        return removed

    async def _send_pieces(self, id_: str, body: Path | bytes) -> int:
        if isinstance(body, bytes):
            starts = range(0, len(body), self._piece_bytes)
            for number, start in enumerate(starts):
                await self._put(_piece(id_, number), body[start : start + self._piece_bytes])
            return len(starts)
        number = 0
        with body.open("rb") as file:
            while data := await asyncio.to_thread(file.read, self._piece_bytes):
                await self._put(_piece(id_, number), data)
                number += 1
        return number

    async def _receive_piece(self, name: str, label: Label, number: int, file: IO[bytes]) -> None:
        try:
            data = await self._get(_piece(label.id, number))
        except NotFound:
            raise Altered(f"piece {number} of {name} is not in the depot") from None
        if file.tell() + len(data) > label.body_bytes:
            raise Altered(f"{name} in the depot is longer than it should be")
        await asyncio.to_thread(file.write, data)

    async def _put(self, name: str, data: bytes) -> None:
        full = f"{self._root}/{name}"
        await self._depot.put(full, await asyncio.to_thread(self._seal.close, full, data))

    async def _get(self, name: str) -> bytes:
        full = f"{self._root}/{name}"
        return await asyncio.to_thread(self._seal.open, full, await self._depot.get(full))


def _piece(id_: str, number: int) -> str:
    return f"pieces/{id_}-{number:05d}"


def _labelled(label: Label, head: bytes, body: bytes) -> bytes:
    written = msgspec.json.encode(label)
    return b"".join((len(written).to_bytes(_SIZE_BYTES, "big"), written, head, body))


def _unlabelled(name: str, data: bytes) -> tuple[Label, bytes, bytes]:
    size = int.from_bytes(data[:_SIZE_BYTES], "big")
    start = _SIZE_BYTES + size
    try:
        label = msgspec.json.decode(data[_SIZE_BYTES:start], type=Label)
    except msgspec.MsgspecError:
        raise Altered(f"{name} in the depot cannot be read") from None
    head, body = data[start : start + label.head_bytes], data[start + label.head_bytes :]
    whole = len(head) == label.head_bytes and len(body) == (0 if label.pieces else label.body_bytes)
    if not whole:
        raise Altered(f"{name} in the depot is not whole")
    return label, head, body
