"""Whose row a button is in, as a real browser lays the page out: words of another row never choose it."""

from __future__ import annotations

import pytest
from tests.integration.browser_house import needs_browser
from tests.integration.test_browser_collector import Eye, eye
from tests.integration.test_browser_traps import resolved
from tests.unit.row_pages import FIELDS, NAMELESS, OTHERS, OWN, PAY

from recoup.model.target import Target

pytestmark = needs_browser
__all__ = ["eye"]
HIDDEN = {
    "not shown": "<span style='display: none'>INV-10</span>",
    "invisible": "<span style='visibility: hidden'>INV-10</span>",
    "attribute": "<span hidden>INV-10</span>",
    "within": "<p hidden><span>INV-10</span></p>",
    "template": "<template>INV-10</template>",
}
SHOWN = {
    "plain": "<span>INV-10</span>",
    "no box of its own": "<span style='display: contents'>INV-10</span>",
    "in parts without boxes": "<div style='display: contents'><b>INV-10</b></div>",
}


def taken(eye: Eye, page: str, **said: str) -> bool:
    target = Target(**{"role": "button", "name": "Pay", **said})  # type: ignore[arg-type]
    return resolved(target, eye.see(page), 0).chosen is not None


@pytest.mark.parametrize("key", ["inside", "near"])
def test_a_button_in_the_row_of_another_is_not_taken(eye: Eye, key: str) -> None:
    pages = [("INV-10", page) for page in OTHERS.values()] + [("Ann", page) for page in NAMELESS.values()]
    assert [page for words, page in pages if taken(eye, page, **{key: words})] == []


def test_words_that_name_what_an_element_is_in_choose_it(eye: Eye) -> None:
    assert [page for words, page in OWN.values() if not taken(eye, page, inside=words)] == []
    fields = [(page, Target(label="Name", inside=words)) for words, page in FIELDS.values()]
    assert [page for page, target in fields if resolved(target, eye.see(page), 0).chosen is None] == []


ROW = "<table><tr><td>INV-11 {words}</td><td>{pay}</td></tr><tr><td>INV-12</td><td>{pay}</td></tr></table>"


@pytest.mark.parametrize("key", ["inside", "near"])
def test_words_that_nobody_sees_choose_nothing(eye: Eye, key: str) -> None:
    pages = {how: ROW.format(words=words, pay=PAY) for how, words in HIDDEN.items()}
    assert [how for how, page in pages.items() if taken(eye, page, **{key: "INV-10"})] == []


@pytest.mark.parametrize("key", ["inside", "near"])
def test_words_that_are_seen_choose_their_row(eye: Eye, key: str) -> None:
    pages = {how: ROW.format(words=words, pay=PAY) for how, words in SHOWN.items()}
    assert [how for how, page in pages.items() if not taken(eye, page, **{key: "INV-10"})] == []
