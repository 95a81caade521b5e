"""What must hold of browser steps beyond their shape: a page is open, and they are asked for what they have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recoup.checks.registry import keys_in, kind_of_key
from recoup.checks.sources.registry import sources_in
from recoup.model.plan import BrowserVerb
from recoup.shapes.page_keys import NAMING, is_pause, verb_of
from recoup.shapes.plan_written import Part, Written, mapping
from recoup.shapes.tree import Place
from recoup.shapes.wording import Finding

WITHOUT_PAGE = frozenset((BrowserVerb.GOTO.value, BrowserVerb.WAIT.value, BrowserVerb.TAB.value))
"""Verbs that can be the first."""

SOMETIMES_WITHOUT_TARGET = frozenset(("press", "screenshot"))
NEVER_WITH_TARGET = frozenset(("goto", "tab"))


def broken_page_rules(plan: Written) -> Iterator[Finding]:
    yield from _nothing_open(plan)
    yield from _prints_nothing(plan)
    yield from _reads_in_handlers(plan)
    yield from _heals_nothing(plan)


def _nothing_open(plan: Written) -> Iterator[Finding]:
    """The first thing done in a browser opens a page."""
    for part in plan.parts:
        action = verb_of(part.data)
        if action is None:
            continue
        if action[0] not in WITHOUT_PAGE:
            words = "no page is open yet: put a step `browser: {goto: https://…}` before this one"
            yield Finding((*part.place, "browser", action[0]), words)
        if action[0] == "goto" or action[0] not in WITHOUT_PAGE:
            return


def _checks_of_processes(part: Part) -> Iterator[tuple[Place, str]]:
    """With the key that makes each one."""
    for place, check in part.checks():
        yield from ((place, key) for key in keys_in(check) if kind_of_key(key).needs_process)


def _prints_nothing(plan: Written) -> Iterator[Finding]:
    for part in plan.parts:
        if "browser" not in part.data:
            continue
        for place, key in _checks_of_processes(part):
            words = "a browser step has no exit code and prints nothing: check the page, by `text` or `url` for example"
            yield Finding((*place, key), words)
        for name, spec in mapping(part.data.get("outputs")).items():
            if any(source.reads_printed(mapping(spec)) for source in sources_in(mapping(spec))):
                words = "a browser step prints nothing: name a `file`, or use `read` with `into`"
                yield Finding((*part.place, "outputs", name), words)


def _reads_in_handlers(plan: Written) -> Iterator[Finding]:
    for part in plan.parts:
        action = verb_of(part.data)
        if len(part.place) > 2 and action is not None and action[0] == "read":
            words = "a handler has no outputs to read into: read in a step"
            yield Finding((*part.place, "browser", "read"), words)


def _heals_nothing(plan: Written) -> Iterator[Finding]:
    for index, step in enumerate(plan.steps):
        action = verb_of(step)
        if action is not None and step.get("heal") is not None and (why := _why_unhealed(*action)):
            yield Finding(("steps", index, "heal"), f"{why}: remove `heal`")


def _why_unhealed(verb: str, said: Any) -> str | None:
    """None: it has a target that can heal."""
    if verb == "wait" and mapping(said).get("hidden") is True:
        return "what is waited for to go cannot be looked for elsewhere"
    if has_target(verb, said):
        return None
    return f"`{verb}` names no target here, and only targets heal"


def has_target(verb: str, said: Any) -> bool:
    if verb in NEVER_WITH_TARGET:
        return False
    if verb in SOMETIMES_WITHOUT_TARGET:
        return any(key in mapping(said) for key in NAMING)
    return verb != "wait" or not is_pause(said)
