"""The kinds of step in one run's plan, and what the engine asks of them. It asks by the kind, never by its name."""

from __future__ import annotations

from collections.abc import Iterator

from recoup.checks.registry import why_missing
from recoup.engine.arguments import expected_now, steps_behind
from recoup.engine.breaking import stored_draft
from recoup.engine.recorder import Recorder
from recoup.engine.world import Job, World
from recoup.model.events import Payload
from recoup.model.failure import FailureKind
from recoup.model.plan import Check, Handler, Plan, Step, is_gate, kind_of
from recoup.model.policy import Policy
from recoup.model.run import RunState, StepRecord
from recoup.model.storage import Draft
from recoup.ports import Lifeline
from recoup.steps.hooks import NO_HOOKS, CannotBegin, KindHooks, Obstacle, StatefulKind
from recoup.steps.registry import actions_of, works_of


class RunView:
    """The run in hand, as hooks see it."""

    def __init__(self, world: World, job: Job, recorder: Recorder, lifeline: Lifeline) -> None:
        self._job, self._recorder = job, recorder
        self.run_id, self.plan, self.secrets = job.run_id, job.plan, job.secrets
        self.redactor, self.ledger, self.clock, self.lifeline = (
            *(world.redactor, world.ledger, world.clock),
            lifeline,
        )
        self.new_escalation_id = world.escalation_id

    @property
    def policy(self) -> Policy:
        return self._job.policy

    @property
    def state(self) -> RunState:
        return self._recorder.state

    def expected(self, step: Step) -> tuple[Check, ...]:
        return expected_now(step, self._job, self.state)

    def steps_behind(self, step: Step) -> frozenset[str]:
        return steps_behind(self.plan, step)

    def draft(self, payload: Payload) -> Draft:
        return stored_draft(self.redactor, payload)


class RunKinds:
    """The hooks of one run: of the kinds in its plan, and of no other."""

    def __init__(self, world: World, view: RunView) -> None:
        self._hooks = {name: kind.of_run(view) for name, kind in kinds_in(view.plan, world)}

    def of(self, work: Step | Handler) -> KindHooks:
        return self._hooks.get(kind_of(work.action), NO_HOOKS)

    def all(self) -> Iterator[KindHooks]:
        yield from self._hooks.values()

    async def obstacle(self, step: Step, record: StepRecord) -> Obstacle | None:
        """What comes before the step. A person at a gate is shown what the steps before it have left, of all kinds.
        Nothing is done whose checks nobody here can examine."""
        if why := why_missing([check for work in works_of(step) for check in work.expect]):
            return CannotBegin(why, FailureKind.SPAWN_FAILED)
        for hooks in self.all() if is_gate(step.action) else (self.of(step),):
            if (obstacle := await hooks.obstacle(step, record)) is not None:
                return obstacle
        return None


def kinds_in(plan: Plan, world: World) -> Iterator[tuple[str, StatefulKind]]:
    """The kinds of the plan's steps and handlers that keep something, by their keys."""
    for name in dict.fromkeys(kind_of(action) for action in actions_of(plan)):
        if (make := world.kinds.get(name)) is not None:
            yield name, make()
