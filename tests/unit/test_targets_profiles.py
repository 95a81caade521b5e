"""Tolerance: what each level lets be considered, and which roles stand in for one another."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.target_pages import RUNNING, changed, element, look_for, shop

from recoup.errors import UsageError
from recoup.model.target import Box, Profile, Target
from recoup.targets.area import REACH_PX, area_around
from recoup.targets.page import Page
from recoup.targets.profiles import LEVEL_MAX, ROLE_ALIASES, profile, role_aliases, type_aliases

LEVELS = st.integers(0, LEVEL_MAX)


@pytest.mark.parametrize(
    ("level", "ratio", "padding", "aliases"),
    [
        (0, 0.82, 1.0, False),
        (1, 0.78, 1.3, True),
        (2, 0.72, 1.7, True),
        (3, 0.72, 1.7, True),
        (9, 0.72, 1.7, True),
    ],
)
def test_the_levels_are_those_of_the_table(level: int, ratio: float, padding: float, aliases: bool) -> None:
    assert profile(level) == Profile(level, ratio, padding, aliases)


@given(LEVELS, LEVELS)
def test_a_higher_level_is_never_stricter(one: int, other: int) -> None:
    """Self-healing workflows, property 1: attempts become progressively more relaxed."""
    low, high = profile(min(one, other)), profile(max(one, other))
    assert high.min_ratio <= low.min_ratio
    assert high.padding >= low.padding
    assert high.expands_roles >= low.expands_roles


def test_each_of_the_three_levels_looks_further_than_the_one_before() -> None:
    strict, relaxed, desperate = profile(0), profile(1), profile(2)
    assert strict.padding < relaxed.padding < desperate.padding
    assert strict.min_ratio > relaxed.min_ratio > desperate.min_ratio


@pytest.mark.parametrize("level", [-1, LEVEL_MAX + 1])
def test_there_is_no_level_beyond_the_limits(level: int) -> None:
    with pytest.raises(ValueError, match="between 0 and"):
        profile(level)


@pytest.mark.parametrize(
    "wrong",
    [
        Profile(-1, 0.8, 1.0, False),
        Profile(0, 0.0, 1.0, False),
        Profile(0, 1.1, 1.0, False),
        Profile(0, float("nan"), 1.0, False),
        Profile(0, 0.8, 0.5, False),
        Profile(0, 0.8, 1e9, False),
    ],
)
def test_a_profile_that_makes_no_sense_is_refused_and_not_made_strict(wrong: Profile) -> None:
    with pytest.raises(UsageError, match="cannot be looked for"):
        look_for(Target(role="button", name="Search"), shop(), wrong)


@given(st.sampled_from(sorted(set().union(*ROLE_ALIASES.values()))))
def test_a_role_is_an_alias_of_itself_and_aliases_go_both_ways(role: str) -> None:
    """Property 3: with aliases expanded, every member of a family stands in for the others."""
    assert role in role_aliases(role)
    assert all(role in role_aliases(other) for other in role_aliases(role))


def test_roles_of_screens_and_of_aria_are_one_family() -> None:
    assert {"textbox", "searchbox", "textfield", "form_input"} <= role_aliases("input")
    assert {"submit", "cta", "link", "menuitem"} <= role_aliases("button")
    assert {"switch", "toggle"} <= role_aliases("checkbox")
    assert "button" not in role_aliases("checkbox")
    assert "email" in type_aliases("text")
    assert role_aliases("slider") == {"slider"}


@given(st.sampled_from(sorted(role_aliases("button"))), st.integers(1, 5))
def test_a_target_without_a_record_heals_by_equal_name_and_an_alias_of_its_role(
    role: str, level: int
) -> None:
    """Property 3."""
    page = [element("div", "Pay now", role=role, path="/div[1]"), element("div", "Pay later", path="/div[2]")]
    made = look_for(Target(role="button", name="Pay now"), page, level)
    assert made.chosen is not None
    assert made.chosen.index == 0
    assert made.strategy == ("exact" if role == "button" else "alias")
    assert made.role_aliases_used == (() if role == "button" else (role,))


def test_aliases_are_for_relaxed_levels_only() -> None:
    page = [element("a", "Pay now", path="/a[1]")]
    strict = look_for(Target(role="button", name="Pay now"), page, 0)
    assert strict.chosen is None
    assert "no element" in strict.reason


def test_no_alias_is_said_to_be_used_where_roles_are_not_expanded() -> None:
    was = element("button", "Pay now", id="pay", path="/form[1]/button[1]")
    page = [element("a", "Pay now", id="pay", path="/form[1]/a[1]"), element("p", "else", path="/p[1]")]
    used = {}
    for level in (0, 1):
        made = look_for(Target(recorded=was), page, level)
        assert made.best is not None and made.best.element.tag == "a"
        used[level] = made.role_aliases_used
    assert used == {0: (), 1: ("link",)}


def test_two_aliases_are_one_too_many() -> None:
    page = [element("a", "Pay now", path="/a[1]"), element("a", "Pay now", path="/a[2]")]
    made = look_for(Target(role="button", name="Pay now"), page, 2)
    assert made.chosen is None
    assert "2 have the name" in made.reason


def test_another_name_never_heals_without_a_record() -> None:
    page = [element("a", "Pay now!", path="/a[1]")]
    assert look_for(Target(role="button", name="Pay now"), page, 2).chosen is None


@given(st.floats(0, 3000), st.floats(0, 3000), st.floats(1, 400), st.floats(1, 100))
def test_the_area_grows_with_every_level_and_stays_on_the_page(
    x: float, y: float, wide: float, high: float
) -> None:
    """Property 5: padding widens where is looked, in proportion, clamped to the page."""
    page = Page([element("div", path="/div[1]", box=Box(0, 0, 9000, 9000))])
    recorded = element("button", "Go", box=Box(x + 2000, y + 2000, wide, high))
    widths = [area_around(recorded, page, profile(level)).box.width for level in (0, 1, 2)]
    assert widths == pytest.approx([wide + 2 * REACH_PX * pad for pad in (1.0, 1.3, 1.7)])
    assert widths[0] < widths[1] < widths[2]


@given(st.floats(-2000, 4000), st.floats(-2000, 4000), st.integers(0, 3))
def test_an_area_beyond_the_page_is_cut_and_says_so(x: float, y: float, level: int) -> None:
    page = Page([element("div", path="/div[1]", box=Box(0, 0, 1000, 800))])
    area = area_around(element("button", "Go", box=Box(x, y, 50, 20)), page, profile(level))
    assert area.box.x >= 0 and area.box.y >= 0
    assert area.box.x + area.box.width <= 1000 and area.box.y + area.box.height <= 800
    assert area.clamped


@settings(deadline=None)
@given(st.integers(0, 3), st.sampled_from([e for e in shop() if e.text]))
def test_a_higher_level_considers_no_less(level: int, recorded: object) -> None:
    """Properties 4 and 5: what a level considers, the next one considers too."""
    page = [changed(e, box=Box(e.box.x, e.box.y + 450, e.box.width, e.box.height)) for e in shop()]
    one, other = (look_for(recorded, page, number, RUNNING) for number in (level, level + 1))  # type: ignore[arg-type]
    assert one.considered <= other.considered


def test_a_level_decides_what_is_considered_and_never_how_likely_it_is() -> None:
    recorded = shop()[-2]
    moved = changed(recorded, id="", text="Check-out now", name="Check-out now", box=Box(900, 250, 100, 24))
    page = [*shop()[:-2], moved, shop()[-1]]
    found = [look_for(recorded, page, level) for level in range(4)]
    assert len({made.best and made.best.confidence for made in found}) == 1


def test_without_a_recorded_place_nothing_is_near_it() -> None:
    recorded = element("button", "Go", box=Box(0, 0, 0, 0))
    near = element("button", "Elsewhere", path="/b[1]", box=Box(0, 0, 40, 20))
    assert look_for(recorded, [near], 2).considered == 0


def test_a_label_heals_by_an_alias_too() -> None:
    page = [element("select", role="combobox", label="Country", name="Country", path="/a[1]")]
    made = look_for(Target(role="textbox", label="Country"), page, 1)
    assert made.chosen is not None and made.strategy == "alias"
