"""Rows of the recorded pages as elements."""

from __future__ import annotations

import re
from typing import Any, Final

from recoup.model.target import TEXT_MAX, Box, Element

_ARCHIVE: Final = re.compile(r"^.*?/web/\d+\w*/")
"""The pages were captured from an archive that puts its own address before each link."""
ROLES: Final = {
    "a": "link",
    "button": "button",
    "input": "textbox",
    "textarea": "textbox",
    "select": "combobox",
    "img": "img",
    "h1": "heading",
    "h2": "heading",
    "h3": "heading",
    "h4": "heading",
    "li": "listitem",
    "ul": "list",
    "nav": "navigation",
    "form": "form",
    "table": "table",
    "tr": "row",
    "td": "cell",
    "p": "paragraph",
}


def element_of(row: dict[str, Any]) -> Element:
    place = row.get("location") or {}
    tag = row["tag"].lower()
    href = row.get("href") or ""
    return Element(
        tag=tag,
        role="button" if row.get("isButton") else ROLES.get(tag, ""),
        text=" ".join(row.get("visibleText") or ())[:TEXT_MAX],
        id=row.get("id") or "",
        name_attribute=row.get("name") or "",
        classes=tuple(row.get("classList") or ()),
        href=_ARCHIVE.sub("", href) if "/web/" in href else href,
        alt=row.get("alt") or "",
        box=Box(place.get("x") or 0, place.get("y") or 0, place.get("width") or 0, place.get("height") or 0),
        neighbours=tuple(row.get("neighborText") or ()),
        xpath=row["xpath"],
        id_xpath=row.get("idxpath") or "",
    )
