"""References in a plan: they stand where they are filled in, and name what is known there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from recoup.checks.kind import CheckKind
from recoup.checks.registry import kinds_in as check_kinds_in
from recoup.checks.spots import NO_SECRETS
from recoup.kernel.references import OPENING, Reference, TemplateError, references
from recoup.kernel.template import check_condition, shell_script
from recoup.shapes.forms import WORD_BYTES_MAX
from recoup.shapes.plan_written import Part, Written, listing, mapping, way_in_part
from recoup.shapes.shape import as_written
from recoup.shapes.tree import Place, clipped
from recoup.shapes.wording import Finding, listed, suggestion
from recoup.steps.kind import Data, StepKind
from recoup.steps.registry import all_kinds

KindsOf = Callable[[Data], Iterable[StepKind[Any]]]
"""The kinds that know something about a step or a handler as it is written."""

_FILLED_IN: Final = (("env",), ("when",), ("expect",))
"""The ways into any step or handler to where `${{ … }}` is filled in; its kind knows more."""
_LITERAL: Final = (("title",), ("outputs",))
"""Those where it would stay as it stands, and mislead."""


def _not_filled_in() -> str:
    # Last those of which it depends on more than the key.
    kinds = sorted(all_kinds(), key=lambda kind: not kind.filled)
    words = listed([*(word for kind in kinds for word in kind.filled_words), "env", "expect"])
    return f"`${{{{ … }}}}` is not filled in here: write the text itself, or use it in {words} or `when`"


def bad_references(plan: Written, kinds_of: KindsOf) -> Iterator[Finding]:
    for part in plan.parts:
        kinds = list(kinds_of(part.data))
        scripts = {way for kind in kinds for way in kind.scripts}
        for way in (*_FILLED_IN, *(way for kind in kinds for way in kind.filled_in(part.data))):
            for place, text in _texts(*part.at(way)):
                within = way_in_part(place)
                in_script = within in scripts or _is_script_of_check(part, within)
                yield from (Finding(place, words) for words in _wrong_in(text, in_script, part, plan))


def _is_script_of_check(part: Part, way: Place) -> bool:
    return len(way) == 3 and any(way[2] in kind.scripts for kind in _kinds_at(part, way))


def _kinds_at(part: Part, way: Place) -> list[CheckKind[Any]]:
    """The kinds that the check around this place names."""
    match way:
        case ("expect", int(n), *_):
            return list(check_kinds_in(mapping(listing(part.data.get("expect"))[n])))
        case _:
            return []


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


def secrets_in_the_open(plan: Written, kinds_of: KindsOf) -> Iterator[Finding]:
    for part in plan.parts if plan.secrets else ():
        open_to_others = [kind.open_to_others(part.data) for kind in kinds_of(part.data)]
        for way, instead in (pair for ways in open_to_others for pair in ways.items()):
            for place, text in _texts(*part.at(way)):
                for name in sorted(_names(text) & plan.secrets):
                    words = f"`{clipped(name)}` is a secret and must not stand here"
                    yield Finding(place, f"{words}, where others can read it: {instead}")
        yield from _secrets_in_checks(part, plan)


def _secrets_in_checks(part: Part, plan: Written) -> Iterator[Finding]:
    for place, text in _texts(*part.at(("expect",))):
        way = way_in_part(place)
        known = {key: spot for kind in _kinds_at(part, way) for key, spot in kind.spots.items()}
        spots = [known[key] for key in way if key in known]
        if not spots or _is_script_of_check(part, way):
            continue
        for name in sorted(_names(text) & plan.secrets):
            words = f"`{clipped(name)}` is a secret and must not stand here"
            yield Finding(place, f"{words}: {NO_SECRETS[spots[-1]]}")


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


def misplaced_references(plan: Written, kinds_of: KindsOf) -> Iterator[Finding]:
    places = [*_in_literals(plan, kinds_of), *_in_keys(plan, kinds_of)]
    words = _not_filled_in() if places else ""
    return (Finding(place, words) for place in places)


def _in_literals(plan: Written, kinds_of: KindsOf) -> Iterator[Place]:
    literals: list[tuple[Place, Any]] = [((key,), plan.data.get(key)) for key in ("objective", "workspace")]
    for part in plan.parts:
        of_kinds = (way for kind in kinds_of(part.data) for way in kind.left_literal(part.data))
        literals += [part.at(way) for way in (*_LITERAL, *of_kinds)]
    for place, value in literals:
        yield from (where for where, _ in _texts(place, value))


def _in_keys(plan: Written, kinds_of: KindsOf) -> Iterator[Place]:
    """Where a key is no place for one, and where what was recorded is not looked up."""
    for part in plan.parts:
        for way in (*(way for kind in kinds_of(part.data) for way in kind.any_json), ("expect",)):
            yield from _keys(*part.at(way))
        texts = _texts(*part.at(("expect",)))
        yield from (place for place, _ in texts if _is_literal(part, way_in_part(place)))


def _is_literal(part: Part, way: Place) -> bool:
    """Of what was recorded nothing is looked up."""
    return "recorded" in way[2:] and not any(way[2] in kind.any_json for kind in _kinds_at(part, way))


def _keys(place: Place, value: Any) -> Iterator[Place]:
    """Where a key holds what looks like a reference."""
    if isinstance(value, dict):
        yield from ((*place, key) for key in value if OPENING in key)
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _keys((*place, key), item)
