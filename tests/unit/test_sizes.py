"""Sizes as people write them."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.shapes.sizes import PATTERN, SIZE_MAX_BYTES, SIZE_MIN_BYTES, size_bytes


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("2GB", 2 * 10**9),
        ("2GiB", 2 << 30),
        ("1.5GB", 15 * 10**8),
        ("512MiB", 512 << 20),
        ("2000KB", 2_000_000),
        ("1TB", 10**12),
        ("1024TiB", SIZE_MAX_BYTES),
        (SIZE_MIN_BYTES, SIZE_MIN_BYTES),
    ],
)
def test_a_size_is_a_number_of_bytes_or_a_count_with_its_unit(written: Any, size: int) -> None:
    assert size_bytes(written) == size
    assert isinstance(written, int) or re.search(PATTERN, written)


@pytest.mark.parametrize("written", [0, -1, 1000, "0GB", "1MB", "1025TiB", 10**400])
def test_less_than_any_process_needs_and_more_than_any_machine_has_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="at least 1MiB and at most 1024TiB"):
        size_bytes(written)


@pytest.mark.parametrize(
    "written", ["", "GB", "2 GB", "2gb", "2G", "-2GB", "much", "2GB\n", "٢GB", True, None, 1.5, [2]]
)
def test_others_are_refused_with_examples(written: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a size such as 512MB, 2GB or 1\.5GiB"):
        size_bytes(written)


def test_a_count_without_a_unit_asks_for_one() -> None:
    with pytest.raises(ValueError, match="has no unit: write 512MB or 512GB"):
        size_bytes("512")


@given(st.text(max_size=30) | st.floats() | st.integers() | st.from_regex(PATTERN))
def test_any_value_is_a_size_in_bounds_or_refused(written: Any) -> None:
    with contextlib.suppress(ValueError):
        assert SIZE_MIN_BYTES <= size_bytes(written) <= SIZE_MAX_BYTES
