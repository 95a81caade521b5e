"""`near` and `inside`: words choose an element only where they are about it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.target_pages import element, look_for

from recoup.model.target import Element, Target
from recoup.targets.wording import holds

BODY = "/html[1]/body[1]/main[1]"


def table(*names: str, heading: str = "", tag: str = "tr") -> list[Element]:
    """A row for each name, with a button; rows of other tags than `tr` are not known to be rows."""
    page = [element("h2", heading, at=(10, 60), path=f"{BODY}/h2[1]")] if heading else []
    for number, name in enumerate(names, 1):
        row, top = f"{BODY}/div[1]/{tag}[{number}]", 100 + 40 * number
        words = f"{name} 100 EUR Approve"
        if tag == "tr":
            page.append(element("tr", words, at=(10, top), path=row))
        container = name if tag == "tr" else ""
        page.append(element("td", name, at=(10, top), path=f"{row}/td[1]", container=container))
        page.append(
            element("button", "Approve", at=(300, top), path=f"{row}/td[2]/button[1]", container=container)
        )
    return page


def row_of(page: list[Element], **said: Any) -> str | None:
    """The path of the row whose button is taken."""
    made = look_for(Target(role="button", name="Approve", **said), page)
    return made.chosen.element.xpath.split("/td")[0] if made.chosen else None


@pytest.mark.parametrize(("key", "tag"), [("near", "tr"), ("near", "div"), ("inside", "tr")])
def test_the_row_with_the_words_is_taken(key: str, tag: str) -> None:
    page = table("INV-1", "INV-2", "INV-3", tag=tag)
    assert row_of(page, **{key: "INV-2"}) == f"{BODY}/div[1]/{tag}[2]"


@pytest.mark.parametrize("tag", ["tr", "div"])
def test_the_same_words_above_the_rows_choose_none_of_them(tag: str) -> None:
    """A search shows what was looked for above what it has found."""
    page = table("INV-1001", "INV-1004", "INV-1007", heading="Found: INV-1004", tag=tag)
    assert row_of(page, near="INV-1004") == f"{BODY}/div[1]/{tag}[2]"
    page = table("INV-1001", "INV-1007", heading="Nothing found for INV-1004", tag=tag)
    assert row_of(page, near="INV-1004") is None


def test_words_that_are_not_on_the_page_choose_nothing_also_where_one_element_is_left() -> None:
    for key in ("near", "inside"):
        said: dict[str, Any] = {key: "INV-1004"}
        made = look_for(Target(role="button", name="Approve", **said), table("INV-2000"))
        assert made.chosen is None
        assert made.reason == f"1 element matches without `{key}`, but 'INV-1004' is not on the page"


def test_words_of_another_row_choose_nothing() -> None:
    page = table("INV-2000", heading="Instead of INV-1004")
    made = look_for(Target(role="button", name="Approve", near="INV-1004"), page)
    assert made.chosen is None
    assert "'INV-1004' is not in the row or item of one of them" in made.reason


@pytest.mark.parametrize("key", ["near", "inside"])
def test_part_of_a_word_is_not_the_word(key: str) -> None:
    assert row_of(table("INV-100", "INV-20"), **{key: "INV-10"}) is None
    assert row_of(table("INV-100", "INV-10"), **{key: "INV-10"}) == f"{BODY}/div[1]/tr[2]"


def test_words_in_two_rows_are_ambiguous() -> None:
    page = table("Acme INV-1", "Acme INV-2")
    made = look_for(Target(role="button", name="Approve", near="Acme"), page)
    assert made.chosen is None and "2 elements match" in made.reason


@pytest.mark.parametrize("key", ["near", "inside"])
def test_a_recorded_target_is_not_healed_into_another_row(key: str) -> None:
    before, now = table("INV-1", "INV-2", "INV-3"), table("INV-1", "INV-3")
    said: dict[str, Any] = {key: "INV-2"}
    target = Target(role="button", name="Approve", recorded=before[5], **said)
    assert look_for(target, before).chosen is not None
    made = look_for(target, now)
    assert made.chosen is None, made.reason


def test_a_button_in_a_list_of_its_own_belongs_to_its_row() -> None:
    page = table("INV-1", "INV-2")
    toolbar = f"{BODY}/div[1]/tr[2]/td[2]/ul[1]/li[1]"
    page.append(element("li", "Refuse", at=(400, 180), path=toolbar))
    page.append(element("button", "Refuse", at=(400, 180), path=f"{toolbar}/button[1]", container="INV-2"))
    for words, found in (("INV-2", True), ("INV-1", False)):
        made = look_for(Target(role="button", name="Refuse", near=words), page)
        assert (made.chosen is not None) is found


def test_beside_headings_without_rows_the_nearest_is_meant() -> None:
    page = [
        element("h2", "Billing", at=(10, 10), path=f"{BODY}/h2[1]"),
        element("a", "Edit", at=(200, 10), path=f"{BODY}/a[1]"),
        element("h2", "Shipping", at=(10, 100), path=f"{BODY}/h2[2]"),
        element("a", "Edit", at=(200, 100), path=f"{BODY}/a[2]"),
    ]
    for words, path in (("Billing", "a[1]"), ("Shipping", "a[2]")):
        made = look_for(Target(role="link", name="Edit", near=words), page)
        assert made.chosen is not None and made.chosen.element.xpath.endswith(path)


def test_words_far_away_say_nothing() -> None:
    page = [
        element("h2", "Billing", at=(10, 10), path=f"{BODY}/h2[1]"),
        element("a", "Edit", at=(200, 900), path=f"{BODY}/div[1]/a[1]"),
    ]
    assert look_for(Target(role="link", name="Edit", near="Billing"), page).chosen is None


@pytest.mark.parametrize(
    ("words", "text", "held"),
    [
        ("INV-10", "Invoice INV-10, due today.", True),
        ("INV-10", "(INV-10)", True),
        ("INV-10", "INV-10.", True),
        ("inv-10", "INV-10", True),
        ("INV-10", "INV-100", False),
        ("INV-10", "INV-10-B", False),
        ("INV-10", "XINV-10", False),
        ("10", "INV-10", False),
        ("100", "1,100 EUR", False),
        ("100", "100.50 EUR", False),
        ("100 EUR", "Total: 100 EUR", True),
        ("example.com", "ann@example.com", False),
        ("注文", "注文一覧", True),
        ("+", "a + b", True),
        ("", "anything", False),
    ],
)
def test_words_are_whole(words: str, text: str, held: bool) -> None:
    assert holds(words, text) is held


@given(
    st.text("ab1-. ", min_size=1, max_size=6), st.text("ab1-. ", max_size=8), st.text("ab1-. ", max_size=8)
)
def test_words_between_spaces_are_held_and_what_is_held_is_there(words: str, before: str, after: str) -> None:
    if words.split():
        assert holds(words, f"{before} {words} {after}")
    if holds(words, before + after):
        assert " ".join(words.split()) in " ".join((before + after).split())


@given(st.permutations(range(1, 8)), st.integers(1, 7), st.sampled_from(["tr", "div"]), st.booleans())
def test_wherever_a_row_stands_its_own_button_is_taken(
    order: list[int], wanted: int, tag: str, is_searched: bool
) -> None:
    heading = f"Results for INV-{wanted}" if is_searched else ""
    page = table(*(f"INV-{number}" for number in order), heading=heading, tag=tag)
    assert row_of(page, near=f"INV-{wanted}") == f"{BODY}/div[1]/{tag}[{order.index(wanted) + 1}]"
