"""Text of people and programs, as it is shown in lists."""

from __future__ import annotations

import re
from typing import Final

_BREAK: Final = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def one_line(text: str) -> str:
    """For a list with one row for each thing: a line break becomes a space, a control character its escape."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], _BREAK.sub(" ", text.strip("\r\n")))
