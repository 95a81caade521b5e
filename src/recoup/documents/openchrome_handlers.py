"""openchrome's error handlers become `rescue` and `on_empty` of the steps that they are about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from recoup.documents.openchrome_names import NotTurned, base_of, names_in, plain
from recoup.documents.openchrome_remarks import Remarks
from recoup.documents.openchrome_shape import CompiledHandler, CompiledStep
from recoup.documents.openchrome_work import Workshop
from recoup.documents.step_shape import HANDLERS_MAX
from recoup.shapes.tree import clipped

TITLE_CHARS_MAX = 100
_CONDITION = re.compile(r"step(-?[0-9]+)_(error|empty_result)")


class Handlers:
    """All handlers of a plan, and those of them that a step has."""

    def __init__(self, handlers: Sequence[CompiledHandler], workshop: Workshop, remarks: Remarks) -> None:
        self._all = handlers
        self._first = {handler.condition: handler for handler in reversed(handlers)}
        """Of each condition: the one that openchrome takes."""
        self._used: set[str] = set()
        self._workshop = workshop
        self._remarks = remarks

    def of(self, step: CompiledStep, which: str) -> CompiledHandler | None:
        handler = self._first.get(f"step{step.order}_{which}")
        if handler is not None:
            self._used.add(handler.condition)
        return handler

    def turned(
        self, step: CompiledStep, handler: CompiledHandler | None, file: str | None
    ) -> list[dict[str, Any]]:
        """`file`: where the step keeps its result."""
        if handler is None:
            return []
        if not handler.steps:
            self._remarks.note(handler.where, "does nothing, and openchrome goes on after it: so does this")
            return [_titled(handler.action, {"run": "true"})]
        self._say_what_it_gives(step, handler)
        return self._steps_of(step, handler, file)

    def name_the_unused(self) -> None:
        for handler in self._all:
            if self._first[handler.condition] is not handler or handler.condition not in self._used:
                self._remarks.refuse(handler.where, self._why_unused(handler))

    def leave_to_the_person(self, step: CompiledStep, *handlers: CompiledHandler | None) -> None:
        for handler in handlers:
            if handler is not None:
                words = f"a gate has no handlers: {clipped(handler.condition)} is for the person who does the step"
                self._remarks.refuse(handler.where, words, step.order, step.tool)

    def _steps_of(
        self, step: CompiledStep, handler: CompiledHandler, file: str | None
    ) -> list[dict[str, Any]]:
        turned: list[dict[str, Any]] = []
        stored: set[str] = set()
        given = False
        for one in handler.steps:
            try:
                data = self._one(one, stored, len(turned), _before(step, one, file, given))
            except NotTurned as reason:
                self._workshop.refuse(one, str(reason))
            else:
                turned.append(_titled(handler.action or one.tool, data))
                given = given or _same_result(step, one)
            stored |= {one.parsing.name} if one.parsing.name else set()
        return turned

    def _one(self, one: CompiledStep, stored: set[str], number: int, before: Sequence[str]) -> dict[str, Any]:
        with self._workshop.or_nothing():
            if number >= HANDLERS_MAX:
                raise NotTurned(f"a step has at most {HANDLERS_MAX} handlers of a kind")
            for name in names_in(dict(one.args)):
                if {name, base_of(name)} & stored:
                    raise NotTurned(f"uses `{clipped(name)}`, which an earlier step of this handler stores")
            work = self._workshop.work(one)
            if work.ask:
                raise NotTurned("a handler cannot wait for a person")
            doing = self._workshop.doing(work, before)
        return {**doing, "env": dict(work.env), "timeout": self._workshop.timeout(one)}

    def _say_what_it_gives(self, step: CompiledStep, handler: CompiledHandler) -> None:
        for one in handler.steps:
            if one.parsing.name and not _same_result(step, one):
                name = clipped(one.parsing.name)
                self._workshop.refuse(
                    one, f"a handler stores nothing of its own: `{name}` is not known later"
                )
            if one.retries:
                self._remarks.note(one.where, "a handler is tried once")
        if step.parsing.name and not any(_same_result(step, one) for one in handler.steps):
            words = "openchrome goes on without it, here it is empty or the step fails"
            self._remarks.note(handler.where, f"gives no `{clipped(step.parsing.name)}`: {words}")

    def _why_unused(self, handler: CompiledHandler) -> str:
        shown = f"`{clipped(handler.condition)}`"
        if self._first[handler.condition] is not handler:
            return f"{shown} has a handler before this one, which openchrome takes instead"
        if _CONDITION.fullmatch(handler.condition):
            return f"{shown} is about a step that the plan does not have"
        return f"{shown} is no condition that is known: they are stepN_error and stepN_empty_result"


def _titled(title: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"title": plain(title, TITLE_CHARS_MAX), **data}


def _same_result(step: CompiledStep, handler: CompiledStep) -> bool:
    """The outputs of a step are looked for in what its handler left, too."""
    return step.parsing.name is not None and step.parsing == handler.parsing


def _before(step: CompiledStep, handler: CompiledStep, file: str | None, given: bool) -> list[str]:
    """What a handler prints must not be taken for what the step gives, nor what a failed attempt left in the file;
    what an earlier handler gave stays."""
    if step.parsing.name is None:
        return []
    if _same_result(step, handler):
        return [f"exec > {file}"] if file else []
    return [f"rm -f {file}", "exec >&2"] if file and not given else ["exec >&2"]
