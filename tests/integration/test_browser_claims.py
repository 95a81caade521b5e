"""What was true of a page, asked again: all at once, and right before an action."""

from __future__ import annotations

import time

import pytest
from tests.integration.browser_house import BrowserHouse, button, house, needs_browser, shared, site

from recoup.checks.registry import question_of
from recoup.kernel.canonical import digest
from recoup.model.failure import FailureKind
from recoup.model.outcome import PageClaim
from recoup.model.plan import (
    BrowserAction,
    BrowserVerb,
    Check,
    PageTextCheck,
    TargetCheck,
    TargetState,
    TextMatch,
    TitleCheck,
    UrlCheck,
    ValueCheck,
)
from recoup.model.target import Target
from recoup.testing.pages import Site

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]
__all__ = ["house", "shared", "site"]
PAGE = (
    "<title>Invoice</title><p id=total>100 EUR</p><label>Note <input value=hello></label>"
    "<label><input type=checkbox checked> Paid</label><iframe name=inner srcdoc='<p id=deep>deep</p>'></iframe>"
    "<button onclick=\"said.textContent += 'paid '\">Pay</button><p id=said></p>"
)


def reading(css: str, said: str, *, may_be_gone: bool = False) -> PageClaim:
    action = BrowserAction(verb=BrowserVerb.READ, target=Target(css=css), into="words")
    return PageClaim(read=action, said=digest({"words": said}), may_be_gone=may_be_gone)


async def test_of_any_number_of_claims_each_is_told_whether_it_holds(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.show("/claims", PAGE))
    note, deep = Target(label="Note"), Target(css="#deep", frame="inner")
    checks: list[tuple[Check, bool]] = [
        (UrlCheck("**/claims"), True),
        (UrlCheck("**/other"), False),
        (TitleCheck(TextMatch(text="Invoice")), True),
        (TitleCheck(TextMatch(text="Receipt")), False),
        (PageTextCheck(TextMatch(text="100 EUR")), True),
        (PageTextCheck(TextMatch(text="deep")), True),
        (PageTextCheck(TextMatch(regex=r"\b99 EUR")), False),
        (PageTextCheck(TextMatch(text="100 EUR"), absent=True), False),
        (TargetCheck(button("Pay")), True),
        (TargetCheck(button("Pay"), TargetState.HIDDEN), False),
        (TargetCheck(Target(css="#total"), TargetState.COUNT, 1), True),
        (TargetCheck(deep), True),
        (ValueCheck(note, equals="hello"), True),
        (ValueCheck(note, match=TextMatch(text="hello there")), False),
        (ValueCheck(Target(label="Paid"), checked=True), True),
        (ValueCheck(Target(label="Paid"), checked=False), False),
    ]
    for check, expected in checks:
        assert (await house.examine(check, 0))[0] is expected, check
    reads = [
        (reading("#total", "100 EUR"), True),
        (reading("#total", "99 EUR"), False),
        (reading("#gone", "anything"), False),
        (reading("#gone", "anything", may_be_gone=True), True),
        (reading("#total", "99 EUR", may_be_gone=True), False),
    ]
    many = [*((PageClaim(question=question_of(check)), held) for check, held in checks), *reads] * 20
    whys = await house.runtime.refuted(house.run_id, [claim for claim, _ in many])
    assert [not why for why in whys] == [held for _, held in many]


async def test_claims_get_time_to_hold_and_no_more_than_they_need(house: BrowserHouse, site: Site) -> None:
    script = "<script>setTimeout(() => { total.textContent = '200 EUR' }, 600)</script>"
    await house.done("goto", value=site.show("/claims", PAGE + script))
    begun_s = time.monotonic()
    assert await house.runtime.refuted(house.run_id, [reading("#total", "200 EUR")], 60) == [""]
    assert time.monotonic() - begun_s < 60
    assert await house.runtime.refuted("nobody", [reading("#total", "200 EUR")], 60) == ["there is no page"]


async def test_nothing_is_done_that_was_not_approved_of_the_page_as_it_is_in_that_moment(
    house: BrowserHouse, site: Site
) -> None:
    """The button is enabled by what changes the price."""
    late = (
        "<script>const pay = document.querySelector('button'); pay.disabled = true;"
        "setTimeout(() => { total.textContent = '99,999 EUR'; pay.disabled = false }, 700)</script>"
    )
    await house.done("goto", value=site.show("/claims", PAGE + late))
    approved = (reading("#total", "100 EUR"),)
    refused = await house.do("click", button("Pay"), claims=approved)
    assert refused.refuted == "says something else now" and refused.outcome_known
    assert refused.kind is FailureKind.RUNTIME_DRIFT and "was not done" in refused.detail
    assert await house.words("#said") == ""
    assert await house.runtime.touched_by(house.run_id) == ()
    done = await house.done("click", button("Pay"), claims=(reading("#total", "99,999 EUR"),))
    assert not done.refuted and await house.words("#said") == "paid"
