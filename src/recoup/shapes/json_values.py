"""Any JSON value, as people write it in a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import AfterValidator

from recoup.shapes.scalars import plain

EXACT_INTEGER_MAX = 2**53 - 1


def exact(instead: str) -> AfterValidator:
    """Numbers that JSON readers agree on, so that a digest of the plan can be made everywhere."""

    def check(value: Any) -> Any:
        for number in _numbers(value):
            if not math.isfinite(number) or (isinstance(number, int) and abs(number) > EXACT_INTEGER_MAX):
                raise ValueError(f"holds a number that JSON cannot carry exactly: {instead}")
        return plain(value)

    return AfterValidator(check)


def _numbers(value: Any) -> list[int | float]:
    found: list[int | float] = []
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, Mapping):
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
        elif isinstance(item, int | float):
            found.append(item)
    return found
