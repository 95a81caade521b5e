"""The text as its reader sees it: a colour code is nothing, and an escaped line break ends a word as a line break does.

A rule looks at both. As written, the `n` of an escaped line break is the first letter of the next word, and the word
is no longer a token.
"""

from __future__ import annotations

import re
from typing import Final

_COLOUR: Final = rb"\[[0-9;:?]{0,32}[A-Za-z]"
_NOISE: Final = re.compile(
    rb"\\{1,8}(?:[nrt](?=\w)|(?:u001[bB]|x1[bB]|033|e)" + _COLOUR + rb")|\x1b" + _COLOUR
)


def blanked(data: bytes) -> bytes | None:
    """As long as the data, with blanks and line breaks for its noise. None: there is none in it."""
    if b"\\" not in data and b"\x1b" not in data:
        return None
    view = _NOISE.sub(_blank, data)
    return None if view == data else view


def without_noise(start: int, stop: int, data: bytes, view: bytes) -> tuple[int, int]:
    """A span without the noise at its ends, which belongs to the text around."""
    while start < stop and data[start] != view[start]:
        start += 1
    while start < stop and data[stop - 1] != view[stop - 1]:
        stop -= 1
    return start, stop


def _blank(noise: re.Match[bytes]) -> bytes:
    text = noise[0]
    end = b"\n" if text.endswith(b"n") and text.startswith(b"\\") else b" "
    return b" " * (len(text) - 1) + end
