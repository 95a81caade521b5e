"""What may stand in the middle of a secret without being a part of it: a line break with the indentation of the next
line, colour codes, characters without width. A text without them shows a secret that they tear.

All of it is noise in raw text and in JSON, where a line break is written with a backslash.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

JOINED_BYTES_MIN: Final = 8
"""Less than this may come together by chance where a line ends."""
BEGUN_BYTES_MIN: Final = 4
"""What stands before a seam at the end of the data is held back only if so much of a secret is there."""
HELD_BYTES_MAX: Final = 4_096
_TAIL_BYTES: Final = 256
_BLANK: Final = re.compile(rb"[ \t\r\n]")
_BREAK: Final = re.compile(rb"\n[ \t][ \t\r\n]*|[\r\n]")
_SEAM: Final = re.compile(
    rb"\n[ \t][ \t\r\n]*|[\r\n]"
    rb"|\\{1,8}(?:r\\{1,8})?n(?:[ \t]|\\{1,8}t){0,80}"
    # Colours, and what the end of the data cuts off.
    rb"|\\{1,8}(?:u001[bB]|x1[bB]|033|e)\[[0-9;:?]{0,32}(?:[A-Za-z]|\Z)"
    rb"|\x1b(?:\[[0-9;:?]{0,32}(?:[A-Za-z]|\Z)|\Z)"
    rb"|\xe2(?:\x80(?:[\x8b-\x8f]|\Z)|\x81(?:\xa0|\Z)|\Z)"
    rb"|\xef(?:\xbb(?:\xbf|\Z)|\Z)|\xc2(?:\xad|\Z)"
)
_RARE: Final = {
    b"\x1b": (b"\x1b",),
    b"\\": (b"\\n", b"\\r", b"\\u001", b"\\x1", b"\\033", b"\\e["),
    b"\xe2": (*(b"\xe2\x80" + bytes([last]) for last in range(0x8B, 0x90)), b"\xe2\x81\xa0"),
    b"\xef": (b"\xef\xbb\xbf",),
    b"\xc2": (b"\xc2\xad",),
}
"""By their first bytes, which are looked for first: that takes no time."""
_CUT_OFF: Final = (b"\xe2", b"\xe2\x80", b"\xe2\x81", b"\xef", b"\xef\xbb", b"\xc2")


class Joined:
    """Some data without its seams, and where each byte of it stood."""

    def __init__(self, original: bytes, data: bytes, seam: re.Pattern[bytes]) -> None:
        self._original = original
        self.data = data
        self._seam = seam
        self._starts: list[int] = []
        self._removed: list[int] = []

    @property
    def is_uneven(self) -> bool:
        """Its seams are of more than line breaks: one may begin or end inside of a secret that is whole."""
        return self._seam is not _BREAK

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """Where it stands in the original. None: too little is joined."""
        begin, stop = self.begin(start), self.begin(end - 1) + 1
        crosses = stop - begin > end - start
        return None if crosses and end - start < JOINED_BYTES_MIN else (begin, stop)

    def pending(self, place: int) -> int | None:
        """Where to go on in the original, if something may have begun at `place`. None: it would go over a seam, and
        there is too little of it, or too much between its parts."""
        size, left = len(self._original), len(self.data) - place
        if self._has_no_seam_in_last(left):
            return size - left
        if left < BEGUN_BYTES_MIN:
            return None
        begin = self._begin_near_the_end(place)
        if size - begin == left:
            return begin
        return begin if size - begin <= HELD_BYTES_MAX else None

    def rest(self, place: int) -> int:
        """Where to look in the original for what goes over no seam, if nothing that does may have begun at `place`."""
        if self.is_uneven:
            return self.begin(place)
        return max(self._original.rfind(b"\n"), self._original.rfind(b"\r")) + 1

    def begin(self, place: int) -> int:
        """Where it stood; the end of the original for the end."""
        return len(self._original) if place >= len(self.data) else self._place(place)

    def _has_no_seam_in_last(self, size: int) -> bool:
        """Quickly told in most texts."""
        tail = self._original[len(self._original) - size :]
        return not self.is_uneven and not _BLANK.search(tail) and self.data.endswith(tail)

    def _begin_near_the_end(self, place: int) -> int:
        """Without a survey of all that stands before."""
        left, size = len(self.data) - place, len(self._original)
        start = self._original.rfind(b"\n", 0, max(0, size - 2 * left - _TAIL_BYTES))
        if self._starts or start <= 0 or not left:
            return self.begin(place)
        tail = self._original[start:]
        without = Joined(tail, self._seam.sub(b"", tail), self._seam)
        if len(without.data) < left:
            return self.begin(place)
        return start + without.begin(len(without.data) - left)

    def _place(self, at: int) -> int:
        if not self._starts:
            self._survey()
        return at + self._removed[bisect_right(self._starts, at) - 1]

    def _survey(self) -> None:
        self._starts, self._removed, removed = [0], [0], 0
        for seam in self._seam.finditer(self._original):
            kept = seam.start() - removed
            removed += seam.end() - seam.start()
            if kept == self._starts[-1]:
                self._removed[-1] = removed
            else:
                self._starts.append(kept)
                self._removed.append(removed)


def joined(data: bytes) -> Joined | None:
    """None: there is no seam in it."""
    if data.endswith(_CUT_OFF) or any(_has_one(data, *rare) for rare in _RARE.items()):
        seam, without = _SEAM, _SEAM.sub(b"", data)
    elif b"\n" in data or b"\r" in data:
        seam, without = _BREAK, _without_breaks(data)
    else:
        return None
    return Joined(data, without, seam) if len(without) < len(data) else None


def holds_seam(form: bytes) -> bool:
    """Or begins with what belongs to the seam before it."""
    return form[:1] in (b" ", b"\t") or _SEAM.search(form) is not None


def _has_one(data: bytes, first: bytes, sequences: tuple[bytes, ...]) -> bool:
    return first in data and any(sequence in data for sequence in sequences)


def _without_breaks(data: bytes) -> bytes:
    """What `_BREAK` removes, ten times as fast where few lines are indented."""
    if b"\n\t" in data:
        data = data.replace(b"\n\t", b"\n ")
    if b"\n " in data:
        first, *indented = data.split(b"\n ")
        data = b"".join([first, *(line.lstrip(b" \t\r\n") for line in indented)])
    return data.translate(None, b"\r\n")
