"""The words for what can be wrong in a plan only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from recoup.checks import registry as checks
from recoup.checks.sources.registry import all_sources, sources_in
from recoup.documents.check_shape import check_shapes
from recoup.documents.handler_shape import HandlerShape, handler_shape
from recoup.documents.input_shape import InputShape
from recoup.documents.limits_shape import LimitsShape
from recoup.documents.output_shape import output_shapes
from recoup.documents.plan_shape import PlanShape
from recoup.documents.retry_shape import RetryShape
from recoup.documents.step_shape import HANDLERS, STEPS, StepKeys, step_shape
from recoup.documents.workspace_shape import FolderShape, GitShape
from recoup.shapes.forms import RegexShape
from recoup.shapes.heal_shape import HealShape
from recoup.shapes.shape import TAG, Shape
from recoup.shapes.tree import clipped
from recoup.shapes.wording import Detail, Vocabulary, described, if_a_plugin_brings, listed, suggestion
from recoup.steps.kind import StepKind
from recoup.steps.registry import all_kinds, kinds_in

_SHAPES: dict[str, type[Shape]] = {
    "defaults": LimitsShape,
    "retry": RetryShape,
    TAG + "heal": HealShape,
    TAG + "mapping": RegexShape,
    TAG + "input": InputShape,
    TAG + "git": GitShape,
    TAG + "folder": FolderShape,
}
"""What stands under these keys, and in these branches of a union."""


def plan_vocabulary() -> Vocabulary:
    of_kinds = {key: shape for kind in all_kinds() for key, shape in kind.shape.shapes().items()}
    of_checks = {key: shape for kind in checks.all_kinds() for key, shape in kind.shapes.parts.items()}
    of_parts = {**STEPS.shapes(), **HANDLERS.shapes(), **check_shapes(), **output_shapes()}
    return Vocabulary(PlanShape, {**_SHAPES, **of_kinds, **of_checks, **of_parts}, own_words)


def own_words(detail: Detail, shape: type[Shape]) -> str | None:
    given, key = detail["input"], str(detail["loc"][-1])
    match detail["type"]:
        case "missing" if issubclass(shape, StepKeys | HandlerShape) and key == shape.kind.key:
            return _nothing_to_do(given, shape)
        case "extra_forbidden" if key.isidentifier() and _is_usual_source(shape):
            return _not_in_output(key)
        case "extra_forbidden" if issubclass(shape, StepKeys):
            return _not_in_step(key, shape)
        case "extra_forbidden" if issubclass(shape, HandlerShape):
            return _not_in_handler(key, shape)
        case "string_type" if given is None and detail["loc"][0] == "inputs":
            return "has no value: write `{required: true}`, or a default"
        case "too_short" if key == "steps":
            return "a plan needs at least one step: add `- run: …`"
        case "which_check" if given is not None:
            return _which_check(given)
        case "which_output" if given is not None:
            return _which_output(given)
        case "which_workspace" if given is not None:
            return _which_workspace(given)
        case _:
            return _words_of_kinds(detail, shape)


def _words_of_kinds(detail: Detail, shape: type[Shape]) -> str | None:
    said = (kind.shape.words(detail, shape) for kind in all_kinds())
    return next((words for words in said if words is not None), None)


def _keys(shape: type[StepKeys | HandlerShape]) -> list[str]:
    """Those of the kinds that may stand there."""
    return [kind.key for kind in all_kinds() if issubclass(shape, StepKeys) or kind.is_work]


def _part(shape: type[Shape]) -> str:
    return "step" if issubclass(shape, StepKeys) else "handler"


def _nothing_to_do(given: Mapping[str, Any], shape: type[StepKeys | HandlerShape]) -> str:
    named = any(kinds_in(given)) or any(key in given for kind in all_kinds() for key in kind.shape.means)
    words = f"this {_part(shape)} says nothing to do: add {_either(_keys(shape))}"
    return "" if named else f"{words}{_of_a_plugin(given)}"


def _of_a_plugin(given: Mapping[str, Any]) -> str:
    """Where a key may be that of a kind whose package is not installed here."""
    known = {*_keys_of_work(), *_ELSEWHERE, *(key for kind in all_kinds() for key in kind.shape.elsewhere)}
    unknown = [key for key in given if key not in known]
    if len(unknown) != 1 or not unknown[0].isidentifier() or suggestion(unknown[0], known):
        return ""
    return if_a_plugin_brings(unknown[0])


def _either(words: list[str]) -> str:
    return f"{listed(words[:-1])} or `{words[-1]}`"


def _not_in_step(key: str, shape: type[StepKeys]) -> str | None:
    if not shape.kind.is_work and key in _keys_of_work():
        return "makes no sense where a person is asked: remove it"
    return _second_kind(key, shape) or _misread(key, (*shape.keys(), *_keys(shape)))


def _not_in_handler(key: str, shape: type[HandlerShape]) -> str | None:
    kinds = {kind.key: kind for kind in all_kinds()}
    if key in kinds and not kinds[key].is_work:
        return f"a handler cannot wait for a person: use {_either(_keys(shape))}"
    if second := _second_kind(key, shape):
        return second
    if key in _keys_of_work() - _keys_of_handlers():
        return f"a handler has no `{key}`: remove it"
    return _misread(key, (*shape.keys(), *_keys(shape)))


def _second_kind(key: str, shape: type[StepKeys | HandlerShape]) -> str | None:
    if key not in _keys(shape):
        return None
    part = _part(shape)
    return f"this {part} has `{shape.kind.key}` already: keep one of the two, or make two {part}s of them"


@cache
def _keys_of_work() -> frozenset[str]:
    """Of all steps in which Recoup does something."""
    return _all_keys(step_shape(kind) for kind in _work())


@cache
def _keys_of_handlers() -> frozenset[str]:
    return _all_keys(shape for kind in _work() if (shape := handler_shape(kind)) is not None)


def _work() -> Iterator[StepKind[Any]]:
    return (kind for kind in all_kinds() if kind.is_work)


def _all_keys(shapes: Iterable[type[Shape]]) -> frozenset[str]:
    return frozenset[str]().union(*(shape.keys() for shape in shapes))


def _is_usual_source(shape: type[Shape]) -> bool:
    """Of an output that names none."""
    return any(shape is source.shape for source in all_sources() if not source.key)


def _not_in_output(key: str) -> str:
    known = sorted(set[str]().union(*(source.shape.keys() for source in all_sources())))
    if key in known:
        return f"does not say what to take: add {', or '.join(source.how for source in all_sources() if source.how)}"
    meant = suggestion(key, known)
    return f"unknown key: {meant or 'the keys here are ' + listed(known)}"


_ELSEWHERE = {
    "name": "here it is called `id` (for references) or `title` (for people)",
    "if": "here it is called `when`",
    "retries": "here it is called `max_attempts`, the first attempt included; or see `retry`",
    "timeout-minutes": "here it is called `timeout`, such as `timeout: 15m`",
    "timeout_seconds": "here it is called `timeout`, such as `timeout: 90s`",
    "needs": "steps run in the order in which they are written: remove it",
    "depends_on": "steps run in the order in which they are written: remove it",
    "working-directory": "steps run in the workspace, or the plan's folder: begin the script with `cd`",
    "working_directory": "steps run in the workspace, or the plan's folder: begin the script with `cd`",
    "cwd": "steps run in the workspace, or the plan's folder: begin the script with `cd`",
    "continue-on-error": "a step that fails ends the run: add `rescue`, or end the command with `|| true`",
    "ignore_errors": "a step that fails ends the run: add `rescue`, or end the command with `|| true`",
    "register": "here it is called `outputs`",
    "environment": "here it is called `env`",
    "command": "here it is called `run`",
    "cmd": "here it is called `run`",
    "script": "here it is called `run`",
    "shell": "here it is called `run`",
}
"""What other tools call the keys of a step."""


def _misread(key: str, known: Iterable[str]) -> str | None:
    """The words for what may belong to another kind; None: it does not."""
    for kind in all_kinds():
        if key in kind.shape.elsewhere:
            return kind.shape.elsewhere[key]
    if key in _ELSEWHERE:
        return f"unknown key: {_ELSEWHERE[key]}"
    meant = suggestion(key, known)
    return f"unknown key: {meant}" if meant else None


def _which_check(given: Any) -> str:
    if not isinstance(given, dict):
        return f"must be a mapping such as {{file: out.txt}}, not {described(given)}"
    several = [key for key in checks.check_keys() if key in given]
    if several:
        return f"holds {len(several)} checks ({listed(several)}): make each an item of the list"
    return _no_check(given)


def _no_check(given: Mapping[str, Any]) -> str:
    known = checks.check_keys()
    for key in list(given)[: len(known)]:
        if meant := suggestion(key, known):
            return f"unknown check `{clipped(key)}`: {meant}"
    words = f"must have one of {listed(known)}"
    first = next(iter(given), "")
    return f"{words}{if_a_plugin_brings(first)}" if first.isidentifier() else words


def _which_output(given: Any) -> str:
    if isinstance(given, dict):
        named = [f"`{source.key}`" for source in sources_in(given)]
        how_often = "two" if len(named) == 2 else len(named)
        return f"is found in {how_often} ways: keep {' or '.join(named)}"
    return f"must be a mapping such as {{json: out.json, path: count}}, not {described(given)}"


def _which_workspace(given: Any) -> str:
    if isinstance(given, dict) and "git" in given:
        return "is two workspaces: keep `git` or `folder`"
    return "must have `git: PATH` (a repository to clone) or `folder: PATH` (a folder to copy)"
