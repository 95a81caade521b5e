"""What a page is, in digests: addresses and names may hold anything."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from recoup.model.target import Element, Fingerprint

NAMES_MAX: Final = 200
_FIELDS: Final = frozenset(
    {"checkbox", "combobox", "listbox", "radio", "searchbox", "slider", "spinbutton", "switch"}
)
_CHOICES: Final = frozenset({"menuitem", "menuitemcheckbox", "menuitemradio", "option", "tab", "treeitem"})
_ACTED_ON: Final = _FIELDS | _CHOICES | {"button", "link", "textbox"}


def fingerprint(url: str, title: str, elements: Sequence[Element]) -> Fingerprint:
    names = {
        f"{element.role}\n{element.name}"
        for element in elements
        if element.visible and element.role in _ACTED_ON
    }
    return Fingerprint(
        url=_digest(normalised(url)),
        title=_digest(title),
        names=tuple(sorted(map(_digest, names))[:NAMES_MAX]),
    )


def normalised(url: str) -> str:
    """Without a fragment, parameters sorted."""
    parts = urlsplit(url)
    query = urlencode(sorted(parse_qsl(parts.query, keep_blank_values=True)))
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path or "/", query, ""))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
