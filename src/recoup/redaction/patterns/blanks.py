"""The text as its reader sees it: a colour code is nothing, and an escaped line break ends a word as a line break does.

A rule looks at both. As written, the `n` of an escaped line break is the first letter of the next word, and the word
is no longer a token.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPED: Final = ((b"\\n", b" \n"), (b"\\t", b"  "), (b"\\r", b"  "))
_COLOUR: Final = re.compile(
    rb"(?:\x1b|\\(?:u001[bB]|x1[bB]|033|e))\[[0-9;:?]{0,32}[A-Za-z](?=[\w\s:=\"']|\Z)"
)


def blanked(data: bytes) -> bytes | None:
    """As long as the data, with blanks and line breaks for its noise. None: there is none in it."""
    has_escapes = b"\\" in data
    if not has_escapes and b"\x1b" not in data:
        return None
    view = data
    for escape, blank in _ESCAPED if has_escapes else ():
        view = view.replace(escape, blank)
    if b"[" in data:
        view = _COLOUR.sub(lambda code: b" " * len(code[0]), view)
    return None if view == data else view


def without_noise(start: int, stop: int, data: bytes, view: bytes) -> tuple[int, int]:
    """A span without the noise at its ends, which belongs to the text around."""
    while start < stop and data[start] != view[start]:
        start += 1
    while start < stop and data[stop - 1] != view[stop - 1]:
        stop -= 1
    return start, stop
