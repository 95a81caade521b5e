"""Sizes as people write them: 2GB, 512MiB, 1.5GB, or a number of bytes."""

from __future__ import annotations

import re
from typing import Any

from recoup.model.policy import MEMORY_MAX_BYTES

SIZE_MIN_BYTES = 1 << 20
SIZE_MAX_BYTES = MEMORY_MAX_BYTES
_UNIT_BYTES = {
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}
_COUNT = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
PATTERN = f"^{_COUNT}(?:{'|'.join(_UNIT_BYTES)})$"


def size_bytes(written: Any) -> int:
    """Raises ValueError in words for the person who wrote it."""
    if isinstance(written, bool) or not isinstance(written, str | int):
        raise ValueError("must be a size such as 512MB, 2GB or 1.5GiB")
    size = _bytes(written) if isinstance(written, str) else written
    if not SIZE_MIN_BYTES <= size <= SIZE_MAX_BYTES:
        raise ValueError("must be at least 1MiB and at most 1024TiB")
    return int(size)


_WHOLE = re.compile(f"({_COUNT})({'|'.join(_UNIT_BYTES)})")


def _bytes(text: str) -> int:
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise ValueError(_what_is_wrong(text))
    return round(float(found[1]) * _UNIT_BYTES[found[2]])


def _what_is_wrong(text: str) -> str:
    if re.fullmatch(_COUNT, text):
        return f"has no unit: write {text}MB or {text}GB"
    return "must be a size such as 512MB, 2GB or 1.5GiB"
