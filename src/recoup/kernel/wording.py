"""Text of people and programs, as it is shown: what a reader sees is what is there, and nothing of it can act."""

from __future__ import annotations

import re
from typing import Final

INVISIBLE: Final = (
    "\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffc\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""The inside of a character class: control characters but line breaks and tabs, bidirectional marks, fillers, tags,
surrogates. They show nothing, or change how others are shown."""

_BREAK: Final = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_LINE_END: Final = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_COLOUR: Final = re.compile(r"(?:\x1b\[|\x9b)[0-9;:]*m")
_HIDDEN: Final = re.compile(f"[{INVISIBLE}\t]")
_HIDDEN_BUT_TABS: Final = re.compile(f"[{INVISIBLE}]")
_JSON_HIDDEN: Final = re.compile(f"[{INVISIBLE}\u2028\u2029]")


def one_line(text: str) -> str:
    """For a list with one row for each thing: a line break becomes a space, what cannot be seen its escape."""
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(_escaped, _BREAK.sub(" ", text.strip("\r\n")))


def clean(text: str) -> str:
    """With its lines and tabs; what else cannot be seen becomes its escape."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return _HIDDEN_BUT_TABS.sub(_escaped, _LINE_END.sub("\n", text))


def plain_log(text: str) -> str:
    """The same for what programs print: their colours are left out rather than spelled."""
    return clean(_COLOUR.sub("", text))


def json_escaped(text: str) -> str:
    """The same JSON, with what cannot be seen written as JSON escapes."""
    return text if text.isascii() and text.isprintable() else _JSON_HIDDEN.sub(_json_escape, text)


def duration(value: float) -> str:
    """A length of time as people say it."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return "\\t" if code == 9 else f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
