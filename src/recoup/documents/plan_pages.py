"""What must hold in a plan about the page of the run's browser: there is one, and it is asked what it knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recoup.documents.page_keys import NAMING, PAGE_CHECK_KEYS, is_pause, verbs_in
from recoup.documents.plan_written import Part, Written, listing, mapping
from recoup.documents.tree import Place
from recoup.documents.wording import Finding
from recoup.model.plan import NEVER_REPEATED, BrowserVerb

PRINTED = ("exit", "stdout", "stderr")
"""Checks of what a process left, which a browser does not."""

WITHOUT_PAGE = frozenset((BrowserVerb.GOTO.value, BrowserVerb.WAIT.value, BrowserVerb.TAB.value))
"""Verbs that can be the first."""

SOMETIMES_WITHOUT_TARGET = frozenset(("press", "screenshot"))
NEVER_WITH_TARGET = frozenset(("goto", "tab"))


def broken_page_rules(plan: Written) -> Iterator[Finding]:
    yield from _nothing_open(plan)
    yield from _no_page_to_check(plan)
    yield from _prints_nothing(plan)
    yield from _reads_in_handlers(plan)
    yield from _heals_nothing(plan)


def verb_of(part: Mapping[str, Any]) -> tuple[str, Any] | None:
    """The verb of a browser step or handler and what stands under it; None: it is none, or not one that can be told."""
    browser = part.get("browser")
    verbs = verbs_in(browser)
    return (verbs[0], mapping(browser)[verbs[0]]) if len(verbs) == 1 else None


def never_repeated(step: Mapping[str, Any]) -> bool:
    """Whether it is not, as long as the plan does not say."""
    action = verb_of(step)
    return action is not None and action[0] in NEVER_REPEATED


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


def _no_page_to_check(plan: Written) -> Iterator[Finding]:
    for part in plan.parts:
        if "browser" in part.data:
            return
        for place, key in _checks(part, PAGE_CHECK_KEYS):
            words = "looks at a page, and no browser step comes before: add one, or name another check"
            yield Finding((*place, key), words)


def _prints_nothing(plan: Written) -> Iterator[Finding]:
    for part in plan.parts:
        if "browser" not in part.data:
            continue
        for place, key in _checks(part, PRINTED):
            words = "a browser step has no exit code and prints nothing: check the page, by `text` or `url` for example"
            yield Finding((*place, key), words)
        for name, spec in mapping(part.data.get("outputs")).items():
            if "regex" in mapping(spec) and "file" not in spec:
                words = "a browser step prints nothing: name a `file`, or use `read` with `into`"
                yield Finding((*part.place, "outputs", name), words)


def _checks(part: Part, keys: tuple[str, ...]) -> Iterator[tuple[Place, str]]:
    for n, check in enumerate(listing(part.data.get("expect"))):
        yield from (((*part.place, "expect", n), key) for key in keys if key in mapping(check))


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
