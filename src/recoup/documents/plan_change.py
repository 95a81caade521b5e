"""A plan file in which one target is said otherwise, and every other byte is as it was."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

import msgspec

from recoup.documents.plan_file import parse_plan
from recoup.documents.target_splice import respelled
from recoup.documents.text_file import decoded
from recoup.errors import InvalidPlan, NotFound, UsageError
from recoup.files.named import read_named
from recoup.model.plan import BrowserAction, Plan
from recoup.model.policy import Policy
from recoup.model.target import Target
from recoup.shapes.tree import Unreadable

BOM = b"\xef\xbb\xbf"
_ODD = re.compile(r'["\\\x00-\x1f\x7f]')


class PlanText(msgspec.Struct, frozen=True):
    """A plan file as it was read."""

    path: Path
    raw: bytes
    plan: Plan

    def target(self, step_id: str) -> Target | None:
        """None: the plan has no such step, or none with a target."""
        step = next((step for step in self.plan.steps if step.id == step_id), None)
        return step.action.target if step is not None and isinstance(step.action, BrowserAction) else None


def read_plan_text(path: Path, policy: Policy) -> PlanText:
    """Raises InvalidPlan, NotFound."""
    try:
        raw = read_named(path, policy.plan_bytes_max + 1)
    except OSError as error:
        raise NotFound(
            f"the plan {path} cannot be read: {error.strerror}", hint="Say where it is now: --plan FILE"
        ) from None
    return PlanText(path, raw, _plan(raw, path, policy))


def _plan(raw: bytes, path: Path, policy: Policy) -> Plan:
    return parse_plan(raw, str(path), path.absolute().parent, file=path.absolute(), policy=policy)


def with_target(text: PlanText, step_id: str, target: Target, policy: Policy) -> PlanText:
    """The step has that target, and nothing else has changed. Raises UsageError when it cannot be said in this file."""
    index, action = _browser_step(text.plan, step_id)
    wanted = _replaced(text.plan, index, msgspec.structs.replace(action, target=target))
    try:
        before = decoded(text.raw, policy.plan_bytes_max)
        for after in respelled(before, ("steps", index, "browser", action.verb.value), target):
            raw = BOM * text.raw.startswith(BOM) + after.encode()
            if _says(raw, text.path, wanted, policy):
                return PlanText(text.path, raw, wanted)
    except Unreadable as unreadable:
        raise _by_hand(text.path, step_id, target, str(unreadable)) from None
    raise _by_hand(text.path, step_id, target, "the target is written in a way that others share")


def _browser_step(plan: Plan, step_id: str) -> tuple[int, BrowserAction]:
    for index, step in enumerate(plan.steps):
        if step.id == step_id and isinstance(step.action, BrowserAction):
            return index, step.action
    raise NotFound(f"the plan has no browser step {step_id!r}", hint="Name the plan that has it: --plan FILE")


def _replaced(plan: Plan, index: int, action: BrowserAction) -> Plan:
    steps = list(plan.steps)
    steps[index] = msgspec.structs.replace(steps[index], action=action)
    return msgspec.structs.replace(plan, steps=tuple(steps))


def _says(raw: bytes, path: Path, wanted: Plan, policy: Policy) -> bool:
    try:
        return _plan(raw, path, policy) == wanted
    except InvalidPlan:
        return False


def _by_hand(path: Path, step_id: str, target: Target, why: str) -> UsageError:
    from recoup.documents.plan_yaml import flow_text
    from recoup.steps.browser.written import target_data

    short = flow_text(target_data(msgspec.structs.replace(target, recorded=None)))
    return UsageError(
        f"{path}: the target of step {step_id!r} cannot be changed alone: {why}",
        hint=f"Change it by hand, to {short}",
    )


# The difference


def patch_of(before: PlanText, after: PlanText, root: Path) -> str:
    """As `git apply` and `patch -p1` take it in `root`; "" where nothing is changed."""
    name = os.path.relpath(before.path.absolute(), root.absolute()).replace(os.sep, "/")
    old, new = (_lines(one.raw.decode()) for one in (before, after))
    lines = difflib.unified_diff(old, new, _name("a", name), _name("b", name))
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _lines(text: str) -> list[str]:
    """Only a line feed ends a line for those who apply patches."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _name(side: str, name: str) -> str:
    if _ODD.search(name):
        return '"' + _ODD.sub(lambda odd: f"\\{ord(odd[0]):03o}", f"{side}/{name}") + '"'
    return f"{side}/{name}" + "\t" * (" " in name)


def root_of(path: Path) -> Path:
    """The repository that the file is in, or its folder."""
    folder = path.absolute().parent
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)
