"""Vectors: the same bits everywhere, near where words are alike, and nothing to be read in them."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.learning.vectors import (
    DIMENSIONS,
    ELEMENTS_MAX,
    SCREEN_DIMENSIONS,
    layout_of,
    likeness,
    of_element,
    of_screen,
)
from recoup.model.target import Box, Element, plain

APPROVE = Element(
    tag="button",
    role="button",
    text="Approve invoice",
    id="approve",
    classes=("btn", "primary"),
    container="Invoice 17",
    ancestors=("form", "main"),
)
WORDS = st.text(max_size=30)
ELEMENTS = st.builds(
    Element,
    tag=st.sampled_from(["a", "button", "input"]),
    role=st.sampled_from(["link", "button", "textbox", ""]),
    text=WORDS,
    id=WORDS,
    href=WORDS,
    container=WORDS,
    box=st.builds(Box, *[st.floats(-1e4, 1e4)] * 4),
)
GOLDEN = "f5f11eb8500635ab"


def test_the_same_words_are_the_same_bits_on_every_machine() -> None:
    data = (
        of_element(APPROVE).astype("<f4").tobytes()
        + of_screen("Ünïcode ∑", [APPROVE]).astype("<f4").tobytes()
    )
    assert hashlib.sha256(data).hexdigest()[:16] == GOLDEN


def by_hand(field: str, text: str) -> list[float]:
    """The same arithmetic on Python's own numbers."""
    counts = [0] * SCREEN_DIMENSIONS
    told = f"\x02{text}\x02"
    for length in (3, 4):
        seed = 0xCBF29CE484222325
        for byte in f"{field}:{length}".encode():
            seed = (seed ^ byte) * 0x100000001B3 % 2**64
        for start in range(len(told) - length + 1):
            mixed = seed
            for letter in told[start : start + length]:
                mixed = (mixed ^ ord(letter)) * 0x9E3779B97F4A7C15 % 2**64
            mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
            mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
            mixed ^= mixed >> 31
            counts[mixed % SCREEN_DIMENSIONS] += 1 if mixed >> 63 else -1
    total = sum(map(abs, counts))
    return [math.copysign(math.sqrt(abs(count) / total), count) if count else 0.0 for count in counts]


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80).map(plain).filter(str.strip)
)
def test_the_arithmetic_is_that_of_whole_numbers(title: str) -> None:
    assert np.array_equal(of_screen(title, []), np.array(by_hand("title", plain(title)), np.float32))


def test_another_process_with_other_hashes_makes_the_same_vector() -> None:
    code = (
        "from recoup.learning.vectors import of_element; from recoup.model.target import Element;"
        "print(of_element(Element(tag='a', text='Füße, 12 items')).tobytes().hex())"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert told == {of_element(Element(tag="a", text="Füße, 12 items")).tobytes().hex()}


@given(ELEMENTS)
def test_a_vector_has_length_one_and_is_most_like_itself(element: Element) -> None:
    vector = of_element(element)
    assert vector.shape == (DIMENSIONS,) and vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    assert likeness(vector, vector) == pytest.approx(1, abs=1e-5)


@given(st.text(max_size=50), st.lists(ELEMENTS, max_size=10))
def test_a_screen_has_length_one_or_says_nothing(title: str, elements: list[Element]) -> None:
    length = np.linalg.norm(of_screen(title, elements))
    assert length == pytest.approx(1, abs=1e-5) or length == 0
    assert of_screen(title, elements).shape == (SCREEN_DIMENSIONS,)


@given(st.lists(ELEMENTS, max_size=8))
def test_the_order_of_elements_says_nothing(elements: list[Element]) -> None:
    assert np.array_equal(of_screen("t", elements), of_screen("t", elements[::-1]))


@given(ELEMENTS, st.builds(Box, *[st.floats(0, 1e4)] * 4))
def test_where_it_lies_is_not_what_it_is(element: Element, box: Box) -> None:
    from msgspec.structs import replace

    assert np.array_equal(of_element(element), of_element(replace(element, box=box, xpath="/html/x")))


def test_words_that_are_alike_are_near() -> None:
    from msgspec.structs import replace

    def near(**changed: object) -> float:
        return likeness(of_element(APPROVE), of_element(replace(APPROVE, **changed)))

    assert near(text="Approve this invoice") > near(text="Approve") > near(text="Delete account")
    assert near(text="APPROVE  invoice") == pytest.approx(1, abs=1e-5)


def test_fields_are_told_apart() -> None:
    assert (
        likeness(of_element(Element(tag="", id="approve")), of_element(Element(tag="", href="approve"))) < 0.5
    )


def test_lone_surrogates_and_long_texts_are_taken_as_they_come() -> None:
    assert np.isfinite(of_element(Element(tag="a", text="\ud800" * 3))).all()
    cut = of_element(Element(tag="a", text="x" * 500))
    assert np.array_equal(cut, of_element(Element(tag="a", text="x" * 100_000)))


def test_a_screen_has_no_more_elements_than_tell_something() -> None:
    many = [Element(tag="a", role="link", text=f"entry {n}") for n in range(ELEMENTS_MAX + 5)]
    assert np.array_equal(of_screen("t", many), of_screen("t", many[:ELEMENTS_MAX]))


def test_what_cannot_be_acted_on_tells_nothing() -> None:
    hidden = Element(tag="button", role="button", text="Pay", visible=False)
    text = Element(tag="p", text="Pay")
    assert np.array_equal(of_screen("t", [hidden, text]), of_screen("t", []))


def test_a_layout_says_where_things_lie() -> None:
    page = Box(0, 0, 800, 800)

    def at(x: float, y: float) -> Element:
        return Element(tag="a", role="link", box=Box(x, y, 10, 10))

    top, same, bottom = (layout_of([at(*where)], page) for where in ((20, 20), (40, 40), (700, 700)))
    assert likeness(top, same) == pytest.approx(1, abs=1e-5)
    assert likeness(top, bottom) == 0
    assert layout_of([at(-50, 5_000)], page).sum() == 1, "also what lies outside the page"
    assert not layout_of([], Box(0, 0, 0, 0)).any()
