"""Evidence that no likeness outweighs: each veto alone, with what it must not stop beside it."""

from __future__ import annotations

import pytest

from recoup.model.target import Box, Element
from recoup.targets.features import Wanted
from recoup.targets.page import Page
from recoup.targets.vetoes import vetoes


def a_button(text: str, **more: object) -> Element:
    what = {"tag": "button", "role": "button", "text": text, "box": Box(10, 10, 80, 20), **more}
    return Element(**what)  # type: ignore[arg-type]


def against(was: Element, now: Element) -> str:
    page = Page([now, a_button("Something else", xpath="/html/body/button[9]")])
    return "; ".join(vetoes(Wanted(was, page), page, 0))


@pytest.mark.parametrize(
    ("was", "now", "is_stopped"),
    [
        ("Edit profile", "Edit permissions", True),
        ("Invoice 1001", "Invoice 1002", True),
        ("Save", "Save now", False),
        ("Save all changes", "Save changes", False),
        ("Edit profile", "Edit profiles", False),
        ("Take a tour", "Take the tour", False),
        ("Terms and conditions", "Terms & conditions", False),
        ("Log in", "Sign in", False),
    ],
)
def test_a_word_in_place_of_another_makes_it_another_thing(was: str, now: str, is_stopped: bool) -> None:
    told = against(a_button(was, xpath="/html/body/button[1]"), a_button(now, xpath="/html/body/p/button[2]"))
    assert ("in place of" in told) is is_stopped


def test_a_key_that_both_have_outweighs_exchanged_words() -> None:
    was, now = a_button("Edit profile", test_id="edit"), a_button("Edit account", test_id="edit")
    assert not against(was, now)


@pytest.mark.parametrize(
    ("was", "now", "is_stopped"),
    [
        ("INV-1001 20.00 EUR", "INV-1002 35.00 EUR", True),
        ("Ada Lovelace", "Grace Hopper", True),
        ("INV-1001 20.00 EUR", "INV-1001 20.00 EUR", False),
        ("INV-1001 20.00 EUR", "INV-1001 20.00 EUR overdue", False),
        ("Annual plan for teams", "Annual plan for all teams", False),
        ("", "INV-1002 35.00 EUR", False),
    ],
)
def test_the_same_button_of_another_row_is_another_button(was: str, now: str, is_stopped: bool) -> None:
    told = against(
        a_button("Approve", container=was, test_id="approve"),
        a_button("Approve", container=now, test_id="approve"),
    )
    assert ("it was in" in told) is is_stopped


def test_a_link_does_the_same_in_whatever_row_it_is() -> None:
    link = {"tag": "a", "role": "link", "text": "Help", "href": "/help"}
    was = Element(container="Monday", **link)  # type: ignore[arg-type]
    now = Element(container="Tuesday", **link)  # type: ignore[arg-type]
    assert not against(was, now)


@pytest.mark.parametrize(
    ("now", "is_stopped"),
    [
        (Element(tag="strong", text="Approve", ancestors=("paragraph", "main")), True),
        (Element(tag="strong", text="Approve", ancestors=("button", "main")), False),
        (Element(tag="li", role="menuitem", text="Approve", ancestors=("list", "main")), False),
        (Element(tag="div", text="Approve", ancestors=("main",)), False),
        (Element(tag="strong", text="Approve"), False),
    ],
)
def test_words_without_their_control_are_only_to_be_read(now: Element, is_stopped: bool) -> None:
    assert ("only to be read" in against(a_button("Approve"), now)) is is_stopped


def test_what_stood_beside_the_target_is_not_taken_for_it() -> None:
    was = a_button("Search", neighbours=("Search stores", "Help"))
    assert "stood beside" in against(was, a_button("Search stores", xpath="/html/body/p/button[2]"))
    assert not against(was, a_button("Search lamps", xpath="/html/body/p/button[2]"))
    named = a_button("Search", neighbours=("Search stores",), test_id="search")
    assert not against(named, a_button("Search stores", test_id="search")), (
        "a key that both have outweighs it"
    )
