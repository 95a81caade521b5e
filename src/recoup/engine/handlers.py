"""What a step wants done when it failed for good, when it ended with nothing to show, or in any case."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from recoup.engine.arguments import Arguments, arguments_of, environment_of, refuse_unmaskable, secret_names
from recoup.engine.browsing import exactly, secrets_typed
from recoup.engine.world import Job, World
from recoup.kernel.elapsed import elapsed_s, run_seconds_left
from recoup.kernel.template import TemplateError
from recoup.model.events import HandlerResult
from recoup.model.outcome import Collected, Order, Outcome, Scene
from recoup.model.plan import ExitCheck, Handler, Step, kind_of
from recoup.model.policy import Policy
from recoup.model.run import RunState
from recoup.ports import Hooks, Lifeline
from recoup.steps.registry import step_kind

_DETAIL_CHARS_MAX = 500
_SHORTEST_S = 0.1


class Place(msgspec.Struct, frozen=True):
    """Where and for which attempt handlers run."""

    step: Step
    step_index: int
    attempt: int
    cwd: str
    files: Mapping[str, str]
    policy: Policy

    @property
    def output_file(self) -> str | None:
        return self.files.get("RECOUP_OUTPUT")


class Handled(msgspec.Struct, frozen=True):
    """How the handlers ended, and what the last one that passed left behind."""

    results: tuple[HandlerResult, ...]
    outcome: Outcome | None


class Handlers:
    """Performs handlers one after the other. One that fails does not keep the next from being tried."""

    def __init__(self, world: World, job: Job, stop: asyncio.Event, lifeline: Lifeline) -> None:
        self._world = world
        self._job = job
        self._stop = stop
        self._lifeline = lifeline
        self._secret = secret_names(job.plan)

    async def perform(
        self,
        handlers: Sequence[Handler],
        place: Place,
        state: RunState,
        hooks: Hooks,
        grace_s: float = _SHORTEST_S,
    ) -> Handled | None:
        """None: the driver asked for the end. `grace_s`: what they may take together beyond the run's time."""
        results: list[HandlerResult] = []
        last: Outcome | None = None
        begun = self._world.clock.now()
        for number, handler in enumerate(handlers, 1):
            now = self._world.clock.now()
            left_s = max(
                run_seconds_left(state, self._job.policy, now), grace_s - elapsed_s(begun, now, grace_s)
            )
            try:
                outcome, problem = await self._one(handler, place, state, hooks, max(_SHORTEST_S, left_s))
            except TemplateError as error:
                outcome, problem = Outcome(), str(error)
            if self._stop.is_set() or outcome.interrupted:
                return None
            shown = self._world.redactor.redact(problem or "").text[:_DETAIL_CHARS_MAX]
            results.append(HandlerResult(number=number, passed=problem is None, detail=shown))
            last = outcome if problem is None else last
        return Handled(tuple(results), last)

    async def _one(
        self, handler: Handler, place: Place, state: RunState, hooks: Hooks, left_s: float
    ) -> tuple[Outcome, str | None]:
        """What came of it, and why that is no success; None when it is one."""
        arguments = arguments_of(handler, self._job, state, self._secret)
        refuse_unmaskable(arguments, self._world.redactor)
        env = environment_of(self._world, self._job, place.step, arguments, place.attempt, place.files)
        wanted_s = handler.timeout_s or place.policy.step_timeout_seconds
        policy = msgspec.structs.replace(place.policy, step_timeout_seconds=min(wanted_s, left_s))
        order = Order(
            run_id=self._job.run_id,
            step_id=place.step.id,
            step_index=place.step_index,
            attempt=place.attempt,
            action=arguments.action,
            cwd=place.cwd,
            env=env,
            policy=policy,
            has_own_timeout=handler.timeout_s is not None,
            objective=self._job.plan.objective,
            title=handler.title or place.step.title,
            looking=exactly(arguments.action, policy),
            secret_values=secrets_typed(self._world.redactor, arguments),
            aside=self._job.aside,
        )
        outcome = await self._world.runtimes[kind_of(handler.action)].perform(order, hooks)
        scene = Scene(
            run_id=self._job.run_id,
            cwd=place.cwd,
            env=env | arguments.expected.env,
            policy=policy,
            outcome=outcome,
            check_timeout_s=policy.check_s,
        )
        return outcome, await self._problem(handler, arguments, outcome, scene)

    async def _problem(
        self, handler: Handler, arguments: Arguments, outcome: Outcome, scene: Scene
    ) -> str | None:
        if outcome.kind is not None:
            return f"{outcome.kind}: {outcome.detail}".strip(" :")
        if not exit_expected(handler, outcome):
            return f"exit {outcome.exit_code}"
        checks = [check for check in arguments.expected.checks if not isinstance(check, ExitCheck)]
        if not checks:
            return None
        examined = await self._world.inspector.examine(checks, scene, self._lifeline, self._stop)
        broken = [f"{result.check}: {result.detail}" for result in examined.results if not result.held]
        return "; ".join(broken) or None


def exit_expected(work: Step | Handler, outcome: Outcome) -> bool:
    """Where an attempt has no exit code it went well without a kind of failure."""
    codes = {code for check in work.expect if isinstance(check, ExitCheck) for code in check.codes}
    return not step_kind(work.action).exits or outcome.exit_code in (codes or {0})


def is_empty(step: Step, outcome: Outcome, collected: Collected) -> bool:
    """Nothing to show: outputs without a value, or, of a step without any, nothing printed."""
    values = [*collected.plain.values(), *collected.secret.values()]
    if step.outputs or values:
        return all(value is None or value in ("", [], {}) for value in values)
    return not (outcome.stdout.head + outcome.stdout.tail).strip()
