"""The words for what can be wrong in a plan only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recoup.documents.check_shape import MAIN_CHECK_KEYS
from recoup.documents.plan_shape import SHAPES, PlanShape
from recoup.documents.shape import Shape
from recoup.documents.step_shape import StepShape
from recoup.documents.tree import clipped
from recoup.documents.wording import Detail, Vocabulary, described, listed, suggestion

LATER_KINDS = ("agent", "python", "browser", "approve")
LATER_STEP_KEYS = ("with", "heal", "rescue", "on_empty", "always")
LATER_CHECKS = ("text", "url")


def own_words(detail: Detail, shape: type[Shape]) -> str | None:
    given, key = detail["input"], str(detail["loc"][-1])
    match detail["type"]:
        case "missing" if shape is StepShape and key == "run":
            return _nothing_to_do(given)
        case "extra_forbidden" if shape is StepShape:
            return _later(key)
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
            return None


PLAN = Vocabulary(PlanShape, SHAPES, own_words)


def _nothing_to_do(step: Mapping[str, Any]) -> str:
    named = any(kind in step for kind in LATER_KINDS)
    return "" if named else "this step says nothing to do: add `run: …`"


def _later(key: str) -> str | None:
    if key in LATER_KINDS:
        return f"kind `{key}` is not available in this version: use `run`"
    return f"`{key}` is not available in this version: remove it" if key in LATER_STEP_KEYS else None


def _which_check(given: Any) -> str:
    if not isinstance(given, dict):
        return f"must be a mapping such as {{file: out.txt}}, not {described(given)}"
    several = [key for key in MAIN_CHECK_KEYS if key in given]
    if several:
        return f"holds {len(several)} checks ({listed(several)}): make each an item of the list"
    return _no_check(given)


def _no_check(given: Mapping[str, Any]) -> str:
    for key in list(given)[: len(MAIN_CHECK_KEYS)]:
        if key in LATER_CHECKS:
            return f"check `{key}` is not available in this version: use one of {listed(MAIN_CHECK_KEYS)}"
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
