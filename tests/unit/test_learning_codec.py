"""What a workflow remembers becomes bytes and comes back, in the same order, or is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.errors import LearningError, VersionDamaged
from recoup.learning import codec
from recoup.learning.codec import decode_found, decode_memory, encode_found, encode_memory
from recoup.model.memory import Entry, Found, State
from recoup.model.target import Box, Element

WORD = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ELEMENT = st.builds(
    Element,
    tag=WORD,
    text=WORD,
    classes=st.lists(WORD, max_size=2).map(tuple),
    attributes=st.dictionaries(WORD, WORD, max_size=2),
    box=st.builds(Box, *[st.floats(allow_nan=False, allow_infinity=False)] * 4),
)
ENTRY = st.builds(
    Entry,
    step_id=WORD,
    target_digest=WORD,
    identity=WORD,
    element=ELEMENT,
    origin=WORD,
    confidence=st.floats(0, 1),
    successes=st.integers(0, 99),
    failures=st.integers(0, 99),
)
STATE = st.builds(
    State,
    st.lists(ENTRY, max_size=6).map(
        lambda all_: {((e.step_id, e.target_digest), e.identity): e for e in all_}
    ),
    st.dictionaries(st.tuples(WORD, WORD), st.frozensets(WORD, max_size=3), max_size=4),
)
ONE = Entry("s", "t", "i", Element(tag="a"), "model", 0.9)


@given(STATE)
def test_a_memory_comes_back_in_the_same_order(state: State) -> None:
    back = decode_memory(encode_memory(state))
    assert back == state
    assert list(back.entries) == list(state.entries) and list(back.forbidden) == list(state.forbidden)


@given(STATE)
def test_the_same_memory_is_the_same_bytes(state: State) -> None:
    assert encode_memory(decode_memory(encode_memory(state))) == encode_memory(state)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[1]", b"\xff\xfe", b'{"format":1,"entries":[{}],"forbidden":[]}', b'{"format":"1"}'],
)
def test_what_is_no_memory_is_refused(data: bytes) -> None:
    with pytest.raises(VersionDamaged, match="no memory of targets"):
        decode_memory(data)


def test_a_newer_format_is_said_to_be_newer() -> None:
    with pytest.raises(VersionDamaged, match="format 2, and format 1 is understood"):
        decode_memory(b'{"format":2,"entries":[],"forbidden":[]}')


def test_a_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State({(("s", "t"), "i"): ONE}, {})
    data = encode_memory(state)
    monkeypatch.setattr(codec, "COMPONENT_BYTES_MAX", len(data) - 1)
    with pytest.raises(LearningError, match="bytes"):
        encode_memory(state)
    monkeypatch.setattr(codec, "ENTRIES_MAX", 0)
    for refused in (lambda: encode_memory(state), lambda: decode_memory(data)):
        with pytest.raises(LearningError, match="1 entries"):
            refused()


@given(
    st.dictionaries(st.tuples(WORD, WORD), st.lists(st.integers(0, 10**6)).map(tuple)),
)
def test_how_long_slow_targets_took_comes_back(took_ms: dict[tuple[str, str], tuple[int, ...]]) -> None:
    found = Found(took_ms=took_ms)
    assert decode_found(encode_found(found)) == found


def test_what_was_stored_before_targets_were_timed_is_still_understood() -> None:
    assert decode_found(b'{"format":1,"observed":[],"healed":[]}') == Found()
