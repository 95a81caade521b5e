"""What surrounds a place in a bash script: nothing, one of the kinds of quotes, a heredoc, a calculation."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from recoup.kernel.references import TemplateError, where


class Context(Enum):
    """What surrounds a place."""

    BARE = "outside quotes"
    DOUBLE = "in double quotes"
    SINGLE = "in single quotes"
    ANSI_C = "in $'…'"
    HEREDOC = "in a heredoc"
    VERBATIM = "in a heredoc with a quoted delimiter"
    NUMBER = "where bash calculates"
    COMMENT = "in a comment"


class Heredoc(msgspec.Struct, frozen=True):
    """The body of a heredoc whose delimiter is quoted: nothing in it is expanded."""

    start: int
    end: int
    delimiter: str
    strips_tabs: bool


class Quoting(msgspec.Struct, frozen=True):
    contexts: dict[int, Context]
    """By the start of each place."""
    verbatim: tuple[Heredoc, ...]


def quoting(script: str, places: Mapping[int, int]) -> Quoting:
    """The context of each place (start → end). Raises TemplateError where nothing may be filled in."""
    from recoup.kernel.script_scan import Scan  # many patterns, and most scripts have no place in them

    scan = Scan(script, places)
    scan.commands(0, len(script), closing="")
    for start in places:
        if start not in scan.contexts:
            raise TemplateError(f"{where(script, start)}: nothing can be filled in here: use a variable")
    return Quoting(scan.contexts, tuple(scan.verbatim))
