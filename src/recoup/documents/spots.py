"""Where the parts of a file stand, to the character, so that one of them can be changed and the others not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from recoup.shapes.tree import Place, Unreadable, place_text


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
    try:
        return _read(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        try:
            return _read(text, yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise Unreadable(f"the file cannot be taken apart: {error}") from None


def _read(text: str, loader: Any) -> Spot:
    events: Iterator[Any] = iter(yaml.parse(text, Loader=loader))
    next(events), next(events)
    return _spot(next(events), events)


def _spot(event: Any, events: Iterator[Any]) -> Spot:
    start, column = event.start_mark.index, event.start_mark.column
    if isinstance(event, yaml.MappingStartEvent):
        return _mapping(Spot(start, start, column, flow=bool(event.flow_style)), events)
    if isinstance(event, yaml.SequenceStartEvent):
        return _sequence(Spot(start, start, column, flow=bool(event.flow_style)), events)
    end = event.end_mark.index
    if isinstance(event, yaml.ScalarEvent):
        return Spot(start, end, column, value=event.value, style=event.style)
    return Spot(start, end, column)


def _mapping(spot: Spot, events: Iterator[Any]) -> Spot:
    """Without braces it ends with its last entry: what the reader calls its end is where the next thing begins."""
    entries: list[tuple[Spot, Spot]] = []
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = _spot(event, events)
        entries.append((key, _spot(next(events), events)))
    end = _end(event) if spot.flow or not entries else entries[-1][1].end
    return msgspec.structs.replace(spot, end=end, entries=tuple(entries))


def _sequence(spot: Spot, events: Iterator[Any]) -> Spot:
    items: list[Spot] = []
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        items.append(_spot(event, events))
    end = _end(event) if spot.flow or not items else items[-1].end
    return msgspec.structs.replace(spot, end=end, items=tuple(items))


def _end(event: Any) -> int:
    return int(event.end_mark.index)
