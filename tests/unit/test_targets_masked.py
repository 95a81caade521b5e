"""Records mask what looks like a secret; that changes no match."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from recoup.model.outcome import Looking
from recoup.model.redacted import MASKS
from recoup.model.target import Box, Element, Floors, Resolution, Target
from recoup.redaction.elements import recorded_elements
from recoup.redaction.registration import environment_redactor
from recoup.targets.resolver import PageResolver

TOKEN = "ghp" + "_" + "a1B2c3D4e5" * 3 + "f6G7h8"
OTHER = "ghp" + "_" + "Z9y8X7w6V5" * 3 + "u4T3s2"
AS_RECORDED = partial(recorded_elements, environment_redactor({}))


def row(token: str, number: int) -> Element:
    """A button in a row whose words are a token."""
    return Element(
        tag="button",
        role="button",
        name="Revoke",
        text="Revoke",
        container=f"Key {token}",
        neighbours=(token,),
        xpath=f"/html/body/table/tr[{number}]/td/button",
        box=Box(10, 40 * number, 80, 30),
    )


def found(target: Target, *elements: Element, resolver: PageResolver | None = None) -> Resolution:
    asked = resolver or PageResolver(AS_RECORDED)
    return asked.resolve(target, elements, Looking(floors=Floors(0.72, 0.1)), None)


def recorded(element: Element) -> Element:
    (masked,) = AS_RECORDED([element])
    assert TOKEN.encode() not in msgspec.json.encode(masked)
    return masked


def test_an_element_that_is_named_by_masked_words_is_still_found_to_the_letter() -> None:
    link = Element(tag="a", role="link", name=TOKEN, text=TOKEN)
    target = Target(role="link", name=TOKEN, recorded=recorded(link))
    made = found(target, Element(tag="a", role="link", name="Home", text="Home"), link)
    assert made.chosen is not None and made.strategy == "exact"
    assert made.chosen.element == link, "what was chosen is the element of the page, not its record"


def test_a_row_with_masked_words_is_the_same_row() -> None:
    target = Target(role="button", name="Revoke", recorded=recorded(row(TOKEN, 1)))
    assert found(target, row(TOKEN, 1)).strategy == "exact"


@pytest.mark.parametrize("mask", [mask.decode() for mask in MASKS])
def test_the_mask_of_the_record_may_be_another_one(mask: str) -> None:
    """Which one is used depends on the secrets that were registered then."""
    written = msgspec.json.encode(recorded(row(TOKEN, 1))).replace(b"[redacted]", mask.encode())
    target = Target(role="button", name="Revoke", recorded=msgspec.json.decode(written, type=Element))
    assert found(target, row(TOKEN, 1)).strategy == "exact"


def test_of_two_rows_that_look_alike_in_records_none_is_taken() -> None:
    target = Target(recorded=recorded(row(TOKEN, 1)))
    alone = found(target, row(TOKEN, 1))
    assert alone.chosen is not None and alone.chosen.index == 0
    both = found(target, row(TOKEN, 1), row(OTHER, 2))
    assert both.chosen is None
    assert "only words that records mask tell it from another element" in both.reason


def test_a_record_without_a_mask_is_compared_with_the_page_as_it_is() -> None:
    resolver = PageResolver(lambda _: pytest.fail("nothing was masked"))
    target = Target(role="button", name="Revoke", recorded=row("7", 1))
    assert found(target, row("7", 1), resolver=resolver).strategy == "exact"
