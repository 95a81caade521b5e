"""Canonical JSON: one value, one text, one digest."""

from __future__ import annotations

import json
import struct
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.canonical import DEPTH_MAX, canonical_json, digest, digest_of_texts
from recoup.model.policy import Policy

EXACT = 2**53
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-EXACT, EXACT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
documents = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)

# RFC 8785, appendix B: the bits of a double and how it is written.
NUMBERS = {
    0x0000000000000000: "0",
    0x8000000000000000: "0",
    0x0000000000000001: "5e-324",
    0x8000000000000001: "-5e-324",
    0x7FEFFFFFFFFFFFFF: "1.7976931348623157e+308",
    0xFFEFFFFFFFFFFFFF: "-1.7976931348623157e+308",
    0x4340000000000000: "9007199254740992",
    0xC340000000000000: "-9007199254740992",
    0x4430000000000000: "295147905179352830000",
    0x44B52D02C7E14AF5: "9.999999999999997e+22",
    0x44B52D02C7E14AF6: "1e+23",
    0x44B52D02C7E14AF7: "1.0000000000000001e+23",
    0x444B1AE4D6E2EF4E: "999999999999999700000",
    0x444B1AE4D6E2EF4F: "999999999999999900000",
    0x444B1AE4D6E2EF50: "1e+21",
    0x3EB0C6F7A0B5ED8C: "9.999999999999997e-7",
    0x3EB0C6F7A0B5ED8D: "0.000001",
    0x41B3DE4355555553: "333333333.3333332",
    0x41B3DE4355555554: "333333333.33333325",
    0x41B3DE4355555555: "333333333.3333333",
    0x41B3DE4355555556: "333333333.3333334",
    0x41B3DE4355555557: "333333333.33333343",
    0xBECBF647612F3696: "-0.0000033333333333333333",
    0x43143FF3C1CB0959: "1424953923781206.2",
}


@pytest.mark.parametrize(("bits", "written"), NUMBERS.items())
def test_doubles_are_written_as_the_rfc_lists_them(bits: int, written: str) -> None:
    (number,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    assert canonical_json(number) == written.encode()


def test_keys_are_ordered_by_utf16_code_units_as_the_rfc_shows() -> None:
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    ordered = list(json.loads(canonical_json(dict.fromkeys(keys, 0))))
    assert ordered == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


def test_the_rfc_sample_object_is_written_as_shown() -> None:
    sample = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    assert canonical_json(sample).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_control_characters_are_escaped_and_nothing_else() -> None:
    assert canonical_json("\b\t\n\f\r\x1f\x7f/é") == b'"\\b\\t\\n\\f\\r\\u001f\x7f/\xc3\xa9"'


@given(st.dictionaries(texts, leaves, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(document: dict[str, Any], random: Any) -> None:
    items = list(document.items())
    random.shuffle(items)
    assert canonical_json(dict(items)) == canonical_json(document)


@given(documents)
def test_reading_and_writing_again_changes_nothing(document: Any) -> None:
    written = canonical_json(document)
    assert canonical_json(json.loads(written)) == written


@given(documents, documents)
def test_texts_are_equal_exactly_when_the_values_are(one: Any, other: Any) -> None:
    assert (canonical_json(one) == canonical_json(other)) == same(one, other)
    assert (digest(one) == digest(other)) == same(one, other)


def same(one: Any, other: Any) -> bool:
    """Equal as JSON values: unlike in Python, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_reads_back_as_itself(number: float) -> None:
    assert float(canonical_json(number)) == number


@given(st.integers())
def test_an_integer_is_written_in_full_or_refused(number: int) -> None:
    try:
        written = canonical_json(number)
    except ValueError:
        assert abs(number) > EXACT
    else:
        assert int(written) == number


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "nan is not a JSON number"),
        (float("-inf"), "-inf is not a JSON number"),
        (EXACT + 1, "beyond 2^53"),
        (-(10**400), "beyond 2^53"),
        ("\ud800", "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
        ("\ud83d\ude00", "lone surrogate"),
        ({1: "one"}, "the key 1 is not text"),
        ({"a": 1, None: 2}, "the key None is not text"),
        (b"bytes", "bytes has no JSON form"),
        ({1, 2}, "set has no JSON form"),
        (object(), "object has no JSON form"),
    ],
)
def test_what_json_cannot_say_is_refused_with_a_reason(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match="canonical JSON: ") as refused:
        canonical_json(value)
    assert words in str(refused.value)


def test_nesting_has_a_limit() -> None:
    assert canonical_json(nested(DEPTH_MAX)).startswith(b"[[")
    with pytest.raises(ValueError, match="nested deeper"):
        canonical_json(nested(DEPTH_MAX + 1))
    with pytest.raises(ValueError, match="nested deeper"):
        canonical_json(nested(50_000))


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Sample(msgspec.Struct, frozen=True, rename="camel"):
    some_name: str
    by_code: dict[int, Colour]
    sizes: tuple[Size, ...] = ()


def test_structs_and_enums_count_as_their_plain_form() -> None:
    sample = Sample("x", {10: Colour.RED, 9: Colour.RED}, (Size.BIG,))
    plain = {"someName": "x", "byCode": {"9": "red", "10": "red"}, "sizes": [3]}
    assert canonical_json(sample) == canonical_json(plain)
    assert canonical_json({Colour.RED: [sample, Size.BIG]}) == canonical_json({"red": [plain, 3]})


def test_a_digest_names_its_algorithm_and_tells_policies_apart() -> None:
    assert digest({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert digest(Policy()) == digest(Policy())
    assert digest(Policy()) != digest(Policy(step_max_attempts=4))


_texts = st.dictionaries(st.text(st.characters(codec="ascii"), max_size=8), st.text(max_size=20), max_size=6)


@given(_texts)
def test_the_quick_digest_of_texts_is_the_digest(value: dict[str, str]) -> None:
    document = {"action": {"type": "run", "command": "x"}, "env": value}
    assert digest_of_texts(document) == digest(document)


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


class Items(list[Any]):
    pass


@pytest.mark.parametrize(
    ("special", "plain"),
    [
        (Text("a"), "a"),
        (Number(7), 7),
        (Real(0.5), 0.5),
        (Items([1]), [1]),
        (MappingProxyType({"b": 1, "a": 2}), {"a": 2, "b": 1}),
    ],
)
def test_a_kind_of_a_plain_value_is_written_as_the_plain_value(special: Any, plain: Any) -> None:
    assert canonical_json(special) == canonical_json(plain)


def test_a_struct_that_holds_what_has_no_form_is_refused_by_its_name() -> None:
    class Holder(msgspec.Struct):
        inside: Any

    with pytest.raises(ValueError, match="canonical JSON: Holder has no JSON form"):
        canonical_json(Holder(object()))
