"""A sequence that never changes, of which a copy with one other value is cheap however long it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, Generic, TypeVar, overload

import msgspec

CHUNK: Final = 64
"""The longest plans have 10,000 steps: a copy of one chunk and of the list of chunks is 221 pointers then."""

Value = TypeVar("Value")


class Vector(msgspec.Struct, Generic[Value], frozen=True):
    """Made by `Vector.of`. Slices are tuples."""

    count: int = 0
    chunks: tuple[tuple[Value, ...], ...] = ()

    @classmethod
    def of(cls, values: Iterable[Value]) -> Vector[Value]:
        whole = tuple(values)
        chunks = tuple(whole[start : start + CHUNK] for start in range(0, len(whole), CHUNK))
        return Vector(len(whole), chunks)

    def replaced(self, index: int, value: Value) -> Vector[Value]:
        """The same but for the value at this index; all other chunks are shared."""
        place, within = divmod(index, CHUNK)
        chunk = list(self.chunks[place])
        chunk[within] = value
        chunks = list(self.chunks)
        chunks[place] = tuple(chunk)
        return Vector(self.count, tuple(chunks))

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Value]:
        return chain.from_iterable(self.chunks)

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Value, ...]: ...
    def __getitem__(self, index: int | slice) -> Value | tuple[Value, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        place = index + self.count if index < 0 else index
        if not 0 <= place < self.count:
            raise IndexError(f"index {index} of {self.count} values")
        return self.chunks[place // CHUNK][place % CHUNK]
