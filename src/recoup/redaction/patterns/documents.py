"""Redacts plain data by the rules: each string by itself, and each value together with its key."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from recoup.redaction.documents import free_key
from recoup.redaction.masks import MASK
from recoup.redaction.patterns.compiled import PatternSet
from recoup.redaction.patterns.stage import PatternStage

_MASK: Final = MASK.decode()
_STRING: Final = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"')
_ESCAPE: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|.)")
_ESCAPED: Final = {b'\\"': b'"', b"\\\\": b"\\", b"\\/": b"/"}


def _texts_in(encoded: bytes) -> bytes:
    """The strings with escapes of an encoded document, each on lines of its own. A control character ends a line."""
    texts = b"\n".join(text for text in _STRING.findall(encoded) if b"\\" in text)
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[0], b"\n"), texts)


class PatternDocuments:
    """Plain data in, plain data of the same shape out; numbers and the names of fields stay."""

    def __init__(self, patterns: PatternSet) -> None:
        self._patterns = patterns
        self._stage = PatternStage(patterns)

    def is_clean(self, encoded: bytes) -> bool:
        """One look at the encoded document, which nearly always is all that is needed. In it a line break is a
        backslash and a letter, which would hide a word that begins the next line: such texts are looked at as they
        are."""
        if self._patterns.occurs(encoded):
            return False
        return b"\\" not in encoded or not self._patterns.occurs(_texts_in(encoded))

    def clean(self, node: Any) -> Any:
        if isinstance(node, str):
            return self._clean_text(node)
        if isinstance(node, dict):
            return self._clean_object(node)
        if isinstance(node, list | tuple):
            return [self.clean(item) for item in node]
        return node

    def _clean_object(self, node: dict[Any, Any]) -> dict[Any, Any]:
        clean: dict[Any, Any] = {}
        for key, value in node.items():
            name = free_key(self._clean_text(key), clean) if isinstance(key, str) else key
            clean[name] = self._clean_value(key, value)
        return clean

    def _clean_text(self, text: str) -> str:
        raw = text.encode("utf-8", "replace")
        return self._redacted(raw).decode("utf-8", "replace") if self._patterns.occurs(raw) else text

    def _clean_value(self, key: Any, value: Any) -> Any:
        """What a string is may be said by its key alone: `{"password": "..."}`."""
        clean = self.clean(value)
        if not isinstance(clean, str) or not isinstance(key, str):
            return clean
        pair = msgspec.json.encode({key: clean})
        return _MASK if self._patterns.occurs(pair) and self._redacted(pair) != pair else clean

    def _redacted(self, data: bytes) -> bytes:
        return self._stage.feed(data) + self._stage.flush()
