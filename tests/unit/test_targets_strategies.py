"""Other words that mean the same, and the same place with other words: found, named, and never at any price."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.target_pages import RUNNING, changed, element, look_for, shop, swapped

from recoup.kernel.memory import identity
from recoup.model.target import Box, Element, Floors, Resolution, Target
from recoup.targets.healing import Learned
from recoup.targets.opposites import _SAME, ACTIONS, are_opposites, meaning_of
from recoup.targets.page import Page
from recoup.targets.profiles import profile
from recoup.targets.resolve import resolve


def found(target: Target, *page: Element, level: int = 1, floors: Floors = RUNNING) -> Resolution:
    return resolve(target, Page([*page, element("a", "Imprint", path="/a[9]")]), profile(level), floors)


def taken(made: Resolution) -> str | None:
    return made.chosen.element.name if made.chosen else None


SIGN_IN = Target(role="button", name="Sign in")
LOG_IN = element("button", "Log in", path="/form[1]/button[1]")


# Short targets


def test_a_listed_synonym_is_taken_from_the_first_relaxed_level_on() -> None:
    made = found(SIGN_IN, LOG_IN, element("button", "Help", path="/button[2]"))
    assert (taken(made), made.strategy, made.healed) == ("Log in", "semantic", True)
    assert made.chosen is not None and made.chosen.confidence == made.margin == 0.85
    assert found(SIGN_IN, LOG_IN, level=0).chosen is None, "the first attempt is strict"


def test_it_is_taken_under_the_floors_only() -> None:
    made = found(SIGN_IN, LOG_IN, floors=Floors(0.95, 0.0))
    assert made.chosen is None and "under the floor" in made.reason and made.strategy == "none"


def test_two_that_say_the_same_are_not_guessed_between() -> None:
    made = found(SIGN_IN, LOG_IN, element("button", "Login", path="/nav[1]/button[1]"))
    assert made.chosen is None and "2 say the same in other words" in made.reason
    assert made.best is not None and made.runner_up is not None


@pytest.mark.parametrize(
    "there",
    [
        element("button", "Sign out", path="/button[1]"),
        element("button", "Sign up", path="/button[1]"),
        element("button", "Register", path="/button[1]"),
        element("a", "Log in", path="/a[1]", href="/login"),
        element("h2", "Log in", path="/h2[1]"),
        element("button", "Log in with a key", path="/button[1]"),
        element("button", "Log in", path="/button[1]", title="Log out"),
    ],
)
def test_what_is_not_listed_opposite_or_of_another_kind_is_not_taken(there: Element) -> None:
    assert found(SIGN_IN, there, level=2).chosen is None


def test_what_somebody_rejected_is_not_taken() -> None:
    learned = Learned((), frozenset({identity(LOG_IN)}))
    made = resolve(SIGN_IN, Page([LOG_IN]), profile(1), RUNNING, learned=learned)
    assert made.chosen is None and "somebody rejected it" in made.reason


FIELD = element("input", path="/form[1]/input[1]", role="textbox")


@pytest.mark.parametrize(
    ("target", "now"),
    [
        (Target(label="User"), changed(FIELD, name="User", title="User")),
        (Target(label="User"), changed(FIELD, placeholder="User")),
        (Target(placeholder="User"), changed(FIELD, label="User", name="Your account")),
        (Target(role="textbox", name="User"), changed(FIELD, name="Who are you?", label="User")),
        (Target(role="button", name="Save"), element("button", "Save", name="Save the report", path="/b[1]")),
        (Target(text="Save"), element("button", "", name="Save", path="/b[1]")),
    ],
)
def test_words_that_changed_places_are_still_its_words(target: Target, now: Element) -> None:
    made = found(target, now)
    assert made.chosen is not None and made.chosen.element == now
    assert made.strategy == "semantic"


@pytest.mark.parametrize(
    ("target", "now"),
    [
        (Target(label="Email"), element("a", "Email", path="/a[1]", href="mailto:a")),
        (Target(label="Email", nth=1), changed(FIELD, name="Email", title="Email")),
        (Target(label="Email", name="Email"), changed(FIELD, name="Email", title="Email")),
        (Target(text="Save"), element("h2", "", name="Save", path="/h2[1]")),
        (Target(role="button"), element("a", "Save", path="/a[1]")),
    ],
)
def test_a_label_names_fields_and_what_is_counted_is_not_guessed(target: Target, now: Element) -> None:
    assert found(target, now, level=2).chosen is None


def test_a_wrapper_that_says_it_as_well_is_the_same_thing() -> None:
    wrapper = element("li", "Log in", path="/ul[1]/li[1]", role="menuitem")
    inner = element("a", "Log in", path="/ul[1]/li[1]/a[1]", href="/login")
    made = found(Target(text="Sign in"), wrapper, inner)
    assert made.chosen is not None and made.chosen.element == inner


WAYS = sorted({way.strip() for line in _SAME.strip().splitlines() for way in line.split("|")})


@given(st.sampled_from(WAYS), st.sampled_from(WAYS))
def test_only_words_of_one_meaning_are_taken_for_one_another(was: str, now: str) -> None:
    made = found(Target(role="button", name=was), element("button", now, path="/button[1]"), level=2)
    assert (made.chosen is not None) is (was == now or meaning_of(was) == meaning_of(now))
    if made.chosen is not None:
        assert not are_opposites(frozenset(was.split()), frozenset(now.split()))
        assert made.strategy == ("exact" if was == now else "semantic")


def test_no_two_ways_to_say_the_same_are_opposites() -> None:
    for line in _SAME.strip().splitlines():
        ways = [frozenset(way.split()) for way in line.split("|")]
        assert not [(one, other) for one in ways for other in ways if are_opposites(one, other)], line
    assert {"delete", "pay", "approve"} <= ACTIONS


# Recorded targets: the name of the evidence


def the(text: str) -> Element:
    return next(e for e in shop() if e.text == text and e.tag != "li")


def test_a_recorded_name_that_became_a_synonym_is_semantic() -> None:
    old = the("Check out")
    made = look_for(old, swapped(shop(), old, changed(old, text="Buy now", name="Buy now")))
    assert (taken(made), made.strategy) == ("Buy now", "semantic")


def test_what_was_written_helps_where_the_likeness_alone_is_not_enough() -> None:
    old = the("Check out")
    page = swapped(shop(), old, changed(old, text="Buy now", name="Buy now", id="b2"))
    assert look_for(old, page, 1).chosen is None, "its id is another one, too"
    written = Target(role="button", name="Check out", recorded=old)
    made = resolve(written, Page(page), profile(1), RUNNING)
    assert (taken(made), made.strategy) == ("Buy now", "semantic")
    assert made.chosen is not None and made.chosen.confidence == 0.85 and made.margin > 0.75
    assert resolve(written, Page(page), profile(0), RUNNING).chosen is None
    assert resolve(written, Page(page), profile(1), Floors(0.95, 0)).chosen is None
    twice = [*page, element("button", "Order now", at=(500, 700), path="/main[1]/p[1]/button[1]")]
    assert resolve(written, Page(twice), profile(1), RUNNING).chosen is None
    forbidden = Learned((), frozenset({identity(made.chosen.element)}))
    assert resolve(written, Page(page), profile(1), RUNNING, learned=forbidden).chosen is None


def test_a_recorded_name_that_is_said_elsewhere_now_is_semantic() -> None:
    old = the("Check out")
    made = look_for(old, swapped(shop(), old, changed(old, text="To the till", name="Check out")))
    assert (taken(made), made.strategy) == ("Check out", "semantic")


def test_one_of_many_that_say_the_same_is_told_by_its_place() -> None:
    old = next(e for e in shop() if e.text == "Add to cart" and e.container == "Chair")
    page = [changed(e, classes=("x",), id=f"n{n}") for n, e in enumerate(shop())]
    made = look_for(old, page)
    assert made.chosen is not None and made.chosen.element.container == "Chair"
    assert made.strategy == "spatial"


def test_words_that_changed_in_the_same_place_are_told_by_it() -> None:
    old = element(
        "button",
        "Save all changes",
        at=(300, 40),
        path="/main[1]/div[2]/button[1]",
        neighbours=("Draft", "Title"),
    )
    new = changed(old, text="Save changes", name="Save changes", box=Box(300, 40, 110, 24), classes=("n",))
    made = look_for(old, [*shop(), new])
    assert (taken(made), made.strategy) == ("Save changes", "spatial")


def test_words_that_came_in_addition_tell_by_themselves() -> None:
    old = the("Check out")
    new = changed(old, text="Check out here", name="Check out here", id="n")
    made = look_for(old, swapped(shop(), old, new))
    assert (taken(made), made.strategy) == ("Check out here", "model")


def test_a_key_that_is_still_there_is_more_than_the_place() -> None:
    old = element("button", "Save all changes", at=(300, 40), path="/main[1]/button[7]", test_id="save")
    made = look_for(old, [*shop(), changed(old, text="Save changes", name="Save changes")])
    assert (taken(made), made.strategy) == ("Save changes", "model")


def test_what_has_no_identity_is_not_found_by_its_place() -> None:
    old = element("button", "", at=(300, 40), path="/main[1]/button[7]", neighbours=("Draft", "Title"))
    made = look_for(old, [*shop(), changed(old, classes=("n",))], 2)
    assert made.chosen is None and "to know it by" in made.reason


# Found to the letter, and yet another one


@pytest.mark.parametrize(
    ("was", "now", "is_another"),
    [
        ("Pay order", "Delete order", True),
        ("Pay order", "View order", True),
        ("Send message now", "Print message now", True),
        ("Bestellung bezahlen", "Bestellung löschen", True),
        ("Pay order", "Pay orders", False),
        ("Pay order", "Pay order now", False),
        ("Delete order", "Remove order", False),
        ("Hello Ada", "Hello Grace", False),
        ("Orders (3)", "Orders (4)", False),
        ("Sign in", "Log in", False),
    ],
)
def test_a_selector_that_leads_to_another_verb_is_not_trusted(was: str, now: str, is_another: bool) -> None:
    old = element("button", was, path="/main[1]/button[1]", id="do", at=(10, 10))
    page = Page([changed(old, text=now, name=now), element("a", "Imprint", path="/a[1]")])
    made = resolve(Target(css="#do", recorded=old), page, profile(2), RUNNING, css_matches=[0])
    assert (made.chosen is None) is is_another, made
    assert ("no longer looks like the recorded element" in made.reason) is is_another


def test_what_is_only_read_may_say_anything_about_it() -> None:
    old = element("h2", "New orders", path="/main[1]/h2[1]", id="head")
    page = Page([changed(old, text="Open orders", name="Open orders")])
    target = Target(css="#head", recorded=old)
    assert resolve(target, page, profile(0), RUNNING, css_matches=[0]).strategy == "exact"


def test_a_test_id_is_trusted_but_not_with_the_opposite() -> None:
    old = element("button", "Pay order", path="/b[1]", test_id="do")
    target = Target(test_id="do", recorded=old)
    view = changed(old, text="View order", name="View order")
    assert resolve(target, Page([view]), profile(0), RUNNING).strategy == "exact"
    was = msgspec.structs.replace(target, recorded=changed(old, text="Approve", name="Approve"))
    reject = changed(old, text="Reject", name="Reject")
    assert resolve(was, Page([reject]), profile(0), RUNNING).chosen is None
