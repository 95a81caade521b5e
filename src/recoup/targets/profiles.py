"""How far an attempt may look, level by level, and which roles stand in for one another."""

from __future__ import annotations

from typing import Final

import msgspec

from recoup.model.target import Element, Profile

LEVEL_MAX: Final = 100
PADDING_MAX: Final = 16.0

STRICT: Final = Profile(level=0, min_ratio=0.82, padding=1.0, expands_roles=False)
RELAXED: Final = Profile(level=1, min_ratio=0.78, padding=1.3, expands_roles=True)
DESPERATE: Final = Profile(level=2, min_ratio=0.72, padding=1.7, expands_roles=True)

ROLE_ALIASES: Final[dict[str, frozenset[str]]] = {
    "input": frozenset({"input", "textfield", "text_field", "form_input", "forminput", "edit", "textbox"})
    | {"searchbox", "combobox", "spinbutton", "textarea"},
    "button": frozenset({"button", "submit", "action", "cta"}) | {"link", "menuitem", "tab", "a"},
    "label": frozenset({"label", "text", "data_display"})
    | {"heading", "paragraph", "cell", "span", "strong", "emphasis"},
    "checkbox": frozenset({"checkbox", "check_box", "toggle"}) | {"switch", "menuitemcheckbox"},
}
"""Of each, the first set is how screens are described, the second what ARIA or HTML call the same."""

TYPE_ALIASES: Final[dict[str, frozenset[str]]] = {
    "text_input": frozenset({"text_input", "input", "textfield"})
    | {"text", "search", "email", "tel", "url", "number"},
    "button": frozenset({"button"}) | {"submit", "image"},
}


def profile(level: int) -> Profile:
    """What an attempt at this level may consider: each level more than the one before, up to the third."""
    if not 0 <= level <= LEVEL_MAX:
        raise ValueError(f"a level of tolerance is between 0 and {LEVEL_MAX}, not {level}")
    if level <= 2:
        return (STRICT, RELAXED, DESPERATE)[level]
    return msgspec.structs.replace(DESPERATE, level=level)


def problem_with(profile: Profile) -> str:
    """Why this profile cannot be used, in words; "" for one that can."""
    if not 0 <= profile.level <= LEVEL_MAX:
        return f"level {profile.level} is not between 0 and {LEVEL_MAX}"
    if not 0.0 < profile.min_ratio <= 1.0:
        return f"min_ratio {profile.min_ratio:g} is not above 0 and at most 1"
    if not 1.0 <= profile.padding <= PADDING_MAX:
        return f"padding {profile.padding:g} is not between 1 and {PADDING_MAX:g}"
    return ""


def kind_of(element: Element) -> str:
    """Its role, or its tag where it has none."""
    return element.role or element.tag


def role_aliases(role: str) -> frozenset[str]:
    """All that may stand in for a role, itself included."""
    return _ROLE_FAMILY.get(role, frozenset()) | {role}


def type_aliases(name: str) -> frozenset[str]:
    return _TYPE_FAMILY.get(name, frozenset()) | {name}


def are_aliases(mine: str, its: str) -> bool:
    return mine == its or its in _ROLE_FAMILY.get(mine, ())


def kinds_alike(mine: Element, its: Element) -> bool:
    """The one may stand in for the other."""
    if are_aliases(kind_of(mine), kind_of(its)):
        return True
    return bool(mine.type and its.type) and mine.tag == its.tag and its.type in type_aliases(mine.type)


def _families(aliases: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    families: dict[str, frozenset[str]] = {}
    for name, family in aliases.items():
        for member in family | {name}:
            families[member] = families.get(member, frozenset()) | family | {name}
    return families


_ROLE_FAMILY: Final = _families(ROLE_ALIASES)
_TYPE_FAMILY: Final = _families(TYPE_ALIASES)
