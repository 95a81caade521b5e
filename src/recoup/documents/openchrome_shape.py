"""A compiled plan of openchrome as it was written: what it must hold, what it may hold, and what nobody knows."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from recoup.documents.openchrome_remarks import Remark
from recoup.errors import InvalidPlan, Problem
from recoup.shapes.tree import Place, Unreadable, clipped, place_text, tree_of

PARAMETERS_MAX = 1_000
ORDER_MAX = 1_000_000
PROBLEMS_SHOWN_MAX = 100


class Parsing(msgspec.Struct, frozen=True):
    """What becomes of a step's result."""

    is_json: bool
    field: str | None
    name: str | None

    @property
    def stores_json(self) -> bool:
        return self.is_json and self.name is not None

    @property
    def part(self) -> str | None:
        """openchrome looks at `extractField` in JSON only."""
        return self.field if self.is_json else None


class CompiledStep(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    order: int
    tool: str
    args: Mapping[str, Any]
    timeout_ms: float | None
    retries: bool | None
    parsing: Parsing

    @property
    def where(self) -> str:
        return place_text(self.place)


class CompiledHandler(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    condition: str
    action: str
    steps: tuple[CompiledStep, ...]

    @property
    def where(self) -> str:
        return place_text(self.place)


class Criteria(msgspec.Struct, frozen=True, kw_only=True):
    min_items: float | None
    fields: tuple[str, ...]
    custom: str | None


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """openchrome's CompiledPlan; what it says and nobody here knows is in `unknown`."""

    id: str
    version: str
    description: str
    defaults: Mapping[str, Any]
    """Of every parameter; UNSET where it has none."""
    steps: tuple[CompiledStep, ...]
    handlers: tuple[CompiledHandler, ...]
    criteria: Criteria
    unknown: tuple[Remark, ...]
    remarks: tuple[Remark, ...]

    def all_steps(self) -> Iterator[CompiledStep]:
        """Those of the handlers, too."""
        yield from self.steps
        for handler in self.handlers:
            yield from handler.steps


def parse_compiled(text: str, source: str, steps_max: int) -> Compiled:
    """Raises InvalidPlan with everything that keeps this from being a compiled plan."""
    try:
        data = tree_of(_json(text)).data
    except Unreadable as unreadable:
        raise InvalidPlan(source, [unreadable.problem]) from None
    seen = _Seen()
    if not seen.is_compiled(data, steps_max):
        raise InvalidPlan(source, seen.problems)
    compiled = _compiled(_Object(data, (), seen), seen)
    if seen.problems:
        raise InvalidPlan(source, seen.problems[:PROBLEMS_SHOWN_MAX])
    return compiled


def _json(text: str) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=_entries, parse_float=_number, parse_constant=_no_such_number
        )
    except json.JSONDecodeError as error:
        raise Unreadable(f"this is not JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise Unreadable("nested too deeply: make it flatter") from None
    except ValueError:
        raise Unreadable("this is not JSON: a number in it has too many digits") from None


def _entries(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise Unreadable(f"the key `{clipped(twice)}` stands twice in one object: keep one of the two")
    return entries


def _number(written: str) -> int | float:
    """JavaScript has one kind of number: 5.0 is 5."""
    number = float(written)
    if not math.isfinite(number):
        raise Unreadable(f"the number {clipped(written)} is too large for JSON")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _no_such_number(written: str) -> Any:
    raise Unreadable(f"this is not JSON: {written} is no number there")


class _Seen:
    """What was found wrong, and what is not known here."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.unknown: list[Remark] = []
        self.remarks: list[Remark] = []

    def wrong(self, place: Place, message: str) -> None:
        self.problems.append(Problem(place_text(place), message))

    def is_compiled(self, data: Any, steps_max: int) -> bool:
        """Whether looking any closer makes sense."""
        steps = data.get("steps") if isinstance(data, dict) else None
        if not isinstance(steps, list):
            self.wrong((), _what_it_is(data))
        elif not steps:
            self.wrong(("steps",), "a plan without steps does nothing: there is nothing to turn")
        elif len(steps) > steps_max:
            self.wrong(("steps",), f"{len(steps):,} steps are more than {steps_max:,} (plan_steps_max)")
        elif all(isinstance(step, dict) and "tool" not in step for step in steps):
            self.wrong(("steps",), f"no step names a `tool`: {_what_it_is(data)}")
        return not self.problems


def _what_it_is(data: Any) -> str:
    if isinstance(data, dict) and isinstance(data.get("plans"), list):
        return "this is openchrome's registry of plans: import one of the files that it names as `planPath`"
    if isinstance(data, dict) and data.get("version") == 1 and "name" in data:
        return "this looks like a plan of Recoup already: run it as it is"
    return "this is not a compiled plan of openchrome, which is an object with `id` and `steps`"


class _Object:
    """One JSON object. Whatever is not asked for by name is named in the end."""

    def __init__(self, value: Any, place: Place, seen: _Seen) -> None:
        if not isinstance(value, dict):
            seen.wrong(place, "must be an object")
        self.left: dict[str, Any] = dict(value) if isinstance(value, dict) else {}
        self.place = place
        self._seen = seen

    def take(self, key: str, kind: type | tuple[type, ...], words: str) -> Any:
        """None when it is not there or of another type, which is a problem."""
        value = self.left.pop(key, None)
        right = isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)
        if value is not None and not right:
            self._seen.wrong((*self.place, key), f"must be {words}")
        return value if right else None

    def text(self, key: str) -> str | None:
        value: str | None = self.take(key, str, "text")
        return value

    def items(self, key: str) -> Iterator[tuple[Place, Any]]:
        for n, item in enumerate(self.take(key, list, "a list") or ()):
            yield (*self.place, key, n), item

    def inner(self, key: str) -> _Object:
        return _Object(self.take(key, dict, "an object") or {}, (*self.place, key), self._seen)

    def entries(self) -> dict[str, Any]:
        entries, self.left = self.left, {}
        return entries

    def name_the_rest(self, known: Mapping[str, str] | None = None) -> None:
        """`known`: what is known about some of them."""
        for key in self.entries():
            reason = (known or {}).get(key, "is not known here, so nothing was made of it")
            self._seen.unknown.append(Remark(where=place_text((*self.place, key)), reason=reason))


_NOT_HERE = {
    "contractVersion": "there are no versions of contracts here",
    "allowedTools": "a plan runs what stands in it, and nothing else: there is no list of allowed tools",
    "finalVerification": "it says in its own way what a page must show: say it under `expect`",
    "boundedRecovery": "limits of recovery stand in the policy: see `recoup policy show`",
}


def _compiled(plan: _Object, seen: _Seen) -> Compiled:
    compiled = Compiled(
        id=plan.text("id") or "",
        version=_version(plan),
        description=plan.text("description") or "",
        defaults=_defaults(plan.inner("parameters"), seen),
        steps=tuple(_step(item, place, n, seen) for n, (place, item) in enumerate(plan.items("steps"), 1)),
        handlers=tuple(_handler(item, place, seen) for place, item in plan.items("errorHandlers")),
        criteria=_criteria(plan.inner("successCriteria"), seen),
        unknown=(),
        remarks=(),
    )
    plan.name_the_rest(_NOT_HERE)
    return msgspec.structs.replace(compiled, unknown=tuple(seen.unknown), remarks=tuple(seen.remarks))


def _version(plan: _Object) -> str:
    version = plan.take("version", (str, int, float), "text")
    return "" if version is None else str(version)


def _defaults(parameters: _Object, seen: _Seen) -> dict[str, Any]:
    found = parameters.entries()
    if len(found) > PARAMETERS_MAX:
        seen.wrong(parameters.place, f"{len(found):,} parameters are more than {PARAMETERS_MAX:,}")
    specs = {name: _Object(spec, (*parameters.place, name), seen) for name, spec in found.items()}
    if sources := {source for spec in specs.values() if (source := spec.text("source"))}:
        words = ", ".join(f"`{clipped(source)}`" for source in sorted(sources)[:10])
        reason = f"come from {words} there; a run is given every input with --input here"
        seen.remarks.append(Remark(where="parameters", reason=reason))
    return {name: _default(spec) for name, spec in specs.items()}


def _default(parameter: _Object) -> Any:
    """null is a value, too."""
    default = parameter.left.pop("default", msgspec.UNSET)
    parameter.name_the_rest()
    return default


def _step(value: Any, place: Place, number: int, seen: _Seen) -> CompiledStep:
    step = _Object(value, place, seen)
    tool = step.text("tool")
    if not tool and isinstance(value, dict):
        seen.wrong(place, "names no tool: add `tool`")
    order = step.take("order", int, "a whole number")
    if order is not None and abs(order) > ORDER_MAX:
        seen.wrong((*place, "order"), f"must be at most {ORDER_MAX:,}")
    if order is None:
        words = f"has no order: it counts as step {number}"
        seen.remarks.append(Remark(where=place_text(place), reason=words))
    compiled = CompiledStep(
        place=place,
        order=number if order is None else order,
        tool=tool or "",
        args=step.inner("args").entries(),
        timeout_ms=step.take("timeout", (int, float), "a number of milliseconds"),
        retries=step.take("retryOnFail", bool, "true or false"),
        parsing=_parsing(step.inner("parseResult"), seen),
    )
    step.name_the_rest()
    return compiled


def _parsing(parse: _Object, seen: _Seen) -> Parsing:
    way = parse.text("format")
    if way not in (None, "json", "text"):
        seen.wrong((*parse.place, "format"), "must be `json` or `text`")
    parsing = Parsing(way != "text", parse.text("extractField") or None, parse.text("storeAs") or None)
    if parsing.field and not parsing.is_json:
        words = "openchrome looks at it in JSON only, and so does this"
        seen.remarks.append(Remark(where=place_text((*parse.place, "extractField")), reason=words))
    parse.name_the_rest()
    return parsing


def _handler(value: Any, place: Place, seen: _Seen) -> CompiledHandler:
    handler = _Object(value, place, seen)
    compiled = CompiledHandler(
        place=place,
        condition=handler.text("condition") or "",
        action=handler.text("action") or "",
        steps=tuple(_step(item, at, n, seen) for n, (at, item) in enumerate(handler.items("steps"), 1)),
    )
    handler.name_the_rest()
    return compiled


def _criteria(criteria: _Object, seen: _Seen) -> Criteria:
    fields = list(criteria.items("requiredFields"))
    for place, field in fields:
        if not isinstance(field, str):
            seen.wrong(place, "must be text")
    compiled = Criteria(
        min_items=criteria.take("minDataItems", (int, float), "a number"),
        fields=tuple(field for _, field in fields if isinstance(field, str)),
        custom=criteria.text("customCheck"),
    )
    criteria.name_the_rest()
    return compiled
