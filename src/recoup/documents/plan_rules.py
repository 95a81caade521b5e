"""What must hold in a plan beyond the shape of each part.

Works on the data as written, so that these problems are found beside those of the shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recoup.documents.plan_itself import Origin, runs_itself
from recoup.documents.plan_pages import broken_page_rules, never_repeated
from recoup.documents.plan_references import (
    bad_conditions,
    bad_references,
    misplaced_references,
    secrets_in_the_open,
)
from recoup.documents.plan_written import Written, way_in_part
from recoup.documents.tree import Place, Tree, clipped
from recoup.documents.wording import NO_VALUE, Finding


def broken_rules(tree: Tree, origin: Origin) -> Iterator[Finding]:
    plan = Written(tree)
    yield from _without_value(tree.data, ())
    yield from _duplicate_ids(plan)
    yield from bad_references(plan)
    yield from secrets_in_the_open(plan)
    yield from bad_conditions(plan)
    yield from misplaced_references(plan)
    yield from _diffs_without_workspace(plan)
    yield from _rebuilt_but_never_repeated(plan)
    yield from broken_page_rules(plan)
    yield from runs_itself(plan, origin)


def _without_value(value: Any, place: Place) -> Iterator[Finding]:
    if value is None and place:
        yield Finding(place, NO_VALUE)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not _may_be_null((*place, key)):
                yield from _without_value(item, (*place, key))
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from _without_value(item, (*place, n))


def _may_be_null(place: Place) -> bool:
    """Where any JSON value may stand."""
    match way_in_part(place):
        case ("expect", _, "equals") | ("with", _):
            return True
    return False


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


def _diffs_without_workspace(plan: Written) -> Iterator[Finding]:
    if plan.data.get("workspace") is not None:
        return
    for place, check in plan.checks():
        if "diff" in check:
            message = (
                "nothing is known about changes without a workspace: add `workspace: {git: .}` to the plan"
            )
            yield Finding((*place, "diff"), message)


def _rebuilt_but_never_repeated(plan: Written) -> Iterator[Finding]:
    for index, step in enumerate(plan.steps):
        repeat = step.get("repeat") or ("never" if never_repeated(step) else "safe")
        if (repeat, step.get("rebuild")) == ("never", "rerun"):
            message = (
                "a step with `repeat: never` cannot be run again after a restore: remove `rebuild`, "
                "or say `repeat: safe`"
            )
            yield Finding(("steps", index, "rebuild"), message)
