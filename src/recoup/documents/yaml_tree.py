"""YAML 1.2 (core schema) or JSON as plain data that remembers on which line everything stands.

Only `true` and `false` are booleans, keys are always text, and a number remembers how it was written. Built
from parser events, so that size, depth and aliases are bounded before anything large exists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from recoup.documents.syntax_words import syntax_problem
from recoup.errors import Problem
from recoup.shapes.scalars import scalar
from recoup.shapes.tree import Budget, Place, Tree, Unreadable, clipped, place_text, refuse_nul


def parse_tree(text: str) -> Tree:
    """Raises Unreadable."""
    _refuse_unprintable(text)
    builder = _Builder(_with_joined_surrogates(text))
    try:
        return builder.document()
    except yaml.YAMLError as error:
        raise syntax_problem(error, text) from None


DUPLICATES_MAX = 1_000
"""Far more than anybody is told of."""
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE_PAIR = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)
_STRING_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})


def _refuse_unprintable(text: str) -> None:
    found = _UNPRINTABLE.search(text)
    if found is None:
        return
    line = text.count("\n", 0, found.start()) + 1
    raise Unreadable(f"the character U+{ord(found[0]):04X} cannot stand in this file: remove it", line)


def _with_joined_surrogates(text: str) -> str:
    """JSON writes a character beyond U+FFFF as two escapes, which YAML does not know."""
    if not text.lstrip().startswith(("{", "[")) or not _SURROGATE_PAIR.search(text) or not is_json(text):
        return text
    return _SURROGATE_PAIR.sub(_joined, text)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _joined(pair: re.Match[str]) -> str:
    high, low = int(pair[2], 16), int(pair[3], 16)
    return f"{pair[1]}\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


class _Builder:
    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._budget = Budget()
        self._anchors: dict[str, Any] = {}
        self._lines: dict[Place, int] = {}
        self._problems: list[Problem] = []

    def document(self) -> Tree:
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return Tree(None)
        first = next(self._events)
        self._lines[()] = _line(first)
        data = self._value(first, ())
        next(self._events)
        self._expect_end(next(self._events))
        return Tree(data, self._lines if data is not None else {}, tuple(self._problems))

    def _expect_end(self, event: Any) -> None:
        if not isinstance(event, yaml.StreamEndEvent):
            raise Unreadable("a second document begins here: keep one document in a file", _line(event))

    def _value(self, event: Any, place: Place) -> Any:
        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            return self._repeated(str(event.anchor), place, line)
        self._budget.spend(place, line)
        _refuse_tag(event, place)
        value = self._fresh(event, place)
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _repeated(self, anchor: str, place: Place, line: int) -> Any:
        if anchor not in self._anchors:
            raise Unreadable(
                f"alias *{clipped(anchor)} stands for nothing that was complete before this line: "
                f"put &{clipped(anchor)} on an earlier value",
                line,
                place,
            )
        value = self._anchors[anchor]
        self._budget.spend_again(value, place, line)
        return value

    def _fresh(self, event: Any, place: Place) -> Any:
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(place)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(place)
        value = scalar(event)
        refuse_nul(value, place, _line(event))
        return value

    def _sequence(self, place: Place) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            here = (*place, len(items))
            self._lines[here] = _line(event)
            items.append(self._value(event, here))
        return items

    def _mapping(self, place: Place) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, line = _key(event, place), _line(event)
            here = (*place, key)
            if key in entries:
                self._skip_duplicate(here, line)
                continue
            self._lines[here] = line
            entries[key] = self._value(next(self._events), here)
        return entries

    def _skip_duplicate(self, here: Place, line: int) -> None:
        """The first one stays; the second is read for its own problems only, under no name that counts."""
        if len(self._problems) >= DUPLICATES_MAX:
            raise Unreadable(f"more than {DUPLICATES_MAX:,} keys stand twice: keep one of each", line, here)
        message = f"this key stands here twice, first on line {self._lines[here]}: keep one of the two"
        self._problems.append(Problem(place_text(here), message, line))
        lines, self._lines = self._lines, {}
        self._value(next(self._events), here)
        self._lines = lines


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _key(event: Any, place: Place) -> str:
    if not isinstance(event, yaml.ScalarEvent):
        message = "a key must be plain text; if this is text that begins with { or [, put it in quotes"
        raise Unreadable(message, _line(event), place)
    _refuse_tag(event, place)
    _refuse_merge(event, place)
    refuse_nul(event.value, place, _line(event))
    return event.value


def _refuse_tag(event: Any, place: Place) -> None:
    allowed = _STRING_TAGS if isinstance(event, yaml.ScalarEvent) else ()
    if event.tag is not None and event.tag not in allowed:
        raise Unreadable(f"the tag {clipped(event.tag)} is not allowed: remove it", _line(event), place)


def _refuse_merge(event: Any, place: Place) -> None:
    if event.value == "<<" and event.implicit[0]:
        message = "merge keys (<<) are not read: write the keys out, or say it once under `defaults`"
        raise Unreadable(message, _line(event), place)
