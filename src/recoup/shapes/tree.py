"""Plain data that remembers on which line everything stands, within bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from recoup.errors import Problem

DEPTH_MAX = 64
NODES_MAX = 300_000
INTEGER_BITS_MAX = 1_000
"""Larger ones could not be compared with a float."""
KEY_SHOWN_CHARS_MAX = 60

Place = tuple[str | int, ...]


class Unreadable(Exception):
    """The text cannot be understood any further."""

    def __init__(self, message: str, line: int | None = None, place: Place = ()) -> None:
        super().__init__(message)
        self.problem = Problem(place_text(place), message, line)


class Tree(msgspec.Struct, frozen=True):
    """The data, where its parts stand, and what was wrong without making it unreadable."""

    data: Any
    lines: Mapping[Place, int] = {}
    problems: tuple[Problem, ...] = ()

    def line(self, place: Place) -> int | None:
        """Of the place, or of the nearest thing around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)

    def problem(self, place: Place, message: str) -> Problem:
        return Problem(place_text(place), message, self.line(place))


class Budget:
    """Counts every value, repeated ones too."""

    def __init__(self) -> None:
        self._nodes = 0

    def spend(self, place: Place, line: int | None) -> None:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise Unreadable(f"more than {NODES_MAX:,} values, repeated aliases included: split it up", line)
        if len(place) > DEPTH_MAX:
            raise Unreadable(f"nested more than {DEPTH_MAX} levels deep: make it flatter", line)

    def spend_again(self, value: Any, place: Place, line: int) -> None:
        self.spend(place, line)
        for key, item in _entries(value):
            self.spend_again(item, (*place, key), line)


def tree_of(data: Any) -> Tree:
    """Data that was never text, held to the same bounds. Raises Unreadable."""
    return Tree(_copied(data, (), Budget()))


def place_text(place: Place) -> str:
    """`steps[2].expect[0].file`"""
    text = "".join(_part_text(part) for part in place)
    return text.removeprefix(".")


def clipped(text: str, chars_max: int = KEY_SHOWN_CHARS_MAX) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def refuse_nul(value: Any, place: Place, line: int | None) -> None:
    if isinstance(value, str) and "\0" in value:
        raise Unreadable(
            "holds a NUL character, which no command, path or name can carry: remove it", line, place
        )


_BARE_KEY = re.compile(r"[A-Za-z0-9_$-]+")


def _part_text(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    part = clipped(part)
    return f".{part}" if _BARE_KEY.fullmatch(part) else f"[{json.dumps(part, ensure_ascii=False)}]"


def _entries(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _copied(value: Any, place: Place, budget: Budget) -> Any:
    budget.spend(place, None)
    match value:
        case None | bool() | float():
            return value
        case int():
            return _checked_int(value, place)
        case str():
            return _checked_text(value, place)
        case list() | tuple():
            return [_copied(item, (*place, n), budget) for n, item in enumerate(value)]
        case Mapping():
            return _copied_entries(value, place, budget)
        case _:
            raise Unreadable(
                f"a value of type {type(value).__name__} cannot be written in a file", None, place
            )


def _copied_entries(mapping: Mapping[Any, Any], place: Place, budget: Budget) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for written, value in mapping.items():
        key = _copied_key(written, place)
        if key in entries:
            raise Unreadable("this key stands here twice: keep one of the two", None, (*place, key))
        entries[key] = _copied(value, (*place, key), budget)
    return entries


def _copied_key(key: Any, place: Place) -> str:
    if isinstance(key, str):
        return _checked_text(key, place)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(_checked_int(key, place))
    raise Unreadable(f"a key must be text, not {type(key).__name__}", None, place)


def _checked_int(number: int, place: Place) -> int:
    if number.bit_length() > INTEGER_BITS_MAX:
        raise Unreadable(f"a number of more than {INTEGER_BITS_MAX:,} bits: write it as text", None, place)
    return int(number)


def _checked_text(text: str, place: Place) -> str:
    refuse_nul(text, place, None)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unreadable(
            "holds half of a surrogate pair: it cannot be written as UTF-8", None, place
        ) from None
    return str.__str__(text)
