"""References in a plan: they stand where they are filled in, and name what is known there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from recoup.documents.forms import WORD_BYTES_MAX
from recoup.documents.plan_pages import verb_of
from recoup.documents.plan_written import Part, Written, way_in_part
from recoup.documents.shape import as_written
from recoup.documents.tree import Place, clipped
from recoup.documents.wording import Finding, suggestion
from recoup.kernel.expectations import NO_SECRETS, Spot
from recoup.kernel.references import OPENING, Reference, TemplateError, references
from recoup.kernel.template import check_condition, shell_script
from recoup.model.target import SHORT

FILLED_IN = (
    ("run",),
    ("with",),
    ("agent", "prompt"),
    ("agent", "args"),
    ("approve",),
    ("env",),
    ("when",),
    ("expect",),
)
"""The ways into a step or a handler to where `${{ … }}` is filled in; in `browser` it depends on the verb."""

FILLED_IN_BROWSERS = (*SHORT, "value", "key", "option", "options", "file", "files", "as")
"""The keys under a verb where it is. Of what was recorded nothing is looked up."""

LITERAL_IN_BROWSERS = ("into", "attribute")
TYPED = ("browser", "fill", "value")
"""The one place in a browser step where a secret may stand: nobody reads it there but the page."""

LITERAL = (("title",), ("outputs",), ("agent", "cli"))
"""Those where it would stay as it stands, and mislead."""

READ_BY_OTHERS = {
    ("run",): "pass it through `env`, or write the command as one text",
    ("agent", "prompt"): "pass it through `env`",
    ("agent", "args"): "pass it through `env`",
    ("approve",): "leave it out",
}
"""Those where no secret may stand, and what to do instead: every user of a machine can read a process's arguments,
an agent sends its prompt away, and a question is asked in the open."""

_NOT_FILLED_IN = (
    "`${{ … }}` is not filled in here: write the text itself, or use it in `run`, `with`, `prompt`, `args`, "
    "`message`, `browser`, `env`, `expect` or `when`"
)

NO_SECRETS_IN_CHECKS = {
    "regex": Spot.REGEX,
    "matches": Spot.REGEX,
    "url": Spot.ADDRESS,
    "response": Spot.ADDRESS,
    "paths": Spot.PATHS,
    "run": Spot.WORD,
}
"""The keys of a check under which no secret may stand; under `run` only in a list of words."""


def bad_references(plan: Written) -> Iterator[Finding]:
    for part in plan.parts:
        for way in (*FILLED_IN, *_ways_in_browser(part, FILLED_IN_BROWSERS)):
            for place, text in _texts(*part.at(way)):
                in_script = _is_script(way_in_part(place))
                yield from (Finding(place, words) for words in _wrong_in(text, in_script, part, plan))


def _is_script(way: Place) -> bool:
    return way == ("run",) or (len(way) == 3 and way[0] == "expect" and way[2] == "run")


def _ways_in_browser(part: Part, keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    action = verb_of(part.data)
    if action is None:
        return []
    verb, said = action
    if isinstance(said, dict):
        return [("browser", verb, key) for key in keys if key in said]
    return [("browser", verb)] if keys == FILLED_IN_BROWSERS else []


def _texts(place: Place, value: Any) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str) and OPENING in value:
        yield place, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts((*place, key), item)
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from _texts((*place, n), item)


def _wrong_in(text: str, in_script: bool, part: Part, plan: Written) -> Iterator[str]:
    try:
        found = references(text)
        if in_script and len(text) <= WORD_BYTES_MAX:
            shell_script(text, dict.fromkeys((reference.name for reference in found), "0"), plan.secrets)
    except TemplateError as error:
        yield _of_this_text(error)
        return
    for reference in found:
        if wrong := _wrong_with(reference, part.index, plan):
            yield wrong


def _of_this_text(error: TemplateError) -> str:
    """It counts lines from the beginning of the text, not of the file."""
    return re.sub(r"^(line \d+, column \d+):", r"\1 of this text:", str(error))


def _wrong_with(reference: Reference, index: int, plan: Written) -> str | None:
    if reference.step_id is not None:
        return _wrong_step(reference.step_id, index, plan)
    return _wrong_input(reference.field, plan) if reference.root == "inputs" else None


def _wrong_input(name: str, plan: Written) -> str | None:
    if name in plan.inputs:
        return None
    meant = suggestion(name, plan.inputs) or "add it under `inputs`"
    return f"`inputs.{clipped(name)}` is not an input of this plan: {meant}"


def _wrong_step(step_id: str, index: int, plan: Written) -> str | None:
    shown = f"`steps.{clipped(step_id)}`"
    if step_id in plan.ids[:index]:
        return None
    if step_id == plan.ids[index]:
        return f"{shown} is this step itself, which has no outputs yet: name an earlier step"
    if step_id in plan.ids[index:]:
        return f"{shown} comes later in the plan: move it before this step"
    meant = (
        suggestion(step_id, [known for known in plan.ids[:index] if known])
        or "name an earlier step by its id"
    )
    return f"{shown} is not a step of this plan: {meant}"


def secrets_in_the_open(plan: Written) -> Iterator[Finding]:
    for part in plan.parts if plan.secrets else ():
        for way, instead in (*READ_BY_OTHERS.items(), *_shown_in_browser(part)):
            for place, text in _texts(*part.at(way)):
                if place == (*part.place, "run"):  # a script gets it through its environment
                    continue
                for name in sorted(_names(text) & plan.secrets):
                    words = f"`{clipped(name)}` is a secret and must not stand here"
                    yield Finding(place, f"{words}, where others can read it: {instead}")
        yield from _secrets_in_checks(part, plan)


def _secrets_in_checks(part: Part, plan: Written) -> Iterator[Finding]:
    for place, text in _texts(*part.at(("expect",))):
        spots = [NO_SECRETS_IN_CHECKS[key] for key in place if key in NO_SECRETS_IN_CHECKS]
        if not spots or _is_script(way_in_part(place)):
            continue
        for name in sorted(_names(text) & plan.secrets):
            words = f"`{clipped(name)}` is a secret and must not stand here"
            yield Finding(place, f"{words}: {NO_SECRETS[spots[-1]]}")


def _shown_in_browser(part: Part) -> Iterator[tuple[tuple[str, ...], str]]:
    for way in _ways_in_browser(part, FILLED_IN_BROWSERS):
        if way != TYPED:
            yield way, "only what `fill` types may be one"


def _names(text: str) -> set[str]:
    try:
        return {reference.name for reference in references(text)}
    except TemplateError:
        return set()


def bad_conditions(plan: Written) -> Iterator[Finding]:
    for index, step in enumerate(plan.steps):
        condition = as_written(step.get("when"))
        if isinstance(condition, str) and (wrong := _wrong_condition(condition)):
            yield Finding(("steps", index, "when"), wrong)


def _wrong_condition(condition: str) -> str | None:
    try:
        check_condition(condition)
    except TemplateError as error:
        return _of_this_text(error)
    return None


def misplaced_references(plan: Written) -> Iterator[Finding]:
    places: list[tuple[Place, Any]] = [((key,), plan.data.get(key)) for key in ("objective", "workspace")]
    for part in plan.parts:
        ways = (*LITERAL, ("browser", "dialog"), *_ways_in_browser(part, LITERAL_IN_BROWSERS))
        places += [part.at(way) for way in ways]
    for place, value in places:
        for where, _ in _texts(place, value):
            yield Finding(where, _NOT_FILLED_IN)
    for part in plan.parts:
        for way in (("with",), ("expect",)):
            yield from (Finding(where, _NOT_FILLED_IN) for where in _keys(*part.at(way)))
        for place, _ in _texts(*part.at(("expect",))):
            if _is_literal(way_in_part(place)):
                yield Finding(place, _NOT_FILLED_IN)


def _is_literal(way: Place) -> bool:
    """Of what was recorded nothing is looked up."""
    return "recorded" in way[2:] and "equals" not in way[2:3]


def _keys(place: Place, value: Any) -> Iterator[Place]:
    """Where a key holds what looks like a reference."""
    if isinstance(value, dict):
        yield from ((*place, key) for key in value if OPENING in key)
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _keys((*place, key), item)
