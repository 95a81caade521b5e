"""How the things in a depot are called. Names hold ids and numbers only, so that no secret can be in a name."""

from __future__ import annotations

import re

from recoup.errors import UsageError

NAME_CHARS_MAX = 400
OBJECT_BYTES_MAX = 16 << 20
"""Of one object; whatever is larger goes in pieces."""
NAMES_MAX = 100_000
"""In one answer."""

_RULE = (
    "A name has letters, digits and _ . - in parts between slashes; report this: the name was made by Recoup."
)
_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_NAME = re.compile(rf"{_WORD}(/{_WORD})*")
_PREFIX = re.compile(rf"({_WORD}/)*({_WORD})?")


def checked_name(name: str) -> str:
    """Before it becomes a path."""
    if len(name) > NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise UsageError(f"not a name for the depot: {name[:80]!r}", hint=_RULE)
    return name


def checked_prefix(prefix: str) -> str:
    if len(prefix) > NAME_CHARS_MAX or not _PREFIX.fullmatch(prefix):
        raise UsageError(f"not the beginning of a name in the depot: {prefix[:80]!r}", hint=_RULE)
    return prefix


def checked_size(name: str, data: bytes) -> bytes:
    if len(data) > OBJECT_BYTES_MAX:
        raise UsageError(
            f"{name} has {len(data)} bytes, and one object in the depot has at most {OBJECT_BYTES_MAX}",
            hint="Larger bodies are stored in pieces; report this: it was not.",
        )
    return data


def folder_of(prefix: str) -> str:
    """The deepest folder in which everything that begins with `prefix` lies."""
    return prefix.rpartition("/")[0]


def run_prefix(run_id: str) -> str:
    return checked_name(f"runs/{run_id}")
