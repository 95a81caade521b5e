"""The steps of a compiled plan, one after the other, in the order in which openchrome runs them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from recoup.documents.openchrome_criteria import Kept, counted_name, say_criteria
from recoup.documents.openchrome_handlers import Handlers
from recoup.documents.openchrome_names import (
    Given,
    Lost,
    Names,
    NotTurned,
    Result,
    as_field,
    as_id,
    base_of,
    is_json_path,
    names_a_secret,
    names_in,
)
from recoup.documents.openchrome_person import (
    ARGUMENTS_CHARS_MAX,
    arguments,
    gate,
    question,
    shown,
    title_of,
)
from recoup.documents.openchrome_remarks import Remarks
from recoup.documents.openchrome_shape import Compiled, CompiledHandler, CompiledStep
from recoup.documents.openchrome_tools import BROWSER_TOOLS, PAGE_TOOLS, Work
from recoup.documents.openchrome_work import ScriptProblem, Workshop
from recoup.kernel.references import OPENING
from recoup.shapes.tree import clipped, place_text

_EVERYTHING = r"(?s)\A(.*?)\n?\z"
_UNLESS_EMPTY = r"(?s)\A\s*(?:null|\[\]|\{\}|(.*?))\s*\z"
"""What openchrome calls empty gives no value."""


def plan_data(
    compiled: Compiled, remarks: Remarks, script_problem: ScriptProblem, idle_timeout_s: float
) -> dict[str, Any]:
    """The plan as data; what there is to say about it goes to `remarks`. A page cannot be shared with a person: where
    one tool that drives a browser is left to them, all are."""
    trial = Remarks((), ())
    data = _plan_data(compiled, trial, script_problem, idle_timeout_s, None)
    by_hand = [remark for remark in trial.not_turned if remark.tool in BROWSER_TOOLS | PAGE_TOOLS]
    if any(_drives(step) for step in data["steps"]) and by_hand:
        first = by_hand[0]
        tool = f"step {first.step} (`{clipped(first.tool or '')}`)"
        why = f"{tool} is left to a person, whose browser is another one: so is all that is done in a browser"
        return _plan_data(compiled, remarks, script_problem, idle_timeout_s, why)
    remarks.add(trial)
    return data


def _drives(step: dict[str, Any]) -> bool:
    """Whether anything is done in a browser for it."""
    handlers = [*step.get("rescue", ()), *step.get("on_empty", ())]
    return any("browser" in one for one in (step, *handlers))


def _plan_data(
    compiled: Compiled,
    remarks: Remarks,
    script_problem: ScriptProblem,
    idle_timeout_s: float,
    no_pages: str | None,
) -> dict[str, Any]:
    inputs: dict[str, Any] = {}
    names = Names({name: _input(name, value, inputs, remarks) for name, value in compiled.defaults.items()})
    steps = _Steps(
        compiled, Workshop(names, remarks, script_problem, no_pages), remarks, idle_timeout_s
    ).turned()
    document = {
        "version": 1,
        "name": as_id(compiled.id or "openchrome-plan"),
        "objective": compiled.description.replace(OPENING, "$ {{"),
        "inputs": inputs,
        "steps": [_without_nothing(step) for step in steps],
    }
    if document["name"] != compiled.id:
        words = "a workflow has a name, of letters, digits and a few signs"
        remarks.note("id", f"is `{document['name']}` here: {words}")
    if document["objective"] != compiled.description:
        remarks.note("description", "holds `${{`, which would mean something here: a space stands in it now")
    return _without_nothing(document)


def _input(name: str, default: Any, inputs: dict[str, Any], remarks: Remarks) -> Given:
    field, where = as_field(name, inputs), place_text(("parameters", name))
    if field != name:
        remarks.note(where, f"is called `{field}` here, as names are restricted")
    secret = names_a_secret(name)
    if default is not msgspec.UNSET:
        inputs[field] = {"default": _as_text(default)}
        if secret:
            remarks.note(where, "sounds like a secret, but its default stands in the plan for all to read")
        return Given(f"inputs.{field}")
    inputs[field] = {"required": True, **({"secret": True} if secret else {})}
    if secret:
        remarks.note(where, "sounds like a secret, so it is kept as one")
    return Given(f"inputs.{field}", secret)


def _as_text(value: Any) -> str:
    """As openchrome would put it into a text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class _Steps:
    """Knows what the steps before gave."""

    def __init__(
        self, compiled: Compiled, workshop: Workshop, remarks: Remarks, idle_timeout_s: float
    ) -> None:
        self._compiled = compiled
        self._workshop = workshop
        self._remarks = remarks
        self._idle_timeout_s = idle_timeout_s
        self._handlers = Handlers(compiled.handlers, workshop, remarks)
        self._parts_wanted = _parts_wanted(compiled)
        self._counted = counted_name(compiled)
        self._kept: Kept | None = None
        self._ids: set[str] = set()

    def turned(self) -> list[dict[str, Any]]:
        steps = [self._one(step) for step in self._compiled.steps]
        self._handlers.name_the_unused()
        say_criteria(self._compiled, self._workshop.names, steps, self._kept, self._remarks)
        return steps

    def _one(self, step: CompiledStep) -> dict[str, Any]:
        step_id = as_id(f"step-{step.order}-{step.tool}", self._ids)
        self._ids.add(step_id)
        rescue, on_empty = self._handlers.of(step, "error"), self._handlers.of(step, "empty_result")
        try:
            with self._workshop.or_nothing():
                data = self._work(step, step_id, rescue, on_empty)
        except NotTurned as reason:
            self._workshop.refuse(step, str(reason))
            data = self._by_hand(step, step_id, rescue, on_empty)
        self._learn_from_handlers(step, rescue, on_empty)
        self._learn(step, data)
        return data

    def _work(
        self,
        step: CompiledStep,
        step_id: str,
        rescue: CompiledHandler | None,
        on_empty: CompiledHandler | None,
    ) -> dict[str, Any]:
        file = self._file(step, step_id, rescue, on_empty)
        work = self._workshop.work(step)
        if work.ask:
            return self._asked(step, step_id, work, rescue, on_empty)
        doing = self._workshop.doing(work, [f"exec > {file}"] if file else [])
        if on_empty is not None and not work.gives:
            self._remarks.note(on_empty.where, f"`{clipped(step.tool)}` is never empty there: left out")
            on_empty = None
        timeout = self._workshop.timeout(step)
        return {
            "id": step_id,
            "title": title_of(step),
            **doing,
            "env": dict(work.env),
            "timeout": timeout,
            "idle_timeout": timeout if self._may_be_silent(step) else None,
            "max_attempts": 1 if step.retries is False else None,
            "expect": [],
            "outputs": _outputs(step, file, may_be_empty=on_empty is not None),
            "rescue": [_without_nothing(one) for one in self._handlers.turned(step, rescue, file)],
            "on_empty": [_without_nothing(one) for one in self._handlers.turned(step, on_empty, file)],
        }

    def _file(self, step: CompiledStep, step_id: str, *handlers: CompiledHandler | None) -> str | None:
        """Where the result is kept: parts of JSON are found in files only, and what one of several handlers gave
        must not be lost when the next one prints something."""
        parsing = step.parsing
        if parsing.name is None:
            return None
        if parsing.part is not None and not is_json_path(parsing.part):
            raise NotTurned(f"`extractField` {clipped(parsing.part)} is no way to a value in JSON")
        if parsing.is_json and (parsing.part or parsing.name in self._parts_wanted | {self._counted}):
            return _json_file(step_id)
        several = any(handler is not None and len(handler.steps) > 1 for handler in handlers)
        return f"{step_id}.txt" if several else None

    def _may_be_silent(self, step: CompiledStep) -> bool:
        """openchrome knows no idle timeout: it must not cut short what openchrome would let finish."""
        return step.timeout_ms is not None and step.timeout_ms / 1000 > self._idle_timeout_s

    def _asked(
        self, step: CompiledStep, step_id: str, work: Work, *handlers: CompiledHandler | None
    ) -> dict[str, Any]:
        self._handlers.leave_to_the_person(step, *handlers)
        if step.timeout_ms is not None:
            self._remarks.note(
                f"{step.where}.timeout", "means nothing here: a gate waits as long as it takes"
            )
        return gate(step, step_id, work.ask)

    def _by_hand(
        self,
        step: CompiledStep,
        step_id: str,
        rescue: CompiledHandler | None,
        on_empty: CompiledHandler | None,
    ) -> dict[str, Any]:
        self._handlers.leave_to_the_person(step, rescue, on_empty)
        if len(arguments(step)) > ARGUMENTS_CHARS_MAX:
            self._remarks.note(f"{step.where}.args", "are longer than a message may be, and cut off there")
        return gate(step, step_id, shown(question(step, rescue, on_empty), self._workshop.names))

    def _learn_from_handlers(self, step: CompiledStep, *handlers: CompiledHandler | None) -> None:
        lost = Lost(f"only a handler of step {step.order} stores that")
        for one in (one for handler in handlers if handler for one in handler.steps):
            if one.parsing.name and one.parsing.name not in self._workshop.names:
                self._workshop.names.learn(one.parsing.name, lost)

    def _learn(self, step: CompiledStep, data: dict[str, Any]) -> None:
        if step.parsing.name is None:
            return
        names, name, gives = self._workshop.names, step.parsing.name, "run" in data
        file, inside = _json_file(data["id"]), step.parsing.part or ""
        known_file = file if step.parsing.is_json else None
        if gives:
            names.learn(name, Result(data["id"], data["outputs"], known_file, inside, self._workshop.added))
        else:
            names.learn(name, Lost(f"step {step.order}, which gives that, is done by hand"))
        if name == self._counted:
            self._kept = Kept(data, file, inside) if gives and known_file else None


def _json_file(step_id: str) -> str:
    return f"{step_id}.json"


def _parts_wanted(compiled: Compiled) -> frozenset[str]:
    """The names of which some step wants a part: `login` of `${login.form.ref}`."""
    wanted = {name for step in compiled.all_steps() for name in names_in(dict(step.args))}
    return frozenset(base_of(name) for name in wanted if base_of(name) != name)


def _outputs(step: CompiledStep, file: str | None, *, may_be_empty: bool) -> dict[str, Any]:
    whole = {"regex": _UNLESS_EMPTY if may_be_empty else _EVERYTHING}
    if step.parsing.name is None:
        return {"result": whole} if may_be_empty else {}
    name, part = as_field(step.parsing.name, ()), step.parsing.part
    if file is None:
        return {name: whole}
    return {name: {**whole, "file": file} if part is None else {"json": file, "path": part}}


def _without_nothing(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value not in (None, "", [], {})}
