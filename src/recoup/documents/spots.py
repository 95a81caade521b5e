"""Where the parts of a file stand, to the character, so that one of them can be changed and the others not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from recoup.documents.tree import Place, Unreadable, place_text
from recoup.errors import Problem


class Spot(msgspec.Struct, frozen=True):
    """One value in the text, from its first character to behind its last."""

    start: int
    end: int
    column: int
    value: str | None = None
    """Of a scalar."""
    style: str | None = None
    """Of a scalar: its quotes, or the sign of a block."""
    flow: bool = False
    """Between braces."""
    entries: tuple[tuple[Spot, Spot], ...] | None = None
    """Of a mapping."""
    items: tuple[Spot, ...] | None = None
    """Of a sequence."""


def spot_of(text: str, place: Place) -> Spot:
    """Raises Unreadable when the place is not there by its own words, but by those of an anchor elsewhere."""
    spot = _document(text)
    for number, part in enumerate(place):
        within = _part(spot, part)
        if within is None:
            where = place_text(place[: number + 1])
            raise Unreadable(f"{where} is not written out here", None, place)
        spot = within
    return spot


def _part(spot: Spot, part: str | int) -> Spot | None:
    if isinstance(part, int):
        return spot.items[part] if spot.items is not None and part < len(spot.items) else None
    return next((value for key, value in spot.entries or () if key.value == part), None)


def _document(text: str) -> Spot:
    """The quicker reader does not know pairs of escapes for one character, as JSON has them; the other does."""
    for loader in (getattr(yaml, "CSafeLoader", yaml.SafeLoader), yaml.SafeLoader):
        try:
            events = iter(yaml.parse(text, Loader=loader))
            next(events), next(events)
            return _spot(next(events), events)
        except yaml.YAMLError as error:
            problem = str(error)
    raise Unreadable(Problem("", f"cannot be taken apart: {problem}").message)


def _spot(event: Any, events: Iterator[Any]) -> Spot:
    start, column = event.start_mark.index, event.start_mark.column
    match event:
        case yaml.MappingStartEvent():
            entries: list[tuple[Spot, Spot]] = []
            while not isinstance(key := next(events), yaml.MappingEndEvent):
                entries.append((_spot(key, events), _spot(next(events), events)))
            flow = bool(event.flow_style)
            end = key.end_mark.index if flow or not entries else entries[-1][1].end
            return Spot(start, end, column, flow=flow, entries=tuple(entries))
        case yaml.SequenceStartEvent():
            items: list[Spot] = []
            while not isinstance(item := next(events), yaml.SequenceEndEvent):
                items.append(_spot(item, events))
            flow = bool(event.flow_style)
            end = item.end_mark.index if flow or not items else items[-1].end
            return Spot(start, end, column, flow=flow, items=tuple(items))
        case yaml.ScalarEvent():
            return Spot(start, event.end_mark.index, column, value=event.value, style=event.style)
    return Spot(start, event.end_mark.index, column)
