"""One use of a tool becomes a script: its texts are filled in, and a shell has read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import TypeAdapter, ValidationError

from recoup.documents.openchrome_names import Added, Names, NotTurned, filled, names_in
from recoup.documents.openchrome_person import shown
from recoup.documents.openchrome_remarks import Remarks
from recoup.documents.openchrome_shape import CompiledStep
from recoup.documents.openchrome_tools import Call, Work, carried, work_of
from recoup.kernel.references import references
from recoup.kernel.template import TemplateError, shell_script, texts_in
from recoup.shapes.durations import DURATION_MAX_S, DURATION_MIN_S
from recoup.shapes.tree import clipped
from recoup.steps.browser.shape import BrowserShape

ScriptProblem = Callable[[str], str | None]
"""What a shell says about a script's syntax; None: nothing."""

_ACTIONS: TypeAdapter[Any] = TypeAdapter(BrowserShape)


class Workshop:
    """Turns the tools of steps and of handlers, with the names that are known so far."""

    def __init__(
        self, names: Names, remarks: Remarks, script_problem: ScriptProblem, no_pages: str | None
    ) -> None:
        """`no_pages`: why nothing is done in a browser here; None: nothing is against it."""
        self.names = names
        self.added: list[Added] = []
        self._remarks = remarks
        self._script_problem = script_problem
        self._unresolved: list[str] = []
        self._no_pages = no_pages
        self._opened = False

    def work(self, step: CompiledStep) -> Work:
        """Raises NotTurned."""
        work = work_of(Call(step, self._value(step), self._script(step), self._shown))
        if step.parsing.name and not work.gives:
            raise NotTurned(f"nothing here gives what it stores as `{clipped(step.parsing.name)}`")
        if work.browser:
            self._refuse_page(work)
        for name in work.left_out:
            self._remarks.note(f"{step.where}.args.{name}", "means nothing here")
        return work

    def _refuse_page(self, work: Work) -> None:
        """Whatever `recoup check` would refuse, and what would be done in another browser than the rest."""
        if self._no_pages is not None:
            raise NotTurned(self._no_pages)
        self._opened = self._opened or "goto" in work.browser
        if not self._opened:
            raise NotTurned("no page is open yet: openchrome takes a tab that was there before")
        secrets = self.names.secrets()
        for text in texts_in(dict(work.browser)):
            if any(reference.name in secrets for reference in references(text)):
                raise NotTurned("holds a secret where others can read it, in an address for example")
        try:
            _ACTIONS.validate_python(dict(work.browser))
        except ValidationError as error:
            raise NotTurned(
                f"cannot be said here: it {error.errors()[0]['msg'].removeprefix('Value error, ')}"
            ) from None

    def doing(self, work: Work, before: Sequence[str]) -> dict[str, Any]:
        """The key that says what is done, with these lines first. Raises NotTurned."""
        if not work.browser:
            return {"run": self._script_text(work, before)}
        if before:
            raise NotTurned("a browser cannot leave the result in a file, as this step must")
        return {"browser": dict(work.browser)}

    def _script_text(self, work: Work, before: Sequence[str]) -> str:
        script = carried("\n".join([*before, work.run]))
        if problem := self._script_problem(script):
            raise NotTurned(f"bash cannot read the script: {clipped(problem, 200)}")
        return script

    def timeout(self, step: CompiledStep) -> str | None:
        if step.timeout_ms is None:
            return None
        if DURATION_MIN_S <= step.timeout_ms / 1000 <= DURATION_MAX_S:
            return _duration(step.timeout_ms)
        self.refuse(step, f"its timeout of {step.timeout_ms:g} ms is none: the policy's stands instead")
        return None

    def refuse(self, step: CompiledStep, reason: str) -> None:
        self._remarks.refuse(step.where, reason, step.order, step.tool)

    @contextmanager
    def or_nothing(self) -> Iterator[None]:
        """What is not turned in the end leaves no outputs behind that only it wanted, and no words but the reason."""
        lists: list[list[Any]] = [
            self._remarks.not_turned,
            self._remarks.notes,
            self._unresolved,
            self.added,
        ]
        lengths = [len(one) for one in lists]
        try:
            yield
        except NotTurned:
            for outputs, name in self.added[lengths[-1] :]:
                del outputs[name]
            for one, length in zip(lists, lengths, strict=True):
                del one[length:]
            raise

    def _value(self, step: CompiledStep) -> Callable[[str], str]:
        def value(text: str) -> str:
            said = filled(text, self.names.reference)
            for name in self._unknown(text):
                if name not in self._unresolved:
                    self._unresolved.append(name)
                    words = "is no parameter, and no earlier step stores it: it stays as it is"
                    self.refuse(step, f"`${{{clipped(name)}}}` {words}")
            return said

        return value

    def _script(self, step: CompiledStep) -> Callable[[str], str]:
        def script(text: str) -> str:
            said = carried(filled(text, self.names.reference))
            self._refuse_where_no_value_may_stand(said, text)
            for name in self._unknown(text):
                words = "is nothing that the plan knows: it is left to the shell"
                self._remarks.note(step.where, f"`${{{clipped(name)}}}` {words}")
            return said

        return script

    def _unknown(self, text: str) -> list[str]:
        return [name for name in dict.fromkeys(names_in(text)) if self.names.reference(name) is None]

    def _refuse_where_no_value_may_stand(self, script: str, text: str) -> None:
        known = {reference for name in names_in(text) if (reference := self.names.reference(name))}
        try:
            shell_script(script, dict.fromkeys(known, "0"), self.names.secrets())
        except TemplateError as error:
            raise NotTurned(f"the script cannot be filled in: {error}") from None

    def _shown(self, text: str) -> str:
        return shown(text, self.names)


def _duration(ms: float) -> str:
    seconds, rest_ms = divmod(ms, 1_000)
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    units = ((hours, "h"), (minutes, "m"), (seconds, "s"), (round(rest_ms, 3), "ms"))
    return "".join(f"{count:g}{unit}" for count, unit in units if count)
