"""Both indexes are held to the same answers, and to finding every altered byte."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.errors import LearningError, VersionDamaged
from recoup.learning import index as index_module
from recoup.learning.index import K_MAX, ExactIndex, FaissIndex, Index, Matrix, index_from, new_index
from recoup.learning.proposals import index_of, proposed
from recoup.learning.stamped import stamped
from recoup.model.memory import Entry, State
from recoup.model.target import Element

KINDS: list[Any] = [ExactIndex, FaissIndex]


def rows(seed: int, number: int, dimensions: int = 16) -> Matrix:
    made = np.random.default_rng(seed).standard_normal((number, dimensions)).astype(np.float32)
    lengths = np.linalg.norm(made, axis=1, keepdims=True)
    return np.asarray(made / lengths, np.float32)


def labels(number: int, start: int = 0) -> list[str]:
    return [f"n{start + at}" for at in range(number)]


def filled(kind: Any, vectors: Matrix) -> Index:
    index: Index = kind(vectors.shape[1])
    index.add(labels(len(vectors)), vectors)
    return index


@pytest.mark.parametrize("kind", KINDS)
def test_it_finds_what_was_added(kind: Any) -> None:
    index, vectors = kind(16), rows(1, 50)
    index.add(labels(20), vectors[:20])
    index.add(labels(30, 20), vectors[20:])
    assert len(index) == 50
    for at, vector in enumerate(vectors):
        nearest = index.search(vector, 3)
        assert nearest[0].label == f"n{at}" and nearest[0].likeness == pytest.approx(1, abs=1e-5)
        assert [near.likeness for near in nearest] == sorted((n.likeness for n in nearest), reverse=True)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_near_in_an_empty_index(kind: Any) -> None:
    assert kind(16).search(rows(1, 1)[0], 5) == []
    assert len(kind.from_bytes(kind(16).to_bytes())) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_equally_near_ones_come_in_the_order_they_were_added(kind: Any) -> None:
    vectors = np.repeat(rows(1, 1), 5, axis=0)
    found = filled(kind, vectors).search(vectors[0], 3)
    assert [near.label for near in found] == ["n0", "n1", "n2"]


@given(st.integers(0, 10_000), st.integers(1, 300), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_both_give_the_same_answers(seed: int, number: int, k: int) -> None:
    vectors, asked = rows(seed, number), rows(seed + 1, 1)[0]
    assert filled(ExactIndex, vectors).search(asked, k) == filled(FaissIndex, vectors).search(asked, k)


def test_the_answer_is_that_of_comparing_all() -> None:
    vectors, asked = rows(5, 2_000), rows(6, 1)[0]
    wanted = np.argsort(-(vectors.astype(np.float64) @ asked), kind="stable")[:10]
    for kind in KINDS:
        assert [near.label for near in filled(kind, vectors).search(asked, 10)] == [f"n{at}" for at in wanted]


@pytest.mark.parametrize("writer", KINDS)
@pytest.mark.parametrize("reader", KINDS)
def test_what_one_wrote_the_other_reads(writer: Any, reader: Any) -> None:
    vectors = rows(3, 40)
    data = filled(writer, vectors).to_bytes()
    assert data == filled(reader, vectors).to_bytes()
    back = reader.from_bytes(data)
    assert back.labels == labels(40)
    assert back.search(vectors[7], 5) == filled(writer, vectors).search(vectors[7], 5)
    back.add(["more"], rows(4, 1))
    assert len(back) == 41


@pytest.mark.parametrize("kind", KINDS)
def test_every_altered_byte_is_found(kind: Any) -> None:
    data, chance = filled(kind, rows(3, 10)).to_bytes(), random.Random(1)
    for _ in range(300):
        at = chance.randrange(len(data))
        altered = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        for bad in (altered, data[:at], data + b"x"):
            with pytest.raises(VersionDamaged, match="not as it was written"):
                kind.from_bytes(bad)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff" * 8,
        (2).to_bytes(8, "little") + b"{}",
        (43).to_bytes(8, "little") + b'{"format":9,"dimensions":4,"labels":["a"]}  ',
        (42).to_bytes(8, "little") + b'{"format":1,"dimensions":4,"labels":["a"]}' + b"\0" * 15,
        (42).to_bytes(8, "little") + b'{"format":1,"dimensions":0,"labels":["a"]}' + b"\0" * 16,
    ],
)
def test_bytes_that_are_no_index_are_refused(kind: Any, body: bytes) -> None:
    with pytest.raises(LearningError):
        kind.from_bytes(stamped(body))


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_is_refused(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    index, vectors = filled(kind, rows(3, 10)), rows(4, 2)
    with pytest.raises(LearningError, match="promised"):
        index.add(["a"], vectors)
    with pytest.raises(LearningError, match="promised"):
        index.add(["a", "b"], rows(4, 2, 8))
    with pytest.raises(LearningError, match="finite"):
        index.add(["a", "b"], vectors * np.float32("nan"))
    with pytest.raises(LearningError, match="label"):
        index.add(["a" * 201, "b"], vectors)
    with pytest.raises(LearningError, match="finite"):
        index.search(vectors[0] * np.float32("inf"), 1)
    for k in (0, K_MAX + 1):
        with pytest.raises(LearningError, match="neighbours"):
            index.search(vectors[0], k)
    monkeypatch.setattr(index_module, "ROWS_MAX", 11)
    with pytest.raises(LearningError, match="at most 11"):
        index.add(["a", "b"], vectors)
    assert len(index) == 10


def test_without_faiss_exact_search_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    written = filled(new_index, rows(3, 10))
    assert isinstance(written, FaissIndex)
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert isinstance(new_index(), ExactIndex)
    read = index_from(written.to_bytes())
    assert isinstance(read, ExactIndex) and read.search(rows(3, 10)[4], 1)[0].label == "n4"
    with pytest.raises(LearningError, match=r"recoup\[learn\]"):
        FaissIndex()


def entry(words: str, identity: str) -> Entry:
    element = Element(tag="button", role="button", text=words)
    return Entry("s", "t", identity, element, "model", 0.9)


def state(*entries: Entry) -> State:
    return State({((one.step_id, one.target_digest), one.identity): one for one in entries})


def test_what_was_learned_is_proposed_by_what_it_is_like() -> None:
    known = state(entry("Approve invoice", "i1"), entry("Delete account", "i2"), entry("Log out", "i3"))
    index = index_of(known)
    asked = Element(tag="button", role="button", text="Approve the invoice")
    assert len(proposed(index, asked)) == 3
    assert [near.label for near in proposed(index, asked, k=1)] == ["i1"]


def test_an_index_is_brought_up_to_date_without_computing_all_of_it() -> None:
    one, two = entry("Approve invoice", "i1"), entry("Delete account", "i2")
    index = index_of(state(one, two), index_of(state(one)))
    assert index.to_bytes() == index_of(state(one, two)).to_bytes()
    assert len(index_of(State())) == 0
