"""The outputs of a step: collected, and those that are secret hidden before anything about the attempt is stored."""

from __future__ import annotations

import msgspec

from recoup.engine.arguments import outputs_wanted
from recoup.engine.driven_run import DrivenRun
from recoup.model.outcome import Collected, Scene
from recoup.model.plan import Step
from recoup.model.run import StepRecord


class Outputs:
    """Of the steps of one driven run."""

    def __init__(self, run: DrivenRun) -> None:
        self._run = run

    async def collect(self, step: Step, scene: Scene) -> Collected:
        return await self._run.world.inspector.collect(step.outputs, scene)

    async def hide_secrets(self, step: Step, record: StepRecord, scene: Scene) -> str | None:
        """Registers the secret outputs with the redactor. Returns why one cannot be hidden, in words."""
        known, problem = False, None
        for name, spec in step.outputs.items():  # each by itself: one that is missing must not hide another
            if spec.secret:
                collected = await self._run.world.inspector.collect({name: spec}, scene)
                known |= bool(collected.secret)
                problem = problem or self._register(step, collected) or _unreadable(name, collected)
        files, redactor = self._run.job.files, self._run.world.redactor
        if problem is not None:
            files.withhold_log(record.index, redactor.redact(f"[withheld: {problem}]\n"))
        elif known:
            files.redact_log(record.index, redactor)
        return problem

    def _register(self, step: Step, collected: Collected) -> str | None:
        """One that is too short is not registered: it could not be told from other text."""
        for name, value in collected.secret.items():
            try:
                self._run.job.redactor.register_unless_short(f"steps.{step.id}.outputs.{name}", value)
            except ValueError as error:
                return f"the secret output {name} cannot be kept out of the records: {error}"
        return None

    def undeclared(self, collected: Collected) -> str | None:
        """An output that holds a registered secret and is not declared secret, or has a name that no record can show,
        in words; None when there is none."""
        redactor = self._run.world.redactor
        for name, value in collected.plain.items():
            if redactor.masked_in(name):
                return "the name of an output looks like a secret and would be masked in records: rename the output"
            held = redactor.found_in(msgspec.json.encode(value))
            if held or redactor.found_in(str(value).encode()):
                return (
                    f"output {name} holds the secret {', '.join(held) or 'value'}: declare it `secret: true`"
                )
        return None

    async def all_wanted(self, step: Step, scene: Scene) -> Collected | None:
        """None: one that the step declares or that another step needs cannot be had."""
        collected = await self.collect(step, scene)
        missing = outputs_wanted(self._run.job.plan, step) - collected.plain.keys() - collected.secret.keys()
        if collected.problem or missing or self.undeclared(collected):
            return None
        return None if self._register(step, collected) else collected

    def given_elsewhere(self, step: Step, record: StepRecord) -> Collected | None:
        """Of a step that was done in a linked run: what it gave there, if that is all that others need."""
        if record.doubt.asks is None or record.spent.attempts > 1:
            return None
        outputs = record.doubt.asks.outputs
        is_enough = outputs_wanted(self._run.job.plan, step) <= outputs.keys()
        return Collected(plain=dict(outputs)) if is_enough else None


def _unreadable(name: str, collected: Collected) -> str | None:
    """A secret output is there and too large to be read, so that nobody can hide it."""
    if not collected.too_large:
        return None
    return f"the secret output {name} cannot be kept out of the records: {collected.problem}"
