"""Text of others made plain: what a reader sees is what is there, and nothing of it can act."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from recoup.kernel.wording import INVISIBLE

Hide = Callable[[str], str]
"""Takes the secrets out of a text."""

_COLOURS = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b\n]{0,2000}\x1b\\"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)
_BREAKS = re.compile(r"\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_ACCENTS = (
    "\u0300-\u036f\u0483-\u0489\u0610-\u061a\u064b-\u065f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe00-\ufe0f"
)
_STRANGE = re.compile(f"[{INVISIBLE}]")
_STACKED = re.compile(f"([{_ACCENTS}]{{4}})[{_ACCENTS}]+")
_ODD = re.compile(f"[{INVISIBLE}{_ACCENTS}\r\x0b\x0c\u2028\u2029]")
"""Most texts hold none of these, and need not be looked at again."""
_WORDS_CHARS_MAX = 20_000
_END_CHARS_MAX = 64 << 10
_LINE_CHARS_MAX = 400


def as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Plain:
    """Cleans text for one report."""

    hide: Hide = as_it_is

    def line(self, text: str | None, chars_max: int = _LINE_CHARS_MAX) -> str:
        """On one line."""
        return shortened(" ".join(self._clean((text or "")[:_WORDS_CHARS_MAX]).split()), chars_max)

    def end(self, text: str, lines_max: int) -> tuple[str, ...]:
        """The last lines, without the empty ones around them."""
        if len(text) > _END_CHARS_MAX:
            text = text[-_END_CHARS_MAX:].partition("\n")[2]
        lines = self._clean(text).strip("\n").split("\n") if text.strip() else []
        gone = len(lines) - lines_max
        kept = [shortened(line, _LINE_CHARS_MAX) for line in lines[-lines_max:]]
        return tuple([f"[{gone:,} lines before]", *kept] if gone > 0 else kept)

    def start(self, text: str, lines_max: int) -> tuple[str, ...]:
        """The first lines, and how many were left out is for the caller to say."""
        text = "\n".join(text.split("\n", lines_max)[:lines_max])
        lines = self._clean(text).rstrip("\n").split("\n") if text else []
        return tuple(shortened(line, _LINE_CHARS_MAX) for line in lines[:lines_max])

    def text(self, text: str) -> str:
        """All of it."""
        return self._clean(text)

    def _clean(self, text: str) -> str:
        if _ODD.search(text) is None:
            return text
        visible = _BREAKS.sub("\n", _STACKED.sub(r"\1", _COLOURS.sub("", text)))
        # What stood between them may have kept the pieces of a secret apart.
        bare = _STRANGE.sub("", visible)
        hidden = self.hide(bare)
        return _STRANGE.sub(_named, visible) if hidden == bare else hidden


def shortened(text: str, chars_max: int) -> str:
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}… [{len(text) - chars_max:,} more characters]"


def _named(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return "\u2421" if code == 0x7F else f"⟨U+{code:04X}⟩"
