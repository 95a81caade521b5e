"""The words for what can be wrong in a plan only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recoup.documents.browser_words import BROWSER_SHAPES, browser_words
from recoup.documents.check_shape import MAIN_CHECK_KEYS
from recoup.documents.handler_shape import (
    HANDLER_KINDS,
    AgentHandlerShape,
    BrowserHandlerShape,
    HandlerShape,
    PythonHandlerShape,
    RunHandlerShape,
)
from recoup.documents.other_step_shape import (
    AgentStepShape,
    ApproveStepShape,
    BrowserStepShape,
    PythonStepShape,
)
from recoup.documents.output_shape import DeclaredOutputShape, JsonOutputShape, RegexOutputShape
from recoup.documents.page_keys import VERBS
from recoup.documents.plan_shape import PlanShape
from recoup.documents.plan_shapes import SHAPES
from recoup.documents.shape import Shape
from recoup.documents.step_shape import STEP_KINDS, RunStepShape, StepKeys, WorkStepShape
from recoup.documents.tree import clipped
from recoup.documents.wording import Detail, Vocabulary, described, listed, suggestion

_WORK: tuple[type[WorkStepShape], ...] = (RunStepShape, PythonStepShape, AgentStepShape, BrowserStepShape)
_STEPS: tuple[type[StepKeys], ...] = (*_WORK, ApproveStepShape)
_HANDLERS: tuple[type[HandlerShape], ...] = (
    RunHandlerShape,
    PythonHandlerShape,
    AgentHandlerShape,
    BrowserHandlerShape,
)
_KIND_OF: dict[type[Shape], str] = {
    **{shape: shape.kind for shape in _STEPS},
    **{shape: shape.kind for shape in _HANDLERS},
}
_KEYS_OF_WORK = frozenset[str]().union(*(shape.keys() for shape in _WORK))


def own_words(detail: Detail, shape: type[Shape]) -> str | None:
    given, key = detail["input"], str(detail["loc"][-1])
    match detail["type"]:
        case "missing" if shape in _STEPS and key == "run":
            return _nothing_to_do(given, "step", STEP_KINDS)
        case "missing" if shape in _HANDLERS and key == "run":
            return _nothing_to_do(given, "handler", HANDLER_KINDS)
        case "extra_forbidden" if shape is DeclaredOutputShape and _is_key(key):
            return _not_in_output(key)
        case "extra_forbidden" if shape in _STEPS:
            return _not_in_step(key, shape)
        case "extra_forbidden" if shape in _HANDLERS:
            return _not_in_handler(key, shape)
        case "model_type" if key == "agent" and given is not None:
            return f"must be a mapping such as {{cli: claude, prompt: …}}, not {described(given)}"
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
            return browser_words(detail, shape)


PLAN = Vocabulary(PlanShape, {**SHAPES, **BROWSER_SHAPES}, own_words)


def _nothing_to_do(given: Mapping[str, Any], what: str, kinds: Sequence[str]) -> str:
    named = any(key in given for key in (*STEP_KINDS, *VERBS))
    return "" if named else f"this {what} says nothing to do: add {_either(kinds)}"


def _either(words: Sequence[str]) -> str:
    return f"{listed(words[:-1])} or `{words[-1]}`"


def _not_in_step(key: str, shape: type[Shape]) -> str | None:
    if shape is ApproveStepShape and key in _KEYS_OF_WORK:
        return "makes no sense where a person is asked: remove it"
    if key in STEP_KINDS:
        return _second_kind("step", shape)
    return _misread(key, (*shape.keys(), *STEP_KINDS))


def _not_in_handler(key: str, shape: type[Shape]) -> str | None:
    if key == "approve":
        return f"a handler cannot wait for a person: use {_either(HANDLER_KINDS)}"
    if key in HANDLER_KINDS:
        return _second_kind("handler", shape)
    if key in _KEYS_OF_WORK - {"with"}:
        return f"a handler has no `{key}`: remove it"
    return _misread(key, (*shape.keys(), *HANDLER_KINDS))


def _second_kind(what: str, shape: type[Shape]) -> str:
    return f"this {what} has `{_KIND_OF[shape]}` already: keep one of the two, or make two {what}s of them"


_OUTPUT_KEYS = sorted({*JsonOutputShape.keys(), *RegexOutputShape.keys(), *DeclaredOutputShape.keys()})


def _is_key(key: str) -> bool:
    return key.isidentifier()


def _not_in_output(key: str) -> str:
    if key in _OUTPUT_KEYS:
        return "does not say what to take: add `path` beside `json: FILE`, or a `regex`"
    meant = suggestion(key, _OUTPUT_KEYS)
    return f"unknown key: {meant or 'the keys here are ' + listed(_OUTPUT_KEYS)}"


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
    if key == "with":
        return "is for `python` only: use `env` here"
    if key == "heal":
        return "is for `browser` only, where a target may have changed: remove it"
    if key in VERBS:
        return f"stands under `browser`: write `browser: {{{key}: …}}`"
    if key in _ELSEWHERE:
        return f"unknown key: {_ELSEWHERE[key]}"
    meant = suggestion(key, known)
    return f"unknown key: {meant}" if meant else None


def _which_check(given: Any) -> str:
    if not isinstance(given, dict):
        return f"must be a mapping such as {{file: out.txt}}, not {described(given)}"
    several = [key for key in MAIN_CHECK_KEYS if key in given]
    if several:
        return f"holds {len(several)} checks ({listed(several)}): make each an item of the list"
    return _no_check(given)


def _no_check(given: Mapping[str, Any]) -> str:
    for key in list(given)[: len(MAIN_CHECK_KEYS)]:
        if meant := suggestion(key, MAIN_CHECK_KEYS):
            return f"unknown check `{clipped(key)}`: {meant}"
    return f"must have one of {listed(MAIN_CHECK_KEYS)}"


def _which_output(given: Any) -> str:
    if isinstance(given, dict):
        return "is found in two ways: keep `json` or `regex`"
    return f"must be a mapping such as {{json: out.json, path: count}}, not {described(given)}"


def _which_workspace(given: Any) -> str:
    if isinstance(given, dict) and "git" in given:
        return "is two workspaces: keep `git` or `folder`"
    return "must have `git: PATH` (a repository to clone) or `folder: PATH` (a folder to copy)"
