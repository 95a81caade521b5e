"""Targets as people write them: one element, several, or none, and nothing in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.target_pages import changed, element, look_for, shop

from recoup.model.target import Element, Target
from recoup.targets.exact import find, no_longer_like
from recoup.targets.page import Page


def found(
    target: Target, elements: list[Element] | None = None, css: list[int] | None = None
) -> list[Element]:
    page = Page(shop() if elements is None else elements)
    return [page.elements[index] for index in find(target, page, css).indices]


@pytest.mark.parametrize(
    "target",
    [
        Target(role="button", name="Search"),
        Target(role="BUTTON", name="  search "),
        Target(role="button", text="Search"),
    ],
)
def test_role_and_name_find_the_one(target: Target) -> None:
    assert [e.id for e in found(target)] == ["go"]


def test_label_placeholder_and_test_id_find_the_field() -> None:
    assert [e.id for e in found(Target(label="Search"))] == ["q"]
    assert [e.id for e in found(Target(placeholder="Search articles"))] == ["q"]
    page = [element("button", "A", test_id="save"), element("button", "B", test_id="Save", path="/b[2]")]
    assert [e.text for e in found(Target(test_id="save"), page)] == ["A"]


def test_all_that_is_said_must_hold() -> None:
    assert found(Target(role="link", name="Search")) == []
    assert found(Target(role="textbox", name="Search", placeholder="Search articles", label="Other")) == []


def test_several_are_ambiguous_and_the_reason_says_what_to_add() -> None:
    made = look_for(Target(role="button", name="Remove"), shop())
    assert made.chosen is None
    assert made.reason == "target is ambiguous: 4 elements match. Narrow it with `inside`, `near` or `nth`"


@pytest.mark.parametrize("name", ["Lamp", "Chair", "Table", "Shelf"])
def test_inside_and_near_say_which(name: str) -> None:
    for target in (
        Target(role="button", name="Remove", inside=name),
        Target(role="button", name="Remove", near=name),
    ):
        assert [e.container for e in found(target)] == [name]


def test_inside_uses_the_smallest_container_also_where_none_was_collected() -> None:
    page = [changed(e, container="") for e in shop()]
    assert [e.neighbours for e in found(Target(role="button", name="Remove", inside="Chair"), page)] == [
        ("Chair",)
    ]
    assert found(Target(role="button", name="Remove", inside="Sofa"), page) == []


@given(st.integers(-6, 6))
def test_nth_counts_from_one_and_from_the_end(nth: int) -> None:
    names = ["Lamp", "Chair", "Table", "Shelf"]
    expected = [] if nth == 0 or abs(nth) > 4 else [names[nth - 1 if nth > 0 else nth]]
    assert [e.container for e in found(Target(role="button", name="Remove", nth=nth))] == expected


def test_css_is_what_the_browser_says() -> None:
    page = shop()
    assert found(Target(css="#go"), page, [page.index(e) for e in page if e.id == "go"])[0].id == "go"
    assert (
        found(Target(css=".btn", name="Remove", inside="Lamp"), page, list(range(len(page))))[0].container
        == "Lamp"
    )
    assert found(Target(css="#go"), page, [10_000, -3]) == []
    assert "was not asked" in look_for(Target(css="#go"), page).reason


def test_a_wrapper_that_fits_as_well_is_the_same_thing() -> None:
    page = [element("li", "Go", path="/ul[1]/li[1]"), element("a", "Go", path="/ul[1]/li[1]/a[1]")]
    assert [e.tag for e in found(Target(text="Go"), page)] == ["a"]


def test_an_element_of_another_frame_is_in_nothing_here() -> None:
    page = [element("li", "Go", path="/a[1]"), element("a", "Go", path="/a[1]/b[1]", frame=(0,))]
    assert len(found(Target(text="Go"), page)) == 2


def test_what_is_hidden_counts_only_where_nothing_else_fits() -> None:
    hidden = element("button", "Go", path="/a[1]", visible=False)
    assert found(Target(name="Go"), [hidden, element("button", "Go", path="/b[1]")])[0].visible
    assert found(Target(name="Go"), [hidden]) == [hidden]


def test_punctuation_counts() -> None:
    page = [element("button", "+", path="/a[1]"), element("button", "-", path="/b[1]")]
    assert [e.text for e in found(Target(name="-"), page)] == ["-"]


def test_an_exact_match_is_certain_and_no_heal() -> None:
    made = look_for(Target(role="button", name="Search"), shop())
    assert made.chosen is not None and made.chosen.confidence == 1.0
    assert made.strategy == "exact" and not made.healed and made.duration_ms > 0


def test_a_match_that_contradicts_the_record_is_not_taken() -> None:
    recorded = element("button", "Approve", path="/a[1]", id="b1")
    now = element("button", "Reject", path="/a[1]", id="b1")
    made = look_for(Target(css="#b1", recorded=recorded), [now], css_matches=[0])
    assert made.chosen is None
    assert "no longer looks like the recorded element" in made.reason
    assert "opposite" in made.reason


def test_a_match_that_looks_as_recorded_is_taken() -> None:
    recorded = element("button", "Approve order", path="/a[1]", id="b1")
    made = look_for(
        Target(css="#b1", recorded=recorded), [changed(recorded, text="Approve orders")], css_matches=[0]
    )
    assert made.chosen is not None and made.strategy == "exact"


def test_what_a_record_contradicts() -> None:
    was = element("button", "Save draft", path="/a[1]", container="Order 17")
    assert no_longer_like(was, was) == ""
    assert "says" in no_longer_like(was, changed(was, text="Continue", name="Continue"))
    assert "opposite" in no_longer_like(was, changed(was, text="Delete draft", name="Delete draft"))
    assert "was a button" in no_longer_like(was, changed(was, tag="input", role="textbox"))
    assert "was in" in no_longer_like(was, changed(was, container="Newsletter"))
    assert no_longer_like(was, changed(was, text="Continue", name="Continue"), trusted=True) == ""
    assert no_longer_like(was, changed(was, text="Delete draft", name="Delete draft"), trusted=True)


def test_of_several_that_fit_the_recorded_one_is_taken() -> None:
    page = shop()
    recorded = next(e for e in page if e.text == "Remove" and e.container == "Table")
    made = look_for(Target(role="button", name="Remove", recorded=recorded), page)
    assert made.chosen is not None
    assert made.chosen.element == recorded


def test_a_field_is_found_by_the_label_that_aria_gives_it() -> None:
    fields = [
        Element(tag="input", role="textbox", name="Amount", id="aria"),
        Element(tag="input", role="textbox", name="Amount", label="Sum", id="both"),
        Element(tag="input", role="textbox", name="Hint", placeholder="Hint", id="placeholder"),
        Element(tag="input", role="textbox", name="Title", title="Title", id="title"),
        Element(tag="input", role="button", name="Send", type="submit", id="button"),
        Element(tag="div", role="textbox", name="Note", id="editable"),
        Element(tag="h2", role="heading", name="Amount", text="Amount", id="heading"),
    ]

    def labelled(words: str) -> list[str]:
        return [fields[index].id for index in find(Target(label=words), Page(fields)).indices]

    assert labelled("Amount") == ["aria", "both"]
    assert (labelled("Sum"), labelled("Note")) == (["both"], ["editable"])
    assert labelled("Hint") == labelled("Title") == labelled("Send") == []
