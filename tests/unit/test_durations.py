"""Durations as people write them."""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.shapes.durations import DURATION_MAX_S, PATTERN, duration_s

UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("15m", 900),
        ("5s", 5),
        ("1h30m", 5_400),
        ("500ms", 0.5),
        ("1m1ms", 60.001),
        ("1.5h", 5_400),
        ("30d", DURATION_MAX_S),
        (90, 90),
        (0.25, 0.25),
    ],
)
def test_a_duration_is_a_number_of_seconds_or_counts_with_units(written: Any, seconds: float) -> None:
    assert duration_s(written) == seconds
    assert type(duration_s(written)) is float


@given(st.dictionaries(st.sampled_from(list(UNIT_MS)), st.integers(0, 999), min_size=1))
def test_the_parts_of_a_duration_add_up(parts: dict[str, int]) -> None:
    written = "".join(f"{parts[unit]}{unit}" for unit in UNIT_MS if unit in parts)
    total_ms = sum(count * UNIT_MS[unit] for unit, count in parts.items())
    assert re.search(PATTERN, written)
    if 1 <= total_ms <= DURATION_MAX_S * 1_000:
        assert math.isclose(duration_s(written), total_ms / 1_000)
    else:
        with pytest.raises(ValueError, match="at most 30 days"):
            duration_s(written)


@pytest.mark.parametrize("written", [0, -1, 0.0, "0s", "0h0m", 2_592_001, "31d", math.nan, math.inf, 10**400])
def test_nothing_and_more_than_a_month_are_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="at least 1ms"):
        duration_s(written)


@pytest.mark.parametrize(
    "written", ["", "m", "5 m", "30m1h", "5m5m", "1h30", "-5m", "fast", "5M", "5m\n", "٥m", "1.h"]
)
def test_other_text_is_refused_with_examples(written: str) -> None:
    with pytest.raises(ValueError, match="must be a duration such as 500ms, 90s, 15m, 1h30m or 2d"):
        duration_s(written)


def test_a_count_without_a_unit_asks_for_one() -> None:
    with pytest.raises(ValueError, match="has no unit: write 90s for seconds or 90m for minutes"):
        duration_s("90")


@pytest.mark.parametrize("written", [True, None, [5], {}])
def test_other_types_are_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="must be a duration"):
        duration_s(written)


@given(st.text(max_size=30) | st.floats() | st.integers())
def test_any_value_is_a_duration_in_bounds_or_refused(written: Any) -> None:
    with contextlib.suppress(ValueError):
        assert 0.001 <= duration_s(written) <= DURATION_MAX_S
