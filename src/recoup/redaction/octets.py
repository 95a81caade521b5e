"""Text as the bytes that it is written with."""

from __future__ import annotations


def utf8(text: str) -> bytes:
    """Bytes that were no UTF-8 when the operating system gave them come back as they were."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")
