"""Which kinds of step there are: each by the place of its object, loaded when it is first asked for.

Other packages bring kinds by the entry point `recoup.steps`. They are looked for only where a step names none of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any, Final

from recoup.checks import registry as checks_registry
from recoup.checks.registry import offered_checks
from recoup.model.plan import Action, Handler, Plan, Step, kind_of
from recoup.plugins import STEPS, PluginBroken, plugins
from recoup.steps.kind import StepKind

BUILT_IN: Final = {
    "run": "recoup.steps.run:STEP",
    "python": "recoup.steps.python:STEP",
    "agent": "recoup.steps.agent:STEP",
    "browser": "recoup.steps.browser:STEP",
    "approve": "recoup.steps.approve:STEP",
}
"""In the order in which people are told them; a step that names none counts as one of the first."""

_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
"""What the key of a kind of another package looks like: it is a capability of workers, too."""


@cache
def kind_named(key: str) -> StepKind[Any]:
    """Of a key that no package brings here, one that stands in for it."""
    if key not in BUILT_IN:
        return _custom(key)
    kind: StepKind[Any] = resolve_name(BUILT_IN[key])
    assert kind.key == key, f"the kind under {key!r} calls itself {kind.key!r}"
    return kind


def step_kind(action: Action) -> StepKind[Any]:
    return kind_named(kind_of(action))


def all_kinds() -> Iterator[StepKind[Any]]:
    """Loads them all: for words about mistakes, and for schemas."""
    yield from map(kind_named, BUILT_IN)
    yield from (kind_named(key) for key in custom_keys() if trouble_with(key) is None)


def kinds_in(data: Mapping[str, Any]) -> Iterator[StepKind[Any]]:
    """Those that a step or a handler names, as it is written."""
    ours = [key for key in BUILT_IN if key in data]
    return map(kind_named, ours or [key for key in _custom_in(data) if trouble_with(key) is None])


def custom_keys() -> tuple[str, ...]:
    """Those of the kinds that other packages bring, whether they can be loaded or not."""
    return tuple(key for key in plugins(STEPS) if key not in BUILT_IN)


def offered_kinds() -> frozenset[str]:
    """The capabilities that the packages here give to a worker: kinds of step, and checks."""
    usable = (kind_named(key) for key in custom_keys() if trouble_with(key) is None)
    return offered_checks().union(*(kind.needs for kind in usable))


def trouble_in(data: Mapping[str, Any]) -> str | None:
    """Why a kind that a step or a handler names cannot be loaded, in words."""
    troubles = map(trouble_with, _custom_in(data)) if BUILT_IN.keys().isdisjoint(data) else ()
    return next(filter(None, troubles), None)


def _custom_in(data: Mapping[str, Any]) -> list[str]:
    return [key for key in custom_keys() if key in data] if data else []


def actions_of(plan: Plan) -> Iterator[Action]:
    """Of its steps, and of all their handlers."""
    return (work.action for step in plan.steps for work in works_of(step))


def works_of(step: Step) -> tuple[Step | Handler, ...]:
    """The step, and all its handlers."""
    return (step, *step.rescue, *step.on_empty, *step.always)


def needs_of(plan: Plan) -> frozenset[str]:
    """What a worker must be capable of to drive a plan. What commands and functions call is the business of whoever
    sets workers up."""
    kinds = {kind_of(action) for action in actions_of(plan)}
    checks = [check for step in plan.steps for work in works_of(step) for check in work.expect]
    return checks_registry.needs_of(checks).union(*(kind_named(key).needs for key in kinds))


@cache
def trouble_with(key: str) -> str | None:
    """Why the kind of another package cannot be used. Loads what people write in it, too."""
    try:
        kind = _load(key)
        plugins(STEPS)[key].guarded(lambda: _must_be_whole(kind))
    except PluginBroken as broken:
        return str(broken)
    return None


def _must_be_whole(kind: StepKind[Any]) -> None:
    """Raises ValueError for keys that cannot stand in a plan."""
    from recoup.steps.custom_keys import TAKEN

    keys = kind.shape.keys().keys()
    if kind.key not in keys:
        raise ValueError(f"{kind.keys} has no key `{kind.key}`")
    if taken := sorted(keys & TAKEN):
        raise ValueError(f"{kind.keys} has `{taken[0]}`, a key of every step")


def _custom(key: str) -> StepKind[Any]:
    try:
        return _load(key)
    except PluginBroken as broken:
        from recoup.steps.custom import AbsentStep

        return AbsentStep(key, str(broken))


@cache
def _load(key: str) -> StepKind[Any]:
    """Raises PluginBroken."""
    from recoup.steps.custom import CustomStep

    plugin = plugins(STEPS).get(key)
    if plugin is None:
        raise PluginBroken(f"no package here brings steps with `{key}`")
    if _KEY.fullmatch(key) is None:
        raise PluginBroken(f"the plugin {plugin.package} brings {key!r}, which cannot be a key of a step")
    kind: CustomStep = plugin.load(CustomStep)
    if kind.key != key:
        raise PluginBroken(f"the plugin {plugin.package} brings `{key}`, which calls itself `{kind.key}`")
    kind.package = plugin.package
    kind.needs |= {key}
    return kind
