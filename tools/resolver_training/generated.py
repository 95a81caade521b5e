"""Pages made up from scratch, in two versions: as recorded, and after somebody worked on them.

Recorded pages of the wild lack what a collector sees (roles, accessible names, labels, test ids, containers). Here
these are known, and so is what became of every element.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from recoup.model.target import Box, Element

SYLLABLES = re.split(
    " ", "ka lo mi ren tas vo bel dur fin gor hal jin kel mar nor pol ras sel tor ul ven wis yor zan"
)
SECTIONS = (
    "Orders", "Invoices", "Reports", "Customers", "Products", "Payments", "Messages", "Calendar", "Projects", "Teams",
    "Billing", "Security",
)  # fmt: skip
ACTIONS = (
    "Edit", "Delete", "View", "Share", "Approve", "Reject", "Archive", "Download", "Duplicate", "Rename", "Assign",
    "Print",
)  # fmt: skip
FORM = (
    "Email", "Password", "First name", "Last name", "Company", "Phone", "Street", "City", "Postal code",
    "Card number", "Comment", "Website", "Job title", "Date of birth", "Country", "VAT number",
)  # fmt: skip
BUTTONS = (
    "Save", "Cancel", "Submit", "Continue", "Sign in", "Sign up", "Search", "Apply", "Reset", "Add user", "Invite",
    "Upgrade", "Check out", "Send message", "Export", "Import", "Create project", "Log out", "Help", "Next", "Previous",
)  # fmt: skip
ICONS = (
    "close", "menu", "search", "bell", "user", "gear", "star", "heart", "trash", "pencil", "refresh", "filter", "sort",
    "expand", "print",
)  # fmt: skip
REWORDED = {
    "Sign in": "Log in", "Sign up": "Register", "Submit": "Send", "Continue": "Next step", "Save": "Save changes",
    "Help": "Support", "Check out": "Checkout", "Email": "Email address", "Phone": "Phone number",
    "Search": "Find", "Settings": "Preferences", "Delete": "Remove", "Edit": "Change", "Orders": "My orders",
    "First name": "Given name", "Postal code": "ZIP code", "Create project": "New project", "Log out": "Sign out",
}  # fmt: skip


@dataclass(frozen=True)
class Thing:
    """What stays the same when a page is worked on: somebody's reason to click."""

    uid: int
    section: str
    role: str
    tag: str
    said: str
    kind: str = ""
    key: str = ""
    href: str = ""
    test_id: str = ""
    container: str = ""
    silent: bool = False
    """Without words to read: an icon with an accessible name, perhaps."""
    named: bool = True


def two_versions(chance: random.Random) -> tuple[list[tuple[int, Element]], list[tuple[int, Element]]]:
    """(thing, element) of the page as recorded and as it is now; wrappers carry the number of their thing."""
    things = list(_things(chance))
    return _render(things, chance), _render(_worked_on(things, chance), chance)


def _things(chance: random.Random) -> Iterator[Thing]:
    parts: list[Callable[[random.Random], list[Thing]]] = [
        _menu,
        _form,
        _table,
        _cards,
        _toolbar,
        _footer,
        _switches,
    ]
    uid = 0
    for part in chance.sample(parts, chance.randint(4, len(parts))):
        for thing in part(chance):
            uid += 1
            yield replace(thing, uid=uid)


def _menu(chance: random.Random) -> list[Thing]:
    names = chance.sample(SECTIONS, chance.randint(4, 9))
    return [Thing(0, "nav", "link", "a", name, href=f"/{name.lower()}") for name in names] + _buttons(
        chance, "nav", 2
    )


def _form(chance: random.Random) -> list[Thing]:
    fields = chance.sample(FORM, chance.randint(3, 9))
    kinds = {"Password": "password", "Email": "email", "Phone": "tel"}
    made = [
        Thing(
            0, "form", "textbox", "input", name, kinds.get(name, "text"), key=name.lower().replace(" ", "_")
        )
        for name in fields
    ]
    return made + _buttons(chance, "form", 3)


def _buttons(chance: random.Random, section: str, count: int) -> list[Thing]:
    names = chance.sample(BUTTONS, count)
    return [
        Thing(0, section, "button", "button", name, key=_key(name) if chance.random() < 0.5 else "")
        for name in names
    ]


def _table(chance: random.Random) -> list[Thing]:
    actions = chance.sample(ACTIONS, 3)
    made = []
    for _ in range(chance.randint(4, 14)):
        row = _name(chance)
        number = chance.randint(100, 9999)
        made.append(Thing(0, "table", "link", "a", row, href=f"/items/{number}", container=row))
        made += [
            Thing(0, "table", "button", "button", action, container=row, test_id=f"{_key(action)}-{number}")
            for action in actions
        ]
    return made


def _cards(chance: random.Random) -> list[Thing]:
    action = chance.choice(("Add to cart", "Read more", "Subscribe", "Follow", "Details"))
    made = []
    for _ in range(chance.randint(3, 12)):
        title = f"{_name(chance)} {_name(chance)}"
        made.append(Thing(0, "cards", "heading", "h3", title, container=title))
        made.append(Thing(0, "cards", "link", "a", action, href=f"/p/{_key(title)}", container=title))
    return made


def _toolbar(chance: random.Random) -> list[Thing]:
    icons = chance.sample(ICONS, chance.randint(4, 9))
    named = chance.random() < 0.7
    return [
        Thing(0, "toolbar", "button", "button", icon.title(), key=f"btn-{icon}", silent=True, named=named)
        for icon in icons
    ]


def _footer(chance: random.Random) -> list[Thing]:
    names = [
        "About us",
        "Careers",
        "Privacy policy",
        "Terms of use",
        "Contact",
        "Press",
        "Status",
        *SECTIONS[:4],
    ]
    made = [Thing(0, "footer", "link", "a", name, href=f"/{_key(name)}") for name in chance.sample(names, 7)]
    social = [
        Thing(0, "footer", "link", "a", name, href=f"https://{name}.com/acme", silent=True, named=named)
        for name, named in (("facebook", True), ("twitter", False), ("youtube", True), ("linkedin", False))
    ]
    return made + social


def _switches(chance: random.Random) -> list[Thing]:
    return [
        Thing(0, "settings", "checkbox", "input", f"{name} {what}", "checkbox", key=f"{_key(name)}_{what}")
        for name in chance.sample(SECTIONS, 4)
        for what in ("emails", "alerts")
    ]


def _name(chance: random.Random) -> str:
    return "".join(chance.choice(SYLLABLES) for _ in range(chance.randint(2, 3))).title()


def _key(name: str) -> str:
    return name.lower().replace(" ", "-")


def _worked_on(things: Sequence[Thing], chance: random.Random) -> list[Thing]:
    """Between a new coat of paint and a rewrite, section by section."""
    much = chance.choice((0.05, 0.15, 0.3))
    kept = [_changed(thing, much, chance) for thing in things if chance.random() > much / 3]
    fresh = [_replaced(thing, chance) for thing in things if chance.random() < much / 2]
    sections = dict.fromkeys(thing.section for thing in kept)
    order = {name: chance.random() if chance.random() < much else at / 10 for at, name in enumerate(sections)}
    both = []
    for number, thing in enumerate(kept + fresh):
        place = chance.random() if chance.random() < much / 2 else number / 1000
        both.append((order.get(thing.section, 1.0), place, thing))
    return [thing for _, _, thing in sorted(both, key=lambda item: item[:2])]


def _replaced(thing: Thing, chance: random.Random) -> Thing:
    """Another of its kind, beside it."""
    said, container = _name(chance), thing.container and _name(chance)
    href = thing.href and f"/{said.lower()}"
    return replace(thing, uid=-thing.uid, said=said, href=href, test_id="", container=container, key="")


def _changed(thing: Thing, much: float, chance: random.Random) -> Thing:
    def happens(share: float) -> bool:
        return chance.random() < much * share

    if happens(0.6):
        thing = replace(
            thing, said=REWORDED.get(thing.said, thing.said if thing.silent else _longer(thing.said, chance))
        )
    if happens(1.0):
        thing = replace(thing, key=chance.choice(("", f"{thing.key}-2", f"ui-{chance.randint(10, 99)}")))
    if happens(0.7):
        thing = replace(thing, test_id="" if thing.test_id else f"t-{_key(thing.said)}")
    if happens(0.7) and thing.href:
        thing = replace(thing, href=chance.choice((f"/app{thing.href}", thing.href + "-new", "#")))
    if happens(0.4) and thing.role in {"button", "link"}:
        thing = replace(
            thing,
            role="link" if thing.role == "button" else "button",
            tag="a" if thing.tag == "button" else "button",
        )
    return thing


def _longer(said: str, chance: random.Random) -> str:
    return chance.choice((f"{said} now", f"{said}…", f"Your {said.lower()}", said.upper(), f"{said}s"))


@dataclass(frozen=True)
class Style:
    """How a developer writes: class names, wrappers, margins."""

    prefix: str
    wraps: float
    left: int
    step: int
    ids: float
    depth: int


def _render(things: Sequence[Thing], chance: random.Random) -> list[tuple[int, Element]]:
    style = Style(
        chance.choice(("btn", "c", "css-" + _name(chance).lower(), "nav", "x")), chance.choice((0.0, 0.3, 1.0)),
        chance.randint(0, 300), chance.choice((24, 32, 44)), chance.choice((0.3, 0.9)), chance.randint(1, 4),
    )  # fmt: skip
    said = [thing.said for thing in things if not thing.silent]
    made: list[tuple[int, Element]] = []
    top, within = 20, 0
    for number, thing in enumerate(things):
        fresh = number == 0 or things[number - 1].section != thing.section
        top, within = (top + 90, 1) if fresh else (top, within + 1)
        across = thing.section in {"nav", "toolbar"} or (
            bool(thing.container) and things[number - 1].container == thing.container
        )
        top += 0 if across else style.step
        x = style.left + (within * 95 if across else 0)
        near = tuple(said[max(0, number - 3) : number + 4])
        made += _elements(
            thing,
            style,
            Box(x, top, 30 if thing.silent else 20 + 8 * len(thing.said), 26),
            within,
            near,
            chance,
        )
    return made


def _elements(
    thing: Thing, style: Style, box: Box, within: int, near: tuple[str, ...], chance: random.Random
) -> Iterator[tuple[int, Element]]:
    wrapper = "/html[1]/body[1]" + "/div[1]" * style.depth + f"/{thing.section}[1]/li[{within}]"
    field = thing.tag == "input"
    spoken = thing.said if thing.named or not thing.silent else ""
    if chance.random() < style.wraps:
        text = "" if thing.silent or field else thing.said
        yield (
            thing.uid,
            Element(tag="li", role="listitem", text=text, xpath=wrapper, box=box, neighbours=near),
        )
    yield (
        thing.uid,
        Element(
            tag=thing.tag,
            role=thing.role,
            type=thing.kind,
            name=spoken,
            text="" if thing.silent or field else thing.said,
            id=thing.key if chance.random() < style.ids else "",
            test_id=thing.test_id,
            name_attribute=thing.key if field else "",
            classes=(
                style.prefix,
                f"{style.prefix}-{thing.section}",
                *((f"icon-{_key(thing.said)}",) if thing.silent else ()),
            ),
            href=thing.href,
            label=thing.said if field else "",
            placeholder=f"Enter {thing.said.lower()}" if field and style.step == 32 else "",
            box=Box(box.x + 2, box.y + 2, max(8, box.width - 4), box.height - 4),
            neighbours=tuple(word for text in near if text != thing.said for word in text.split()),
            container=thing.container,
            ancestors=("listitem", thing.section),
            xpath=f"{wrapper}/{thing.tag}[1]",
            id_xpath="",
        ),
    )
