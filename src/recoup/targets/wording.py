"""Texts as they are compared: words without case and punctuation, pairs of letters, parts of names and addresses."""

from __future__ import annotations

import re
from typing import Final

from recoup.model.target import plain

COMPARED_MAX: Final = 200
"""Letters of a text that are looked at: what is longer is told apart by its beginning."""
HINTS_MAX: Final = 40
"""Parts of attributes that are looked at, per element."""
PARAMETERS_MAX: Final = 12
INITIALS_MAX: Final = 60
"""In longer texts a dot ends a sentence."""

_WORD: Final = re.compile(r"\w+")
_SPACED: Final = bytes(code if re.match(r"\w", chr(code)) else ord(" ") for code in range(256))
"""ASCII with a space for all that is in no word: several times quicker than the expression."""
_PART: Final = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+")
_INITIALS: Final = re.compile(r"(?<=\b\w)\.(?=\w\b|\s|$)")
_ADDRESS: Final = re.compile(r"^(?:https?:)?//(?:www\.)?", re.IGNORECASE)
_ENDING: Final = re.compile(r"(?:/|\.html?|\.php|\.aspx?|\bindex)+$")
_ENDED: Final = ("/", ".html", ".htm", ".php", ".aspx", ".asp", "index", "\n")
"""What an address must end in to have such an ending: to look for one in each address takes longer."""
_JOINS: Final = r"[-_./:@#+,'’&]"
"""What joins two parts of one word, if a letter or a digit stands on either side: `INV-10` is not in `INV-10-B`."""
_UNSPACED: Final = re.compile(r"[぀-ヿ㐀-鿿豈-﫿฀-๿]")
"""Scripts that put no spaces between words."""


def words_of(text: str) -> list[str]:
    """Lower case, without apostrophes and punctuation; `U.S.` is one word."""
    text = text[:COMPARED_MAX].lower()
    if "'" in text or "’" in text:
        text = text.replace("'", "").replace("’", "")
    if "." in text and len(text) <= INITIALS_MAX:
        text = _INITIALS.sub("", text)
    if text.isascii():
        return text.encode("ascii").translate(_SPACED).decode("ascii").split()
    return _WORD.findall(text)


def parts_of(name: str) -> list[str]:
    """`searchBox_2` is search, box, 2: how people build ids, classes and addresses."""
    return [part.lower() for part in _PART.findall(name[:COMPARED_MAX])[:HINTS_MAX]]


def link_of(href: str) -> str:
    """An address without what changes and means nothing: scheme, www, fragment, parameters, ending.

    One that ends in a bare `#` leads nowhere: its page does something of its own when it is clicked.
    """
    if not href or href[0] == "#" or href[-1] == "#" or href.startswith("javascript:"):
        return ""
    address = _ADDRESS.sub("", href) if "//" in href[:8] else href
    plain = address.partition("#")[0].partition("?")[0].lower()
    return (_ENDING.sub("", plain) if plain.endswith(_ENDED) else plain) or ("/" if plain else "")


def parameters_of(href: str) -> frozenset[str]:
    """What an address says after its question mark, one by one."""
    query = href.partition("?")[2].partition("#")[0]
    return frozenset(part.lower() for part in query.split("&")[:PARAMETERS_MAX] if part)


def pairs_of(text: str) -> frozenset[str]:
    """Neighbouring letters, the ends included: what likeness is counted in."""
    padded = f" {text} "
    return frozenset(map(str.__add__, padded, padded[1:]))


def likeness(left: frozenset[str], right: frozenset[str]) -> float:
    """Dice's coefficient, 0 to 1; nothing is like nothing else, not even nothing."""
    if not left or not right:
        return 0.0
    return 2.0 * len(left & right) / (len(left) + len(right))


def ratio(left: str, right: str) -> float:
    """How alike two texts are, 0 to 1: what a profile's `min_ratio` is compared with."""
    if left == right:
        return 1.0
    return likeness(pairs_of(" ".join(words_of(left))), pairs_of(" ".join(words_of(right))))


def overlap(left: frozenset[str], right: frozenset[str]) -> float:
    """Shared among all, 0 to 1."""
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared) if shared else 0.0


def holds(words: str, text: str) -> bool:
    """Whether the text has these words, as whole words."""
    wanted, there = plain(words), plain(text)
    if not wanted or wanted not in there:
        return False
    begin = rf"(?<!\w)(?<!\w{_JOINS})" if _is_bound(wanted[0]) else ""
    end = rf"(?!\w)(?!{_JOINS}\w)" if _is_bound(wanted[-1]) else ""
    return re.search(begin + re.escape(wanted) + end, there) is not None


def _is_bound(sign: str) -> bool:
    return (sign.isalnum() or sign == "_") and not _UNSPACED.match(sign)
