"""Plan files: YAML or JSON becomes a Plan, or InvalidPlan with everything that is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from recoup.documents.plan_itself import Origin
from recoup.documents.plan_rules import broken_rules
from recoup.documents.plan_shape import PlanShape
from recoup.documents.text_file import decoded, read_text
from recoup.documents.yaml_tree import parse_tree
from recoup.errors import InvalidPlan
from recoup.model.plan import Input, Plan
from recoup.model.policy import Policy
from recoup.model.target import Heal
from recoup.model.workspace import Source
from recoup.shapes.tree import Tree, Unreadable, tree_of
from recoup.shapes.wording import Finding, findings, problems_of, said_beside

_DEFAULT_POLICY = Policy()


def read_plan(path: str | Path, policy: Policy = _DEFAULT_POLICY) -> Plan:
    """The plan in a file. Raises InvalidPlan; nothing else."""
    path = Path(path)
    try:
        text = read_text(path, policy.plan_bytes_max)
    except Unreadable as unreadable:
        raise InvalidPlan(str(path), [unreadable.problem]) from None
    return parse_plan(text, str(path), _folder(path), file=path.absolute(), policy=policy)


def parse_plan(
    text: str | bytes,
    source: str = "plan",
    folder: str | Path = ".",
    *,
    file: Path | None = None,
    policy: Policy = _DEFAULT_POLICY,
) -> Plan:
    """`source` is what messages call it; relative paths in it are taken from `folder`. Raises InvalidPlan."""
    try:
        tree = parse_tree(decoded(text, policy.plan_bytes_max))
    except Unreadable as unreadable:
        raise InvalidPlan(source, [unreadable.problem]) from None
    return _plan(tree, source, _origin(folder, file), policy)


def plan_from_data(
    data: Any, source: str = "plan", folder: str | Path = ".", *, policy: Policy = _DEFAULT_POLICY
) -> Plan:
    """The same from data that was never a file. Raises InvalidPlan."""
    try:
        tree = tree_of(data)
    except Unreadable as unreadable:
        raise InvalidPlan(source, [unreadable.problem]) from None
    return _plan(tree, source, _origin(folder, None), policy)


def _folder(path: Path) -> Path:
    """A plan that comes through a pipe belongs to the folder it was given in."""
    return path.absolute().parent if path.is_file() else Path.cwd()


def _origin(folder: str | Path, file: Path | None) -> Origin:
    return Origin(Path(os.path.normpath(Path(folder).absolute())), file)


def _plan(tree: Tree, source: str, origin: Origin, policy: Policy) -> Plan:
    _refuse_whole(tree, source, policy)
    shape, found, more = _shape(tree)
    found += said_beside(found, broken_rules(tree, origin, has_shape=shape is not None))
    if shape is None or found or tree.problems:
        raise InvalidPlan(source, problems_of(tree, found, more))
    return _value(shape, origin.folder)


def _refuse_whole(tree: Tree, source: str, policy: Policy) -> None:
    """What makes looking any closer pointless."""
    message = _whole_problem(tree.data, policy)
    if message is not None:
        place, words = message
        raise InvalidPlan(source, [tree.problem(place, words)])


def _whole_problem(data: Any, policy: Policy) -> tuple[tuple[str, ...], str] | None:
    if data is None:
        return (), "the file is empty: a plan has `version: 1`, `name` and `steps`"
    if not isinstance(data, dict):
        return (), "a plan is a mapping with `version: 1`, `name` and `steps`, not a list or a single value"
    steps = data.get("steps")
    if isinstance(steps, list) and len(steps) > policy.plan_steps_max:
        return ("steps",), (
            f"{len(steps):,} steps are more than {policy.plan_steps_max:,} (plan_steps_max): "
            "split the plan up, or let one step do many things in a loop of its own"
        )
    return None


def _shape(tree: Tree) -> tuple[PlanShape | None, list[Finding], int]:
    try:
        return PlanShape.model_validate(tree.data), [], 0
    except ValidationError as error:
        from recoup.documents.plan_words import plan_vocabulary

        return None, *findings(error, plan_vocabulary())


def _value(shape: PlanShape, folder: Path) -> Plan:
    plan = Plan(
        name=shape.name,
        steps=tuple(step.value(number) for number, step in enumerate(shape.steps, 1)),
        objective=shape.objective,
        inputs=_inputs(shape.inputs),
        workspace=_source(shape.workspace, folder),
        folder=str(folder),
        secrets=tuple(dict.fromkeys(shape.secrets)),
    )
    # Left out when nothing is said, as in a plan made without them: both have one digest.
    if shape.defaults is not None:
        plan = msgspec.structs.replace(plan, defaults=shape.defaults.limits())
    return plan if shape.heal is None else msgspec.structs.replace(plan, heal=_heal(shape.heal))


def _inputs(written: dict[str, Any]) -> dict[str, Input]:
    if not written:
        return {}
    from recoup.documents.input_shape import input_value

    return {name: input_value(given) for name, given in written.items()}


def _source(workspace: Any, folder: Path) -> Source | None:
    source: Source | None = None if workspace is None else workspace.value(folder)
    return source


def _heal(written: Any) -> Heal:
    from recoup.shapes.heal_shape import heal_value

    return heal_value(written)
