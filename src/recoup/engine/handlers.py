"""What a step wants done when it failed for good, when it ended with nothing to show, or in any case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from recoup.checks.registry import check_kind
from recoup.engine.arguments import Arguments, arguments_of, environment_of, refuse_unmaskable, secret_names
from recoup.engine.driven_run import DrivenRun
from recoup.engine.world import Job
from recoup.kernel.elapsed import elapsed_s, run_seconds_left
from recoup.kernel.template import TemplateError
from recoup.model.events import HandlerResult
from recoup.model.outcome import Collected, Order, Outcome, Scene
from recoup.model.plan import Check, Handler, Step, kind_of
from recoup.model.policy import Policy
from recoup.ports import Hooks
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

    def order(self, job: Job, arguments: Arguments, env: dict[str, str], policy: Policy) -> Order:
        """For whatever is performed here: the step, or a handler of it."""
        return Order(
            run_id=job.run_id,
            step_id=self.step.id,
            step_index=self.step_index,
            attempt=self.attempt,
            action=arguments.action,
            cwd=self.cwd,
            env=env,
            policy=policy,
            objective=job.plan.objective,
            aside=job.aside,
        )

    def scene(self, job: Job, arguments: Arguments, env: dict[str, str], outcome: Outcome) -> Scene:
        """For the checks of the step after this outcome."""
        return Scene(
            run_id=job.run_id,
            cwd=self.cwd,
            env=env | arguments.expected.env,
            policy=self.policy,
            outcome=outcome,
            output_file=self.output_file,
            check_timeout_s=self.policy.check_s,
        )


class Handled(msgspec.Struct, frozen=True):
    """How the handlers ended, and what the last one that passed left behind."""

    results: tuple[HandlerResult, ...]
    outcome: Outcome | None


class Handlers:
    """Performs handlers one after the other. One that fails does not keep the next from being tried."""

    def __init__(self, run: DrivenRun) -> None:
        self._run = run
        self._secret = secret_names(run.job.plan)

    async def perform(
        self, handlers: Sequence[Handler], place: Place, hooks: Hooks, grace_s: float = _SHORTEST_S
    ) -> Handled | None:
        """None: the driver asked for the end. `grace_s`: what they may take together beyond the run's time."""
        run, clock = self._run, self._run.world.clock
        results: list[HandlerResult] = []
        last: Outcome | None = None
        begun = clock.now()
        for number, handler in enumerate(handlers, 1):
            now = clock.now()
            left_s = max(
                run_seconds_left(run.state, run.job.policy, now), grace_s - elapsed_s(begun, now, grace_s)
            )
            try:
                outcome, problem = await self._one(handler, place, hooks, max(_SHORTEST_S, left_s))
            except TemplateError as error:
                outcome, problem = Outcome(), str(error)
            if run.stop.is_set() or outcome.interrupted:
                return None
            shown = run.world.redactor.redact(problem or "").text[:_DETAIL_CHARS_MAX]
            results.append(HandlerResult(number=number, passed=problem is None, detail=shown))
            last = outcome if problem is None else last
        return Handled(tuple(results), last)

    async def _one(
        self, handler: Handler, place: Place, hooks: Hooks, left_s: float
    ) -> tuple[Outcome, str | None]:
        """What came of it, and why that is no success; None when it is one."""
        world, job = self._run.world, self._run.job
        arguments = arguments_of(handler, job, self._run.state, self._secret)
        refuse_unmaskable(arguments, world.redactor)
        env = environment_of(world, job, place.step, arguments, place.attempt, place.files)
        wanted_s = handler.timeout_s or place.policy.step_timeout_seconds
        policy = msgspec.structs.replace(place.policy, step_timeout_seconds=min(wanted_s, left_s))
        order = msgspec.structs.replace(
            place.order(job, arguments, env, policy),
            has_own_timeout=handler.timeout_s is not None,
            title=handler.title or place.step.title,
        )
        order = self._run.kinds.of(handler).handler_order(order, hides=arguments.hides)
        outcome = await world.runtimes[kind_of(handler.action)].perform(order, hooks)
        scene = Scene(
            run_id=job.run_id,
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
        checks = [check for check in arguments.expected.checks if not exit_codes(check)]
        if not checks:
            return None
        run = self._run
        examined = await run.world.inspector.examine(checks, scene, run.lifeline, run.stop)
        broken = [f"{result.check}: {result.detail}" for result in examined.results if not result.held]
        return "; ".join(broken) or None


def exit_expected(work: Step | Handler, outcome: Outcome) -> bool:
    """Where an attempt has no exit code it went well without a kind of failure."""
    codes = {code for check in work.expect for code in exit_codes(check)}
    return not step_kind(work.action).exits or outcome.exit_code in (codes or {0})


def exit_codes(check: Check) -> tuple[int, ...]:
    return check_kind(check).exit_codes(check)


def checks_to_examine(step: Step) -> list[Check]:
    """Those that ask for more than the exit code."""
    return [check for check in step.expect if not exit_codes(check)]


def is_empty(step: Step, outcome: Outcome, collected: Collected) -> bool:
    """Nothing to show: outputs without a value, or, of a step without any, nothing printed."""
    values = [*collected.plain.values(), *collected.secret.values()]
    if step.outputs or values:
        return all(value is None or value in ("", [], {}) for value in values)
    return not (outcome.stdout.head + outcome.stdout.tail).strip()
