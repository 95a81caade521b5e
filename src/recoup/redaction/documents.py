"""Redacts the strings of a JSON document and keeps its shape, so that it can still be read back.

Numbers stay as they are: an amount that happens to hold the digits of a short secret must remain an amount.
Whoever puts a secret number into a document writes it as a string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from recoup.model.redacted import DocumentPath
from recoup.redaction.layers import LayeredMatcher
from recoup.redaction.masking import masked
from recoup.redaction.octets import utf8


class DocumentRedactor:
    """`text` finds the forms in a string, `encoded` finds them in JSON, where it may be written otherwise."""

    def __init__(self, text: LayeredMatcher, encoded: LayeredMatcher) -> None:
        self._text = text
        self._encoded = encoded
        self._mask = text.mask.decode()

    def is_clean(self, encoded: bytes) -> bool:
        return not self._encoded.occurs(encoded)

    def clean(self, node: Any) -> Any:
        """A piece of plain data without a form, alone or from one string into the next."""
        return self._separated(self._clean(readable(node)))

    def _clean(self, node: Any) -> Any:
        if isinstance(node, str):
            return self._clean_text(node)
        if isinstance(node, dict):
            return self._clean_object(node)
        return _each(node, self._clean)

    def _clean_text(self, text: str) -> str:
        clean = masked(utf8(text), self._text).decode("utf-8", "replace")
        # The escapes of JSON can complete a form that the string itself does not hold.
        return self._mask if self._encoded.occurs(msgspec.json.encode(clean)) else clean

    def _clean_object(self, node: dict[str, Any]) -> dict[str, Any]:
        clean: dict[str, Any] = {}
        for key, value in node.items():
            clean[free_key(self._clean_text(key), clean)] = self._clean(value)
        return clean

    def _separated(self, node: Any) -> Any:
        """Breaks a form that runs from one string into the next: a secret may be a JSON document itself."""
        if not isinstance(node, dict | list) or not self._crosses(node):
            return node
        inner = _each(node, self._separated)
        if not self._crosses(inner):
            return inner
        blank = self._blank(inner)
        return self._mask if self._crosses(blank) else blank

    def _blank(self, node: Any) -> Any:
        return self._mask if isinstance(node, str) else _each(node, self._blank)

    def _crosses(self, node: Any) -> bool:
        return not all(map(_may_be_a_number, self._encoded.occurring(msgspec.json.encode(node))))


def readable(node: Any) -> Any:
    """Plain data with U+FFFD for the bytes that file names and variables may hold and JSON may not."""
    if isinstance(node, str):
        return utf8(node).decode("utf-8", "replace")
    if isinstance(node, dict):
        return {readable(key): readable(value) for key, value in node.items()}
    return _each(node, readable)


def differences(before: Any, after: Any, at: DocumentPath = ()) -> Iterator[DocumentPath]:
    """Paths, in terms of `before`, of the values that are not the same in `after`. A value whose key changed counts
    as changed."""
    if isinstance(before, dict) and isinstance(after, dict) and len(before) == len(after):
        for (key, value), (new_key, new_value) in zip(before.items(), after.items(), strict=True):
            if key != new_key:
                yield (*at, key)
            else:
                yield from differences(value, new_value, (*at, key))
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        for index, (value, new_value) in enumerate(zip(before, after, strict=True)):
            yield from differences(value, new_value, (*at, index))
    elif before != after:
        yield at


def free_key(key: str, taken: Mapping[Any, Any]) -> str:
    """Two keys may become the same mask; neither value is lost."""
    free = key
    while free in taken:
        free = f"{free} {len(taken)}"
    return free


def _may_be_a_number(form: bytes) -> bool:
    """Or another word of JSON: what is found of these after the strings were redacted is in no string."""
    return not form.strip(b"0123456789+-.eE") or form in b"true false null"


def _each(node: Any, change: Callable[[Any], Any]) -> Any:
    """The values of an object or the items of an array changed; anything else as it is."""
    if isinstance(node, dict):
        return {key: change(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [change(item) for item in node]
    return node
