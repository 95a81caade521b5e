"""Texts that are looked for: to the letter, or by an expression."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from recoup.checks.kind import Absent
from recoup.checks.spots import Fill, Spot
from recoup.model.plan import TextMatch

SPOTS: Final[Mapping[str, Spot]] = {"regex": Spot.REGEX}
"""Of a text as people write it."""


def find(match: TextMatch, text: str, where: str) -> str:
    """Returns words about what was found. Raises Absent."""
    if match.text is not None:
        if match.text not in text:
            raise Absent(f"{where} does not contain {quoted(match.text)}")
        return "found"
    hit = search(match.regex or "", text)
    if hit is None:
        raise Absent(f"{where} does not match /{match.regex}/")
    return f"matched {quoted(hit.group(0))}"


def search(pattern: str, text: str) -> Any:
    """RE2: linear in the text, whatever the pattern."""
    import re2

    return re2.search(pattern, text)


def quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def match_words(match: TextMatch) -> str:
    return match.text if match.text is not None else f"/{match.regex}/"


def filled_match(match: TextMatch, fill: Fill) -> TextMatch:
    text = None if match.text is None else fill(match.text, Spot.TEXT)
    regex = None if match.regex is None else fill(match.regex, Spot.REGEX)
    return TextMatch(text, regex)
