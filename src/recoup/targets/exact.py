"""A target as people write it, resolved to the letter: one element, several, or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from recoup.model.target import Element, Target, plain, said_by
from recoup.targets import around
from recoup.targets.around import innermost
from recoup.targets.page import Page
from recoup.targets.profiles import are_aliases, kind_of
from recoup.targets.vetoes import contradicts, opposes
from recoup.targets.wording import ratio

CONTAINER_RATIO_MIN: Final = 0.5
"""Words that tell a row from the others may change a little with the row."""


class Found(msgspec.Struct, frozen=True):
    """The elements that are all that was said, nested ones counted once; and why not one, in words."""

    indices: tuple[int, ...]
    reason: str = ""


def find(target: Target, page: Page, css_matches: Collection[int] | None = None) -> Found:
    """The elements that fit, in the order of the page.

    `css_matches` are those that the browser found for `css`; of a target's `frame` nothing is known here, so whoever
    collects the page collects that frame.
    """
    if target.css and css_matches is None:
        return Found((), "which elements the CSS selects was not asked of the browser")
    fitting = _fitting(target, page, css_matches)
    for key, words, chosen in (("inside", target.inside, around.inside), ("near", target.near, around.near)):
        if words is None or not fitting:
            continue
        before = innermost(_seen(fitting, page), page)
        fitting = chosen(fitting if key == "inside" else before, words, page)
        if not fitting:
            return Found((), _nothing_there(key, words, before, page))
    fitting = innermost(_seen(fitting, page), page)
    if target.nth is not None:
        fitting = _numbered(fitting, target.nth)
    return Found(tuple(fitting), _reason(fitting))


def is_short(target: Target) -> bool:
    """It says something itself, beside what was recorded."""
    return any(
        value is not None for value in (*_said(target), target.css, target.near, target.inside, target.nth)
    )


def no_longer_like(recorded: Element, element: Element, *, trusted: bool = False) -> str:
    """Why an element that fits to the letter is not taken for the recorded one, in words; "" when it may be.

    `trusted`: found by a name that is there for us, so that other words are no contradiction, only opposite ones.
    """
    against = opposes(recorded, element) if trusted else contradicts(recorded, element)
    if against or trusted:
        return against
    if not are_aliases(kind_of(recorded), kind_of(element)) and recorded.tag != element.tag:
        return f"it was a {kind_of(recorded)} and is a {kind_of(element)}"
    if (
        recorded.container
        and element.container
        and ratio(recorded.container, element.container) < CONTAINER_RATIO_MIN
    ):
        return f"it was in {recorded.container[:60]!r} and is in {element.container[:60]!r}"
    return ""


def _said(target: Target) -> tuple[str | None, ...]:
    return (target.role, target.name, target.text, target.label, target.placeholder, target.test_id)


def _fitting(target: Target, page: Page, css_matches: Collection[int] | None) -> list[int]:
    tests = _tests(target)
    if target.css:
        among: Iterable[int] = sorted(index for index in set(css_matches or ()) if 0 <= index < len(page))
    elif tests or target.nth is not None or target.inside or target.near:
        among = range(len(page))
    else:
        among = ()
    return [index for index in among if all(test(page.elements[index]) for test in tests)]


def _tests(target: Target) -> list[Callable[[Element], bool]]:
    tests: list[Callable[[Element], bool]] = []
    if target.test_id is not None:
        tests.append(lambda element: element.test_id == target.test_id)
    if target.role is not None:
        role = plain(target.role)
        tests.append(lambda element: element.role.casefold() == role)
    for wanted, of in (
        (target.name, _name_of),
        (target.text, lambda element: element.text),
        (target.placeholder, lambda element: element.placeholder),
    ):
        if wanted is not None:
            tests.append(_says(plain(wanted), of))
    if target.label is not None:
        tests.append(_is_labelled(plain(target.label)))
    return tests


_FIELDS: Final = frozenset({"input", "select", "textarea"})
_FIELD_ROLES: Final = frozenset(
    {
        *("textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "switch", "slider"),
        "spinbutton",
    }
)
_BUTTONS: Final = frozenset({"submit", "reset", "button", "image"})


def _is_labelled(wanted: str) -> Callable[[Element], bool]:
    """By a label, or by `aria-label` or `aria-labelledby`: these come before whatever else could name a field, and a
    name that is no label, title or placeholder is from them."""

    def test(element: Element) -> bool:
        if plain(element.label) == wanted:
            return True
        is_field = element.tag in _FIELDS and element.type not in _BUTTONS
        if not (is_field or element.role in _FIELD_ROLES) or plain(element.name) != wanted:
            return False
        return wanted not in (plain(element.title), plain(element.placeholder), plain(element.text))

    return test


def _says(wanted: str, of: Callable[[Element], str]) -> Callable[[Element], bool]:
    return lambda element: plain(of(element)) == wanted


def _name_of(element: Element) -> str:
    return element.name or said_by(element)


def _seen(fitting: Sequence[int], page: Page) -> list[int]:
    """What is hidden counts only where nothing else fits: menus are often there twice."""
    return [index for index in fitting if page.elements[index].visible] or list(fitting)


def _numbered(fitting: Sequence[int], nth: int) -> list[int]:
    place = nth - 1 if nth > 0 else len(fitting) + nth
    return [fitting[place]] if nth and 0 <= place < len(fitting) else []


def _nothing_there(key: str, words: str, fitting: Sequence[int], page: Page) -> str:
    count = "1 element matches" if len(fitting) == 1 else f"{len(fitting)} elements match"
    others = around.other_items(fitting, words, page) if key == "inside" else []
    if others:
        return (
            f"{count} without `{key}`, but it is in {others[0]!r}, not in {words!r}: "
            "name that row or card with `inside`, or use `css`"
        )
    if not around.marks(fitting, words, page):
        return f"{count} without `{key}`, but {words!r} is not on the page"
    return f"{count} without `{key}`, but {words!r} is not {_BESIDE[key]}"


_BESIDE: Final = {
    "inside": "in a list item, row or section around one of them",
    "near": "in the row or item of one of them, or not close enough",
}


def _reason(fitting: Sequence[int]) -> str:
    if not fitting:
        return "no element matches the target"
    if len(fitting) > 1:
        return f"target is ambiguous: {len(fitting)} elements match. Narrow it with `inside`, `near` or `nth`"
    return ""
