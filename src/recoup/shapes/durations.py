"""Durations as people write them: 15m, 1h30m, 500ms, or a number of seconds."""

from __future__ import annotations

import math
import re
from typing import Any

DURATION_MIN_S = 0.001
DURATION_MAX_S = 30 * 86_400.0
_UNIT_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_COUNT = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
PATTERN = "^(?=[0-9])" + "".join(f"(?:{_COUNT}{unit})?" for unit in _UNIT_S) + "$"


def duration_s(written: Any, max_s: float = DURATION_MAX_S) -> float:
    """Raises ValueError in words for the person who wrote it."""
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        raise ValueError("must be a duration such as 90s, 15m or 1h30m")
    seconds = _seconds(written) if isinstance(written, str) else written
    if not DURATION_MIN_S <= seconds <= max_s:
        raise ValueError(f"must be more than nothing (at least 1ms) and at most {max_s / 86_400:g} days")
    return float(seconds)


_WHOLE = re.compile(PATTERN[:-1])
_PART = re.compile(r"([0-9.]+)(ms|[dhms])")


def _seconds(text: str) -> float:
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(_what_is_wrong(text))
    return math.fsum(float(count) * _UNIT_S[unit] for count, unit in _PART.findall(text))


def _what_is_wrong(text: str) -> str:
    if re.fullmatch(_COUNT, text):
        return f"has no unit: write {text}s for seconds or {text}m for minutes"
    return "must be a duration such as 500ms, 90s, 15m, 1h30m or 2d, the largest unit first"
