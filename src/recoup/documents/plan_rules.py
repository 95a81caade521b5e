"""What must hold in a plan beyond the shape of each part.

Works on the data as written, so that these problems are found beside those of the shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from recoup.checks import registry as checks
from recoup.documents.plan_itself import Origin, runs_itself
from recoup.documents.plan_references import (
    bad_conditions,
    bad_references,
    misplaced_references,
    secrets_in_the_open,
)
from recoup.shapes.plan_written import Part, Written, way_in_part
from recoup.shapes.tree import Place, Tree, clipped
from recoup.shapes.wording import NO_VALUE, Finding
from recoup.steps.kind import Data, StepKind, Way
from recoup.steps.registry import all_kinds, kinds_in


def broken_rules(tree: Tree, origin: Origin, *, has_shape: bool) -> Iterator[Finding]:
    """`has_shape`: nothing is wrong with any part for itself. Otherwise a key may stand in a step of another kind: each
    kind is asked about each step."""
    plan = Written(tree)
    kinds_of = kinds_in if has_shape else _every_kind
    named = list(dict.fromkeys(kind for part in plan.parts for kind in kinds_in(part.data)))
    any_json = frozenset(way for part in plan.parts for kind in kinds_of(part.data) for way in kind.any_json)
    in_checks = frozenset(
        (*place, key)
        for place, check in plan.checks()
        for kind in checks.kinds_in(check)
        for key in kind.any_json
    )
    yield from _without_value(tree.data, (), any_json, in_checks)
    yield from _duplicate_ids(plan)
    yield from bad_references(plan, kinds_of)
    yield from secrets_in_the_open(plan, kinds_of)
    yield from bad_conditions(plan)
    yield from misplaced_references(plan, kinds_of)
    yield from _rebuilt_but_never_repeated(plan)
    yield from _no_page_to_check(plan)
    for kind in named:
        yield from kind.shape.broken_rules(plan)
    for check_kind in dict.fromkeys(kind for _, check in plan.checks() for kind in checks.kinds_in(check)):
        yield from check_kind.broken_rules(plan)
    yield from runs_itself(plan, origin)


def _every_kind(data: Data) -> Iterator[StepKind[Any]]:
    del data
    return all_kinds()


def _without_value(value: Any, place: Place, any_json: Set[Way], in_checks: Set[Place]) -> Iterator[Finding]:
    """`in_checks`: where a check holds any JSON value."""
    if value is None and place:
        yield Finding(place, NO_VALUE)
    elif isinstance(value, dict):
        for key, item in value.items():
            inside = (*place, key)
            if inside not in in_checks and not _may_be_null(inside, any_json):
                yield from _without_value(item, inside, any_json, in_checks)
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from _without_value(item, (*place, n), any_json, in_checks)


def _may_be_null(place: Place, any_json: Set[Way]) -> bool:
    """Where any JSON value may stand."""
    return way_in_part(place)[:-1] in any_json


def _no_page_to_check(plan: Written) -> Iterator[Finding]:
    for part in plan.parts:
        if any(kind.has_page for kind in kinds_in(part.data)):
            return
        for place, key in _page_checks(part):
            words = "looks at a page, and no browser step comes before: add one, or name another check"
            yield Finding((*place, key), words)


def _page_checks(part: Part) -> Iterator[tuple[Place, str]]:
    """With the key that makes each one."""
    for place, check in part.checks():
        yield from ((place, key) for key in checks.keys_in(check) if checks.kind_of_key(key).looks_at_page)


def _duplicate_ids(plan: Written) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for index, step_id in enumerate(plan.ids):
        if step_id is None:
            continue
        if step_id in first:
            yield Finding(("steps", index, "id"), _taken(plan, step_id, first[step_id]))
        first.setdefault(step_id, index)


def _taken(plan: Written, step_id: str, index: int) -> str:
    line = plan.tree.line(("steps", index, "id"))
    where = f"steps[{index}]" + (f" (line {line})" if line else "")
    return f"id `{clipped(step_id)}` is already used by {where}: ids must differ"


def _rebuilt_but_never_repeated(plan: Written) -> Iterator[Finding]:
    for index, step in enumerate(plan.steps):
        repeat = step.get("repeat") or _usual_repeat(step)
        if (repeat, step.get("rebuild")) == ("never", "rerun"):
            message = (
                "a step with `repeat: never` cannot be run again after a restore: remove `rebuild`, "
                "or say `repeat: safe`"
            )
            yield Finding(("steps", index, "rebuild"), message)


def _usual_repeat(step: Mapping[str, Any]) -> str:
    return "never" if any(kind.is_never_repeated(step) for kind in kinds_in(step)) else "safe"
