"""Where in a check a reference may stand, and what a secret must not be part of."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final


class Spot(Enum):
    """Where in a check a reference stands."""

    TEXT = "text"
    VALUE = "value"
    """Any JSON value."""
    SCRIPT = "script"
    WORD = "word"
    """An argument of a command."""
    REGEX = "regex"
    ADDRESS = "address"
    PATHS = "paths"


NO_SECRETS: Final = {
    Spot.WORD: "every user of the machine can read the arguments of a command: use a script, `run: …` as text",
    Spot.REGEX: "a pattern is shown in messages: compare it as text",
    Spot.ADDRESS: "a pattern is shown in messages: compare it as text",
    Spot.PATHS: "a pattern is shown in messages",
}
"""Where no secret may stand, and why: escaped for a pattern it would not be recognised and masked."""

Fill = Callable[[Any, Spot], Any]
"""Gives back a text of a check, or a JSON value, with its references filled in."""
