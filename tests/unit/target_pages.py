"""Pages for tests of the resolver, written as a collector would see them."""

from __future__ import annotations

import msgspec

from recoup.model.target import Box, Element, Floors, Profile, Resolution, Target
from recoup.targets.page import Page
from recoup.targets.profiles import profile
from recoup.targets.resolve import resolve

RUNNING = Floors(confidence=0.72, margin=0.0)
DEGRADED = Floors(confidence=0.82, margin=0.08)


def element(
    tag: str, text: str = "", *, at: tuple[float, float] = (0, 0), path: str = "", **more: object
) -> Element:
    roles = {
        "a": "link",
        "button": "button",
        "input": "textbox",
        "h2": "heading",
        "li": "listitem",
        "tr": "row",
    }
    plain = Element(
        tag=tag,
        role=roles.get(tag, ""),
        name=text,
        text=text,
        box=Box(at[0], at[1], 20 + 8 * len(text), 24),
        xpath=path,
    )
    return msgspec.structs.replace(plain, **more)


def shop() -> list[Element]:
    """A small shop: a menu, a search, a list of articles, a footer."""
    body = "/html[1]/body[1]"
    menu = [
        element(
            "a",
            name,
            at=(100 + 90 * n, 20),
            path=f"{body}/nav[1]/ul[1]/li[{n + 1}]/a[1]",
            href=f"/{name.lower()}",
            classes=("nav-link",),
            neighbours=("Shop", "Orders", "Help"),
        )
        for n, name in enumerate(("Shop", "Orders", "Invoices", "Help", "Account"))
    ]
    search = [
        element(
            "input",
            at=(700, 20),
            path=f"{body}/form[1]/input[1]",
            id="q",
            name_attribute="q",
            placeholder="Search articles",
            label="Search",
            name="Search",
        ),
        element("button", "Search", at=(900, 20), path=f"{body}/form[1]/button[1]", id="go", type="submit"),
    ]
    rows: list[Element] = []
    for n, name in enumerate(("Lamp", "Chair", "Table", "Shelf")):
        row = f"{body}/main[1]/ul[1]/li[{n + 1}]"
        top = 200 + 60 * n
        rows.append(element("li", f"{name} Add to cart Remove", at=(100, top), path=row, container=name))
        rows.append(element("h2", name, at=(100, top), path=f"{row}/h2[1]", container=name))
        for k, action in enumerate(("Add to cart", "Remove")):
            rows.append(
                element(
                    "button",
                    action,
                    at=(400 + 150 * k, top),
                    path=f"{row}/button[{k + 1}]",
                    container=name,
                    classes=("btn",),
                    neighbours=(name,),
                )
            )
    last = [
        element("button", "Check out", at=(100, 700), path=f"{body}/main[1]/button[1]", id="checkout"),
        element("a", "Privacy policy", at=(100, 900), path=f"{body}/footer[1]/a[1]", href="/privacy"),
    ]
    return [*menu, *search, *rows, *last]


def changed(of: Element, **more: object) -> Element:
    return msgspec.structs.replace(of, **more)


def swapped(elements: list[Element], old: Element, *new: Element) -> list[Element]:
    """The page with one element replaced by others, or by nothing."""
    place = elements.index(old)
    return [*elements[:place], *new, *elements[place + 1 :]]


def look_for(
    target: Target | Element,
    elements: list[Element],
    level: int | Profile = 0,
    floors: Floors = RUNNING,
    **more: object,
) -> Resolution:
    wanted = Target(recorded=target) if isinstance(target, Element) else target
    how = profile(level) if isinstance(level, int) else level
    return resolve(wanted, Page(elements), how, floors, **more)  # type: ignore[arg-type]
