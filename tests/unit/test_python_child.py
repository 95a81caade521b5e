"""What happens in the process of a Python step, without the process: arguments in, outputs out."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from recoup.runtimes.python_child import DEPTH_MAX, Refused, Unsayable, argument_problems, bound, outputs_text

LIMIT_BYTES = 65_536


class Point(BaseModel):
    x: int


@dataclasses.dataclass
class Line:
    amount: float


class Colour(enum.Enum):
    RED = "red"


class Name(str):
    __slots__ = ()


class Closable(Protocol):
    def close(self) -> None: ...


def outputs(value: Any) -> Any:
    return json.loads(outputs_text(value, LIMIT_BYTES))


def called(function: Callable[..., Any], **arguments: Any) -> Any:
    args, named = bound(function, arguments, "module:function")
    return function(*args, **named)


# Outputs

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_any_json_value_comes_out_as_it_went_in(value: Any) -> None:
    assert outputs({"it": value}) == {"it": value}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, {}),
        ({}, {}),
        (0, {"result": 0}),
        ("", {"result": ""}),
        ((1, (True,)), {"result": [1, [True]]}),
        (Path("a/b"), {"result": "a/b"}),
        (datetime.date(2026, 11, 15), {"result": "2026-11-15"}),
        (
            {"a": Line(1.5), "b": Point(x=1), "c": Colour.RED},
            {"a": {"amount": 1.5}, "b": {"x": 1}, "c": "red"},
        ),
        ({Name("key-1"): Name("x")}, {"key-1": "x"}),
    ],
)
def test_a_dict_is_told_by_its_keys_and_anything_else_as_the_result(value: Any, told: Any) -> None:
    assert outputs(value) == told


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [{"b": object()}]}, "a[0].b is a object, which cannot be written as JSON"),
        ({"seen": {1, 2}}, "seen is a set"),
        (b"bytes", "result is a bytes"),
        ({"x": float("nan")}, "x is nan"),
        ({"x": [float("inf")]}, "x[0] is inf"),
        ({"x": 2**60}, "x is a number that JSON cannot carry exactly"),
        ({"x": {1: 2}}, "x has the key 1, a int"),
        ({"total amount": 1}, "the key 'total amount' is no name"),
        ({3: 1}, "the key 3 is no name"),
        ({"-x": 1}, "the key '-x' is no name"),
        ("\ud800", "result is text that is not Unicode"),
        ({"x": {"\ud800": 1}}, "x is text that is not Unicode"),
        (_circle(), f"nested deeper than {DEPTH_MAX}"),
        ("x" * LIMIT_BYTES, f"over outputs_bytes_max ({LIMIT_BYTES})"),
        ((one for one in [1]), "result is a generator"),
        ({"f": len}, "f is a builtin_function_or_method"),
    ],
)
def test_what_cannot_be_an_output_is_named_with_its_place(value: Any, words: str) -> None:
    with pytest.raises(Unsayable) as refused:
        outputs_text(value, LIMIT_BYTES)
    assert words in str(refused.value)


# Arguments


@pytest.mark.parametrize(
    ("hint", "given_value", "taken"),
    [
        (int, "5", 5),
        (int, 5, 5),
        (float, "0.5", 0.5),
        (bool, "true", True),
        (str, "5", "5"),
        (int | None, None, None),
        (int | str, "5", "5"),
        (str | None, "null", "null"),
        (Path, "a/b", Path("a/b")),
        (Colour, "red", Colour.RED),
        (list[Line], [{"amount": "1.5"}], [Line(1.5)]),
        (Point, {"x": 1}, Point(x=1)),
        (tuple[int, ...], [1, 2], (1, 2)),
        (datetime.date, "2026-11-15", datetime.date(2026, 11, 15)),
        (Literal["a", "b"], "b", "b"),
        ("int", "5", 5),
        ("list[Line]", [{"amount": 1}], [Line(1)]),
        ("NotImportedHere", "x", "x"),
        (Closable, "x", "x"),
        (Any, {"x": 1}, {"x": 1}),
    ],
)
def test_an_argument_becomes_what_the_function_asks_for(hint: Any, given_value: Any, taken: Any) -> None:
    def function(it: Any) -> Any:
        return it

    function.__annotations__ = {"it": hint}
    got = called(function, it=given_value)
    assert (got, type(got)) == (taken, type(taken))


@pytest.mark.parametrize(
    ("hint", "given_value", "words"),
    [
        (int, "many", "Expected `int`, got `str`"),
        (str, 5, "Expected `str`, got `int`"),
        (int, None, "Expected `int`, got `null`"),
        (list[Line], [{"amount": "x"}], "Expected `float`, got `str` - at `$[0].amount`"),
        (Point, {"x": "y"}, "validation error"),
        (Exception, {}, "Exception cannot be made from what a plan can hold"),
        (Callable, "x", "Callable cannot be made from what a plan can hold"),
        (Path, 3, "cannot be made from what a plan can hold"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_name(hint: Any, given_value: Any, words: str) -> None:
    def function(it: Any) -> Any:
        return it

    function.__annotations__ = {"it": hint}
    with pytest.raises(Refused) as refused:
        called(function, it=given_value)
    assert "module:function cannot be called: the argument 'it': " in str(refused.value)
    assert words in str(refused.value)


def by_place(a: Any, b: Any = 2, /, c: Any = 3, *rest: Any, d: Any, e: Any = 5, **more: Any) -> Any:
    return [a, b, c, rest, d, e, more]


@functools.wraps(by_place)
def wrapped(*args: Any, **named: Any) -> Any:
    return by_place(*args, **named)


@pytest.mark.parametrize("function", [by_place, wrapped])
def test_arguments_are_given_by_name_whatever_way_the_function_takes_them(
    function: Callable[..., Any],
) -> None:
    assert called(function, a=1, d=4) == [1, 2, 3, (), 4, 5, {}]
    assert called(function, a=1, c=9, d=4, x=7) == [1, 2, 9, (), 4, 5, {"x": 7}]
    assert argument_problems(function, {"a": 1}) == ["the argument 'd' is missing"]


def test_a_class_a_partial_and_a_function_in_c_can_be_called() -> None:
    assert called(Line, amount=1) == Line(1)
    assert called(functools.partial(by_place, 1), d=4) == [1, 2, 3, (), 4, 5, {}]
    assert called(dict, a=1) == {"a": 1}


def test_what_is_missing_and_what_is_unknown_is_said_at_once() -> None:
    def function(customer: str, month: str = "") -> None: ...

    assert argument_problems(function, {"town": "Ulm"}) == [
        "the argument 'customer' is missing",
        "there is no argument 'town' (it takes customer, month)",
    ]
