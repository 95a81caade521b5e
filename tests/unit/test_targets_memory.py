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


# Small changes that add up

RECORDED = Element(
    tag="button", role="button", name="Place order", text="Place order", id="place", name_attribute="place"
)
TAUGHT = msgspec.structs.replace(
    RECORDED, name="Order and pay", text="Order and pay", id="k1", name_attribute="pay"
)
NOW = msgspec.structs.replace(TAUGHT, id="k2")
"""Since the lesson, its id was changed; since the recording, everything."""


def seen_from(
    *lessons: Element, now: Element = NOW, recorded: Element = RECORDED, floors: Floors = RUNNING
) -> Resolution:
    target = Target(role="button", name=recorded.name, recorded=recorded)
    return resolve(target, Page([now, *shop()]), profile(0), floors, learned=Learned(lessons=tuple(lessons)))


def test_what_is_too_far_from_the_record_is_near_to_what_was_learned() -> None:
    assert seen_from().chosen is None
    made = seen_from(TAUGHT)
    assert made.chosen is not None and made.chosen.element == NOW
    assert (made.strategy, made.led_by, made.healed) == ("lesson", identity(TAUGHT), True)


def test_a_lesson_is_held_to_the_floors() -> None:
    made = seen_from(TAUGHT)
    assert made.chosen is not None
    above = Floors(min(1.0, made.chosen.confidence + 0.001), 0.0)
    assert seen_from(TAUGHT, floors=above).chosen is None


def test_a_lesson_never_leads_to_the_opposite_of_the_record() -> None:
    approve = msgspec.structs.replace(RECORDED, name="Approve", text="Approve")
    reject = msgspec.structs.replace(NOW, name="Reject", text="Reject")
    assert seen_from(reject, now=reject, recorded=approve).chosen is None


def test_a_lesson_never_leads_into_another_row() -> None:
    mine = msgspec.structs.replace(RECORDED, container="INV-1001 20.00")
    its = msgspec.structs.replace(NOW, container="INV-1002 35.00")
    assert seen_from(its, now=its, recorded=mine).chosen is None


def test_words_that_come_one_night_and_go_the_next_lead_nowhere_by_themselves() -> None:
    """`Edit profile`, `Edit profile and permissions`, `Edit permissions`: each step is small."""
    recorded = Element(tag="button", role="button", name="Edit profile", text="Edit profile", id="p")
    both = Element(
        tag="button",
        role="button",
        name="Edit profile and permissions",
        text="Edit profile and permissions",
        id="k1",
    )
    now = msgspec.structs.replace(both, name="Edit permissions", text="Edit permissions", id="k2")
    assert seen_from(both, now=now, recorded=recorded).chosen is None
    kept = msgspec.structs.replace(now, id="k1")
    made = seen_from(both, now=kept, recorded=recorded)
    assert made.chosen is not None and made.chosen.element == kept, "the id of the lesson speaks for it"


def test_lessons_that_disagree_teach_nothing() -> None:
    other = Element(
        tag="button", role="button", name="Pay later", text="Pay later", id="z", name_attribute="later"
    )
    target = Target(role="button", name="Place order", recorded=RECORDED)
    page = Page([NOW, other, *shop()])
    each = [
        resolve(target, page, profile(0), RUNNING, learned=Learned(lessons=(one,))) for one in (TAUGHT, other)
    ]
    assert [one.chosen and one.chosen.index for one in each] == [0, 1]
    both = resolve(target, page, profile(0), RUNNING, learned=Learned(lessons=(TAUGHT, other)))
    assert both.chosen is None


def test_somebodys_rejection_stands_above_lessons() -> None:
    target = Target(role="button", name="Place order", recorded=RECORDED)
    no = Learned(lessons=(TAUGHT,), forbidden=frozenset({identity(NOW)}))
    assert resolve(target, Page([NOW, *shop()]), profile(0), RUNNING, learned=no).chosen is None
