"""One target in the text of a plan, written anew: the smallest change that says it, and nothing around it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from recoup.documents.plan_yaml import flow_text, plan_text, quoted_text
from recoup.documents.spots import Spot, spot_of
from recoup.documents.yaml_tree import is_json
from recoup.model.target import SHORT, Target
from recoup.shapes.tree import Place
from recoup.steps.browser.written import target_data

KEYS: Final = frozenset({*SHORT, "nth", "recorded"})
"""What belongs to the target; whatever else stands beside it is about the action."""

Edit = tuple[int, int, str]
"""From here to there, this instead."""


def respelled(text: str, place: Place, target: Target) -> Iterator[str]:
    """The text with that target in its place: first as much as possible as it was written, then in braces. Whoever
    takes one reads it again first, and looks whether it says that and nothing else. Raises Unreadable."""
    spot, data = spot_of(text, place), target_data(target)
    pen = _Json() if text.lstrip().startswith("{") and is_json(text) else _Yaml()
    for edits in (_by_entry, _whole):
        made = edits(text, spot, data, pen)
        if made is not None:
            yield _edited(text, made)


class _Yaml:
    """How things are written in this file."""

    def value(self, value: Any, old: Spot | None = None) -> str:
        if isinstance(value, str) and old is not None and old.style in ("'", '"'):
            return quoted_text(value, old.style)
        return flow_text(value)

    def entry(self, key: str, value: Any) -> str:
        return flow_text({key: value})[1:-1]

    def lines(self, key: str, value: Any) -> list[str]:
        """As a block."""
        if isinstance(value, Mapping):
            return plan_text({key: value}, ()).splitlines()
        return [self.entry(key, value)]


class _Json(_Yaml):
    def value(self, value: Any, old: Spot | None = None) -> str:
        del old
        plain = json.dumps(value, ensure_ascii=False)
        return plain if plain.isprintable() else json.dumps(value)

    def entry(self, key: str, value: Any) -> str:
        return f"{json.dumps(key)}: {self.value(value)}"


def _edited(text: str, edits: list[Edit]) -> str:
    for start, end, instead in sorted(edits, reverse=True):
        text = text[:start] + instead + text[end:]
    return text


# As it was written


def _by_entry(text: str, spot: Spot, data: dict[str, Any], pen: _Yaml) -> list[Edit] | None:
    """None: it cannot be said so."""
    if spot.entries is None:
        said = data.get("text")
        return [(spot.start, spot.end, pen.value(said, spot))] if data.keys() == {"text"} else None
    return (_in_braces if spot.flow else _in_lines)(text, spot.entries, data, pen)


Entries = tuple[tuple[Spot, Spot], ...]


def _sorted_out(entries: Entries, data: dict[str, Any]) -> tuple[list[int], list[int], dict[str, Any]]:
    """Which entries are said otherwise now, which are gone, and what is new."""
    ours = [number for number, (key, _) in enumerate(entries) if key.value in KEYS]
    gone = [number for number in ours if entries[number][0].value not in data]
    changed = [number for number in ours if number not in gone and not _says(entries[number], data)]
    there = {key.value for key, _ in entries}
    return changed, gone, {key: value for key, value in data.items() if key not in there}


def _says(entry: tuple[Spot, Spot], data: dict[str, Any]) -> bool:
    key, value = entry
    return key.value is not None and value.value is not None and value.value == str(data[key.value])


def _in_braces(text: str, entries: Entries, data: dict[str, Any], pen: _Yaml) -> list[Edit]:
    del text
    changed, gone, new = _sorted_out(entries, data)
    edits = [_value_edit(entries[number], data, pen) for number in changed]
    added = ", ".join(pen.entry(key, value) for key, value in new.items())
    kept = [number for number in range(len(entries)) if number not in gone]
    if added and gone:
        first = gone.pop(0)
        edits.append((entries[first][0].start, entries[first][1].end, added))
        kept.append(first)
    elif added:
        last = max(number for number, (key, _) in enumerate(entries) if key.value in KEYS)
        edits.append((entries[last][1].end, entries[last][1].end, f", {added}"))
    for number in gone:
        behind = any(other < number for other in kept)
        start = entries[number - 1][1].end if behind else entries[number][0].start
        end = entries[number][1].end if behind else entries[number + 1][0].start
        edits.append((start, end, ""))
    return edits


def _value_edit(entry: tuple[Spot, Spot], data: dict[str, Any], pen: _Yaml) -> Edit:
    key, old = entry
    assert key.value is not None, "an entry of ours has a name"
    return old.start, old.end, pen.value(data[key.value], old)


def _in_lines(text: str, entries: Entries, data: dict[str, Any], pen: _Yaml) -> list[Edit] | None:
    changed, gone, new = _sorted_out(entries, data)
    if not all(_begins_a_line(text, key) for key, _ in entries):
        return None
    ending = "\r\n" if "\r\n" in text else "\n"
    joint = ending + " " * entries[0][0].column

    def block(key: str, value: Any) -> str:
        return joint.join(pen.lines(key, value))

    edits = [_line_edit(text, entries[number], data, pen, block) for number in changed]
    added = joint.join(block(key, value) for key, value in new.items())
    if added and gone:
        key, value = entries[gone.pop(0)]
        edits.append((key.start, value.end, added + _line_feed(text, value.end)))
    elif added:
        last = max(number for number, (key, _) in enumerate(entries) if key.value in KEYS)
        edits.append(_behind(text, entries[last], joint, added, ending))
    for number in gone:
        key, value = entries[number]
        edits.append((key.start - key.column, _line_end(text, value.end), ""))
    return edits


def _line_edit(
    text: str, entry: tuple[Spot, Spot], data: dict[str, Any], pen: _Yaml, block: Callable[[str, Any], str]
) -> Edit:
    key, old = entry
    assert key.value is not None, "an entry of ours has a name"
    value = data[key.value]
    if isinstance(value, Mapping) and not old.flow:
        return key.start, old.end, block(key.value, value)
    start, end, instead = _value_edit(entry, data, pen)
    return start, end, instead + _line_feed(text, end)


def _begins_a_line(text: str, key: Spot) -> bool:
    return not text[key.start - key.column : key.start].strip(" ")


def _line_feed(text: str, end: int) -> str:
    """What ends the line, of a value that goes so far."""
    return next((feed for feed in ("\r\n", "\n") if text[:end].endswith(feed)), "")


def _line_end(text: str, at: int) -> int:
    """Behind the line, with what is remarked at its end."""
    if text[:at].endswith("\n"):
        return at
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _behind(text: str, entry: tuple[Spot, Spot], joint: str, added: str, ending: str) -> Edit:
    """On the lines after that of the entry."""
    at = _line_end(text, entry[1].end)
    if not text[:at].endswith("\n"):
        return at, at, joint + added
    return at, at, joint.removeprefix(ending) + added + ending


# In braces


def _whole(text: str, spot: Spot, data: dict[str, Any], pen: _Yaml) -> list[Edit]:
    beside = [
        text[key.start : value.end].strip() for key, value in spot.entries or () if key.value not in KEYS
    ]
    said = [pen.entry(key, value) for key, value in data.items()]
    return [(spot.start, spot.end, "{" + ", ".join([*said, *beside]) + "}" + _line_feed(text, spot.end))]
