"""What was proven before is looked for first, and nothing that speaks against it is overlooked."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.target_pages import DEGRADED, RUNNING, shop

from recoup.kernel.memory import identity
from recoup.model.memory import Remembered
from recoup.model.target import Element, Floors, Resolution, Target
from recoup.targets.features import Wanted
from recoup.targets.healing import Learned, same_as
from recoup.targets.page import Page
from recoup.targets.profiles import profile
from recoup.targets.resolve import resolve
from recoup.targets.shortlist import shortlist

GONE = Target(role="button", name="Pay the bill")


def the(text: str) -> Element:
    return next(e for e in shop() if e.text == text and e.tag != "li")


def looked_for(
    target: Target, *known: Remembered, elements: list[Element] | None = None, floors: Floors = RUNNING
) -> Resolution:
    return resolve(target, Page(elements or shop()), profile(0), floors, learned=Learned(known))


def known(text: str, confidence: float = 0.95) -> Remembered:
    return Remembered(the(text), confidence, "model")


def test_what_was_proven_is_taken_without_a_search() -> None:
    made = looked_for(GONE, known("Check out"), floors=DEGRADED)
    assert made.chosen is not None and made.chosen.element.text == "Check out"
    assert (made.strategy, made.chosen.confidence, made.healed) == ("memory", 0.95, True)


def test_what_is_as_it_was_written_comes_before_what_is_remembered() -> None:
    made = looked_for(Target(text="Help"), known("Check out"))
    assert made.chosen is not None and made.chosen.element.text == "Help" and made.strategy == "exact"


@pytest.mark.parametrize("text", ["Check out", "Help", "Invoices"])
def test_it_must_be_there_and_only_once(text: str) -> None:
    without = [e for e in shop() if e.text != text]
    assert looked_for(GONE, known(text), elements=without).chosen is None
    twice = [*shop(), msgspec.structs.replace(the(text), xpath="/html/body/footer/a[77]")]
    assert looked_for(GONE, known(text), elements=twice).chosen is None


def test_it_must_be_sure_enough_and_ahead_of_what_else_is_remembered() -> None:
    assert looked_for(GONE, known("Check out", 0.7)).chosen is None
    assert looked_for(GONE, known("Check out", 0.8), floors=DEGRADED).chosen is None
    close = (known("Check out", 0.95), known("Help", 0.94))
    assert looked_for(GONE, *close).chosen is not None
    assert looked_for(GONE, *close, floors=DEGRADED).chosen is None, (
        "too close for a workflow that is not well"
    )


def test_vetoes_stand_above_memory() -> None:
    approve = Element(tag="button", role="button", text="Approve", id="go")
    reject = Element(tag="button", role="button", text="Reject", id="go")
    target = Target(recorded=approve)
    elements = [reject, *shop()]
    made = resolve(
        target, Page(elements), profile(0), RUNNING, learned=Learned((Remembered(reject, 0.95, "model"),))
    )
    assert made.chosen is None


def test_what_somebody_rejected_is_not_taken_by_a_search_either() -> None:
    recorded = msgspec.structs.replace(the("Check out"), id="", classes=("other",))
    target = Target(recorded=recorded)
    found = resolve(target, Page(shop()), profile(0), RUNNING)
    assert found.chosen is not None
    no = Learned(forbidden=frozenset({identity(found.chosen.element)}))
    made = resolve(target, Page(shop()), profile(0), RUNNING, learned=no)
    assert made.chosen is None and "somebody rejected it" in made.reason


def test_an_element_without_words_is_known_by_its_id_or_by_all_that_it_has() -> None:
    icon = Element(tag="button", role="button", id="menu", xpath="/html/body/button[8]")
    bare = Element(tag="input", role="textbox", name_attribute="q", xpath="/html/body/input[8]")
    for one in (icon, bare):
        made = looked_for(GONE, Remembered(one, 0.95, "model"), elements=[*shop(), one])
        assert made.chosen is not None and made.chosen.element == one


def test_what_somebody_rejected_is_not_taken_for_its_name_alone() -> None:
    link = Element(tag="a", role="link", name="Pay the bill", text="Pay the bill", href="/pay")
    elements = [link, *shop()]
    assert resolve(GONE, Page(elements), profile(1), RUNNING).strategy == "alias"
    no = Learned(forbidden=frozenset({identity(link)}))
    assert resolve(GONE, Page(elements), profile(1), RUNNING, learned=no).chosen is None


def test_what_is_proposed_is_looked_at_closely_and_not_chosen_for_it() -> None:
    recorded = Element(tag="button", role="button", text="Pay now", name="Pay now", xpath="/html/body/x")
    far = Element(tag="span", text="Zebra crossing", xpath="/html/body/footer/p[9]/span")
    crowd = [
        Element(tag="button", role="button", text=f"Pay number {at}", xpath=f"/html/body/b[{at}]")
        for at in range(60)
    ]
    page = Page([*crowd, far])
    wanted = Wanted(recorded, page)
    place = len(page) - 1
    assert place not in shortlist(wanted, page), "by itself it is not worth a look"
    assert place in shortlist(wanted, page, always=same_as(far, page))
    asked = Target(recorded=recorded)
    proposed = resolve(asked, page, profile(2), RUNNING, learned=Learned(proposed=(far,)))
    assert proposed.chosen is None or proposed.chosen.element != far, "vectors never choose"
