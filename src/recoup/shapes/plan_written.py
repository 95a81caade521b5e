"""A plan as it was written: whatever in it has the right shape, and where that stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from recoup.shapes.shape import as_written
from recoup.shapes.tree import Place, Tree

HANDLERS = ("rescue", "on_empty", "always")
"""The keys of a step under which other work stands."""


def default_id(number: int) -> str:
    """The id of a step that is given none."""
    return f"step-{number}"


class Part(msgspec.Struct, frozen=True):
    """A step, or one of its handlers."""

    place: Place
    index: int
    """Of the step."""
    data: Mapping[str, Any]

    def at(self, way: tuple[str, ...]) -> tuple[Place, Any]:
        """What stands there; None: nothing."""
        value: Any = self.data
        for key in way:
            value = mapping(value).get(key)
        return (*self.place, *way), value

    def checks(self) -> Iterator[tuple[Place, Mapping[str, Any]]]:
        for n, check in enumerate(listing(self.data.get("expect"))):
            yield (*self.place, "expect", n), mapping(check)


class Written:
    """The parts of a plan, by place."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.data: Mapping[str, Any] = tree.data
        self.inputs = mapping(self.data.get("inputs"))
        self.steps = [mapping(step) for step in listing(self.data.get("steps"))]
        self.ids = [_id(step, number) for number, step in enumerate(self.steps, 1)]
        self.parts = [part for index, step in enumerate(self.steps) for part in _parts(step, index)]
        self.secrets = frozenset(_secrets(self))

    def checks(self) -> Iterator[tuple[Place, Mapping[str, Any]]]:
        for part in self.parts:
            yield from part.checks()


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def way_in_part(place: Place) -> Place:
    """The rest of a place inside a step or a handler; empty for any other."""
    inside = place[2:] if place[:1] == ("steps",) else ()
    return inside[2:] if inside and inside[0] in HANDLERS else inside


def _id(step: Mapping[str, Any], number: int) -> str | None:
    written = as_written(step.get("id", default_id(number)))
    return written if isinstance(written, str) else None


def _parts(step: Mapping[str, Any], index: int) -> Iterator[Part]:
    yield Part(("steps", index), index, step)
    for key in HANDLERS:
        for n, handler in enumerate(listing(step.get(key))):
            yield Part(("steps", index, key, n), index, mapping(handler))


def _secrets(plan: Written) -> Iterator[str]:
    """As references name them."""
    yield from (f"inputs.{name}" for name, spec in plan.inputs.items() if _is_secret(spec))
    for step_id, step in zip(plan.ids, plan.steps, strict=True):
        outputs = mapping(step.get("outputs"))
        yield from (f"steps.{step_id}.outputs.{name}" for name, spec in outputs.items() if _is_secret(spec))


def _is_secret(spec: Any) -> bool:
    return mapping(spec).get("secret") is True
