"""A sequence of which a copy with one other value is cheap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.model.vector import CHUNK, Vector

LENGTHS = st.one_of(st.integers(0, 5), st.sampled_from([CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK]))


@given(LENGTHS, st.data())
def test_it_reads_like_a_tuple(length: int, data: st.DataObject) -> None:
    values = tuple(range(length))
    vector = Vector.of(values)
    assert (len(vector), tuple(vector), bool(vector)) == (length, values, bool(values))
    bound = st.none() | st.integers(-length - 2, length + 2)
    part = slice(data.draw(bound), data.draw(bound))
    assert vector[part] == values[part]
    if length:
        index = data.draw(st.integers(-length, length - 1))
        assert vector[index] == values[index]


@pytest.mark.parametrize("index", [3, -4, CHUNK])
def test_there_is_nothing_beyond_its_ends(index: int) -> None:
    with pytest.raises(IndexError, match="of 3 values"):
        Vector.of("abc")[index]


@given(LENGTHS.filter(bool), st.data())
def test_another_value_in_one_place_leaves_the_first_as_it_was(length: int, data: st.DataObject) -> None:
    vector = Vector.of(range(length))
    index = data.draw(st.integers(0, length - 1))
    other = vector.replaced(index, -1)
    assert tuple(vector) == tuple(range(length))
    assert tuple(other) == tuple(-1 if place == index else place for place in range(length))
    assert other == Vector.of(other) != vector


def test_all_chunks_but_one_are_shared() -> None:
    vector = Vector.of(range(10_000))
    other = vector.replaced(5_000, -1)
    apart = [new for old, new in zip(vector.chunks, other.chunks, strict=True) if old is not new]
    assert len(apart) == 1 and len(vector.chunks) + CHUNK <= 221
