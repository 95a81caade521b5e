"""The keys of browser steps, targets and checks of pages, for whoever looks at a plan before it has a shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from recoup.model.plan import BrowserVerb
from recoup.shapes.durations import PATTERN

VERBS = tuple(verb.value for verb in BrowserVerb)

NAMING = ("role", "name", "text", "label", "placeholder", "test_id", "css", "recorded")
"""The keys that name an element; the others only choose among several."""
CHOOSING = ("near", "inside", "nth", "frame")

HEAL_EXAMPLES = ["off", "report", "apply", {"mode": "apply", "max_level": 2, "learn": "on_verified"}]


def verbs_in(value: Any) -> list[str]:
    return [verb for verb in VERBS if isinstance(value, dict) and verb in value]


_ALMOST = re.compile(
    r"[0-9.]+ *(?:m?s|m|h|d|ms|msecs?|secs?|seconds?|mins?|minutes?|hours?|days?)?", re.IGNORECASE
)
"""How a duration may be written that none can be read from."""


def is_pause(value: Any) -> bool:
    """Of what is waited for: a while, or what somebody may have meant for one."""
    if isinstance(value, str):
        return re.search(PATTERN, value) is not None or _ALMOST.fullmatch(value.strip()) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def verb_of(part: Mapping[str, Any]) -> tuple[str, Any] | None:
    """The verb of a browser step or handler and what stands under it; None: it is none, or not one that can be told."""
    browser = part.get("browser")
    verbs = verbs_in(browser)
    return (verbs[0], browser[verbs[0]]) if browser is not None and len(verbs) == 1 else None
