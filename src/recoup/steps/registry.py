"""Which kinds of step there are: each by the place of its object, loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any, Final

from recoup.model.plan import Action, Plan, kind_of
from recoup.steps.kind import StepKind

BUILT_IN: Final = {
    "run": "recoup.steps.run:STEP",
    "python": "recoup.steps.python:STEP",
    "agent": "recoup.steps.agent:STEP",
    "browser": "recoup.steps.browser:STEP",
    "approve": "recoup.steps.approve:STEP",
}
"""In the order in which people are told them; a step that names none counts as one of the first."""


@cache
def kind_named(key: str) -> StepKind[Any]:
    kind: StepKind[Any] = resolve_name(BUILT_IN[key])
    assert kind.key == key, f"the kind under {key!r} calls itself {kind.key!r}"
    return kind


def step_kind(action: Action) -> StepKind[Any]:
    return kind_named(kind_of(action))


def all_kinds() -> Iterator[StepKind[Any]]:
    """Loads them all: for words about mistakes, and for schemas."""
    return map(kind_named, BUILT_IN)


def kinds_in(data: Mapping[str, Any]) -> Iterator[StepKind[Any]]:
    """Those that a step or a handler names, as it is written."""
    return (kind_named(key) for key in BUILT_IN if key in data)


def actions_of(plan: Plan) -> Iterator[Action]:
    """Of its steps, and of all their handlers."""
    for step in plan.steps:
        yield step.action
        yield from (handler.action for handler in (*step.rescue, *step.on_empty, *step.always))


def needs_of(plan: Plan) -> frozenset[str]:
    """What a worker must be capable of to drive a plan. What commands and functions call is the business of whoever
    sets workers up."""
    kinds = {kind_of(action) for action in actions_of(plan)}
    return frozenset[str]().union(*(kind_named(key).needs for key in kinds))
