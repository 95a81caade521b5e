"""What the edges need to know about a field of `RunFilter` to ask people and programs for it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

NAME_CHARS_MAX: Final = 200


class FilterKind(StrEnum):
    """How the value of a filter is compared."""

    EXACT = "exact"
    """With a column, to the letter."""
    MOMENT = "moment"
    """With the time at which the run was submitted."""
    WORDS = "words"
    """It stands somewhere in the texts of the run."""


class RunFilterField(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about one filter of runs."""

    name: str
    """Of the command's option, and in addresses of the console."""
    kind: FilterKind = FilterKind.EXACT
    choices: type[StrEnum] | None = None
    """The only values there are."""
    parameter: str = ""
    """Of the HTTP API. Empty: the name."""
    column: str = ""
    """Empty: the name of the field."""
    label: str = ""
    """In the console's form. Empty: it is chosen elsewhere on the page."""
    placeholder: str = ""
    help: str = ""
    """Of the command's option. Empty: the command has none."""
    metavar: str | None = None
    about: str = ""
    """Of the HTTP parameter."""
