"""What no score may overrule: evidence that an element is another one, or that nobody could tell."""

from __future__ import annotations

from math import fsum
from typing import Final

from recoup.model.target import Element, said_by
from recoup.targets.features import Wanted
from recoup.targets.opposites import ACTIONS, are_opposites, meaning_of
from recoup.targets.page import Facets, Page, facets_of
from recoup.targets.profiles import kind_of
from recoup.targets.wording import likeness, pairs_of, words_of

VETOED_MAX: Final = 0.5
"""The most that a vetoed candidate is believed."""
ALIKE_MIN: Final = 0.6
KEPT_MIN: Final = 0.5
TELLING_HINT: Final = 3.0
"""A part of an attribute that hardly anything else on the page has."""
CONTROLS: Final = frozenset(
    {
        *(
            "button",
            "link",
            "checkbox",
            "radio",
            "switch",
            "tab",
            "menuitem",
            "option",
            "textbox",
            "searchbox",
        ),
        *("combobox", "listbox", "slider", "spinbutton"),
    }
)
READ_ONLY_TAGS: Final = frozenset(
    {"h1", "h2", "h3", "h4", "h5", "h6", "p", "strong", "em", "b", "i", "td", "th", "li", "legend", "caption"}
)

LITTLE_WORDS: Final = frozenset({"a", "an", "the", "and", "or", "of", "your", "my"})
"""Come and go without another meaning."""


def has_identity(element: Element) -> bool:
    """Something to know it by: without it, any empty box would do."""
    return bool(
        said_by(element).strip() or element.id or element.test_id or element.name_attribute or element.href
    )


def contradicts(recorded: Element, element: Element) -> str:
    """Why its words say that it is another element, in words; "" when they do not."""
    opposite = opposes(recorded, element)
    mine, its = facets_of(recorded), facets_of(element)
    if opposite or not _words_differ(mine, its):
        return opposite
    kept = len(mine.words & its.words) >= KEPT_MIN * len(mine.words)
    other_words = likeness(mine.pairs, its.pairs) < ALIKE_MIN and not kept
    if other_words or (kind_of(recorded) in CONTROLS and _does_something_else(mine.words, its.words)):
        return f"it says {said_by(element)[:60]!r}, not {said_by(recorded)[:60]!r}"
    return ""


def _does_something_else(mine: frozenset[str], its: frozenset[str]) -> bool:
    """`Pay order` became `Delete order`. What it is done to may have changed (`Hello Ada`), what is done may not."""
    lost = {word for word in mine - its if not _is_spelt_in(word, its)}
    gained = {word for word in its - mine if not _is_spelt_in(word, mine)}
    if not lost or not gained or not (lost | gained) & ACTIONS:
        return False
    return {meaning_of(word) or word for word in lost}.isdisjoint(meaning_of(word) or word for word in gained)


def opposes(recorded: Element, element: Element) -> str:
    mine, its = facets_of(recorded), facets_of(element)
    return _opposite(mine, its, recorded, element)


def _same_meaning(mine: Facets, its: Facets) -> bool:
    return bool(mine.meaning) and mine.meaning == its.meaning


def vetoes(wanted: Wanted, page: Page, index: int) -> tuple[str, ...]:
    """Why the best candidate must not be taken, each in words."""
    recorded, element = wanted.element, page.elements[index]
    mine, its = wanted.facets, page.facets(index)
    found = [
        _nothing_to_know_it_by(recorded),
        _opposite(mine, its, recorded, element),
        _other_words(wanted, its, recorded, element),
        _exchanged_words(mine, its, recorded, element),
        _other_of_the_list(mine, its, recorded, element),
        _stood_beside(mine, its, recorded, element),
        _of_another(mine, its, recorded, element),
        _only_to_be_read(recorded, element),
        _nothing_in_common(wanted, its, recorded, element),
    ]
    return tuple(why for why in found if why)


def strays(recorded: Element, lesson: Element, element: Element) -> str:
    """Why what a lesson led to is too far from what was recorded, in words; "" when it is not.

    Whose it is and what it must not do are asked of the record, however much was learned since. Words that were
    exchanged since then must be the lesson's own, or its key or id must be there: words that come one night and go the
    next would lead anywhere.
    """
    mine, taught, its = facets_of(recorded), facets_of(lesson), facets_of(element)
    against = (
        _opposite(mine, its, recorded, element)
        or _of_another(mine, its, recorded, element)
        or _only_to_be_read(recorded, element)
    )
    if against or not _words_differ(mine, its) or not _are_exchanged(mine.words, its.words):
        return against
    if not _words_differ(taught, its) or _shares_key(taught, its, lesson, element):
        return ""
    if lesson.id and lesson.id == element.id:
        return ""
    return f"it says {said_by(element)[:60]!r}, and only a likeness to {said_by(lesson)[:60]!r} speaks for it"


def _nothing_to_know_it_by(recorded: Element) -> str:
    if has_identity(recorded):
        return ""
    return "the recorded element has no text, name, id, link or test id to know it by"


def _opposite(mine: Facets, its: Facets, recorded: Element, element: Element) -> str:
    if mine.said == its.said or not are_opposites(mine.words, its.words):
        return ""
    return f"{said_by(element)[:60]!r} is the opposite of {said_by(recorded)[:60]!r}"


def _other_words(wanted: Wanted, its: Facets, recorded: Element, element: Element) -> str:
    """An equal id does not help: sites renumber their menus."""
    mine = wanted.facets
    if not _words_differ(mine, its) or _shares_key(mine, its, recorded, element):
        return ""
    kept = fsum(wanted.rarity[word] for word in mine.words & its.words)
    if likeness(mine.pairs, its.pairs) >= ALIKE_MIN or kept >= KEPT_MIN * wanted.rarity_sum:
        return ""
    return f"it says {said_by(element)[:60]!r}, not {said_by(recorded)[:60]!r}"


def _exchanged_words(mine: Facets, its: Facets, recorded: Element, element: Element) -> str:
    """Words may come or go; one in place of another makes it another thing: `Edit profile`, `Edit permissions`."""
    if not _words_differ(mine, its) or _shares_key(mine, its, recorded, element):
        return ""
    if not _are_exchanged(mine.words, its.words):
        return ""
    return f"it says {said_by(element)[:60]!r} in place of {said_by(recorded)[:60]!r}"


def _are_exchanged(mine: frozenset[str], its: frozenset[str]) -> bool:
    """One has a word that the other has nothing like, and the other way round."""
    lost, gained = mine - its - LITTLE_WORDS, its - mine - LITTLE_WORDS
    return any(not _is_spelt_in(word, its) for word in lost) and any(
        not _is_spelt_in(word, mine) for word in gained
    )


def _is_spelt_in(word: str, words: frozenset[str]) -> bool:
    """As another spelling, in the plural or the like. Of a number there is no other spelling."""
    if any(map(str.isdigit, word)):
        return word in words
    return any(likeness(pairs_of(word), pairs_of(other)) >= ALIKE_MIN for other in words)


def _other_of_the_list(mine: Facets, its: Facets, recorded: Element, element: Element) -> str:
    """At another place of the same list, or leading elsewhere, with words of its own: a sibling, unless a key tells."""
    elsewhere = recorded.xpath != element.xpath or (mine.link, mine.parameters) != (its.link, its.parameters)
    if not mine.pattern or mine.pattern != its.pattern or not elsewhere:
        return ""
    if not _words_differ(mine, its) or mine.words <= its.words or its.words <= mine.words:
        return ""
    if _shares_key(mine, its, recorded, element):
        return ""
    return f"{said_by(element)[:60]!r} is in the same list, and nothing tells that it is {said_by(recorded)[:60]!r}"


def _stood_beside(mine: Facets, its: Facets, recorded: Element, element: Element) -> str:
    """It was there, under these words, when the target was: `Search`, with `Search stores` beside it."""
    if not _words_differ(mine, its) or _shares_key(mine, its, recorded, element):
        return ""
    if its.said not in (" ".join(words_of(words)) for words in recorded.neighbours):
        return ""
    return f"{said_by(element)[:60]!r} stood beside {said_by(recorded)[:60]!r} when that was recorded"


def _of_another(mine: Facets, its: Facets, recorded: Element, element: Element) -> str:
    """Rows and cards have the same buttons: whose it is, is told by their words, first of all by their numbers.

    Equal test ids and names do not help, every row has them; an equal link does the same thing wherever it is.
    """
    if mine.link and mine.link == its.link and mine.parameters == its.parameters:
        return ""
    own = _tokens(recorded.container) - _tokens(said_by(recorded))
    theirs = _tokens(element.container) - _tokens(said_by(element))
    if not own - theirs or not theirs - own:
        return ""
    if not (_numbered(own - theirs) and _numbered(theirs - own)) and len(own & theirs) > KEPT_MIN * len(own):
        return ""
    return f"it was in {recorded.container[:60]!r} and this one is in {element.container[:60]!r}"


def _tokens(text: str) -> frozenset[str]:
    """Punctuation kept: `INV-1001` and `20.00` are one each."""
    return frozenset(text.casefold().split())


def _numbered(tokens: frozenset[str]) -> bool:
    return any(any(map(str.isdigit, token)) for token in tokens)


def _only_to_be_read(recorded: Element, element: Element) -> str:
    """The words are left, the control is gone."""
    if kind_of(recorded) not in CONTROLS or element.tag not in READ_ONLY_TAGS or element.role in CONTROLS:
        return ""
    if not element.ancestors or not CONTROLS.isdisjoint(element.ancestors):
        return ""
    return f"it was a {kind_of(recorded)}, and a {element.tag} is only to be read"


def _nothing_in_common(wanted: Wanted, its: Facets, recorded: Element, element: Element) -> str:
    mine = wanted.facets
    if mine.said or _shares_key(mine, its, recorded, element) or (recorded.id and recorded.id == element.id):
        return ""
    if any(wanted.parameters[part] > TELLING_HINT for part in mine.parameters & its.parameters):
        return ""
    return "the recorded element has no words, and no id, name or link in common with this one"


def _words_differ(mine: Facets, its: Facets) -> bool:
    if not mine.said or not its.said or not mine.faces.isdisjoint(its.faces):
        return False
    return not _same_meaning(mine, its)


def _shares_key(mine: Facets, its: Facets, recorded: Element, element: Element) -> bool:
    if recorded.test_id and recorded.test_id == element.test_id:
        return True
    if recorded.name_attribute and recorded.name_attribute == element.name_attribute:
        return True
    return bool(mine.link) and mine.link == its.link and mine.parameters == its.parameters
