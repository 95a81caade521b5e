"""The new words of a target that was healed: those of whoever wrote it, as far as they hold of what was taken."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.target_pages import element, shop

from recoup.model.target import Element, Target
from recoup.shapes.aria_roles import ROLES
from recoup.targets.exact import find
from recoup.targets.page import Page
from recoup.targets.renaming import renamed

OLD = element("button", "Approve", container="INV-1 Approve", neighbours=("INV-1", "12.50"))
NEW = element("button", "Approve invoice", container="INV-1 Approve invoice", neighbours=("INV-1", "12.50"))
OTHER = element("button", "Reject", path="/html/body/button[2]")
TWIN = element(
    "button",
    "Approve invoice",
    path="/html/body/button[3]",
    container="INV-2 Approve invoice",
    neighbours=("INV-2",),
)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (Target(role="button", name="Approve"), Target(role="button", name="Approve invoice")),
        (Target(name="Approve"), Target(name="Approve invoice")),
        (Target(text="Approve"), Target(text="Approve invoice")),
        (Target(role="link", name="Approve"), Target(role="button", name="Approve invoice")),
        (Target(css="#approve"), Target(role="button", name="Approve invoice")),
        (Target(role="button"), Target(role="button", name="Approve invoice")),
        (
            Target(role="button", name="Approve", inside="INV-1", frame="inner"),
            Target(role="button", name="Approve invoice", inside="INV-1", frame="inner"),
        ),
        (Target(name="Approve", near="INV-1"), Target(name="Approve invoice", near="INV-1")),
        (Target(name="Approve", inside="Open"), Target(name="Approve invoice", inside="Open")),
    ],
)  # fmt: skip
def test_what_was_said_is_said_of_what_was_taken(written: Target, wanted: Target) -> None:
    assert renamed(written, OLD, NEW, [OTHER], ROLES) == wanted


def test_what_held_before_and_holds_no_longer_is_left_out_and_the_element_told_in_full() -> None:
    moved = msgspec.structs.replace(NEW, container="INV-9", neighbours=("INV-9",))
    written = Target(name="Approve", inside="INV-1")
    assert renamed(written, OLD, moved, [OTHER], ROLES) == Target(name="Approve invoice", recorded=moved)
    numbered = renamed(Target(name="Approve", nth=2), OLD, NEW, [OTHER], ROLES)
    assert numbered == Target(name="Approve invoice", recorded=NEW), "nobody knows which one it is now"


def test_what_would_fit_the_next_best_too_is_told_in_full_or_with_words_around_it() -> None:
    inside = renamed(Target(name="Approve", inside="INV-1"), OLD, NEW, [TWIN], ROLES)
    assert inside == Target(name="Approve invoice", inside="INV-1"), "the words around it tell them apart"
    alike = renamed(Target(name="Approve"), OLD, NEW, [TWIN], ROLES)
    assert alike.recorded == NEW or alike.inside is not None


def test_a_plan_that_had_it_in_full_has_the_new_one_in_full() -> None:
    written = Target(role="button", name="Approve", recorded=OLD)
    assert renamed(written, OLD, NEW, [], ROLES) == Target(
        role="button", name="Approve invoice", recorded=NEW
    )
    assert renamed(Target(recorded=OLD), OLD, NEW, [], ROLES).recorded == NEW


def test_nothing_that_counts_on_the_whole_page_is_said_of_one_that_was_not_seen_whole() -> None:
    nameless = Element(tag="div", xpath="/html/body/div[3]", id="x1")
    target = renamed(Target(css=".old"), None, nameless, [OTHER], ROLES)
    assert (target.css, target.nth, target.recorded) == ("#x1", None, nameless)
    pathless = msgspec.structs.replace(nameless, id="")
    assert renamed(Target(css=".old"), None, pathless, [OTHER], ROLES) == Target(recorded=pathless)


PAGE = shop()
WRITTEN = st.builds(
    Target,
    role=st.none() | st.just("button"),
    name=st.none() | st.just("Old name"),
    text=st.none() | st.just("Old name"),
    test_id=st.none() | st.just("old"),
    near=st.none() | st.just("Orders"),
    css=st.none() | st.just(".old"),
).filter(lambda target: target.role or target.name or target.text or target.test_id or target.css)


@settings(deadline=None)
@given(WRITTEN, st.sampled_from(range(len(PAGE))), st.sampled_from(range(len(PAGE))))
def test_in_short_it_is_the_one_and_not_the_next_best_and_saying_it_again_changes_nothing(
    written: Target, taken: int, next_best: int
) -> None:
    others = [PAGE[next_best]] if next_best != taken else []
    target = renamed(written, None, PAGE[taken], others, ROLES)
    if target.recorded is None:
        bare = msgspec.structs.replace(target, near=None)
        found = find(bare, Page([PAGE[taken], *others])).indices
        assert found == (0,) or (0 in found and target.near is not None)
    else:
        assert target.recorded == PAGE[taken]
    assert renamed(target, None, PAGE[taken], others, ROLES) == target
