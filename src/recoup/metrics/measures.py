"""What an event is worth in numbers: a pure function of the event and of what is remembered about its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from recoup.kernel.memory import FROM_LESSON, FROM_MEMORY
from recoup.model import events as ev
from recoup.model.decision import Strategy
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.run import RunState, RunStatus, Verdict
from recoup.model.target import ALIAS, EXACT, FORMAT, MODEL, SEMANTIC, SPATIAL, TIMING

FAILING_MAX = 64
"""Steps of one run that have failed and not passed since; the oldest are forgotten first."""
_DURATION_MAX_MS = 10 * 366 * 24 * 3600 * 1000
NONE, OTHER, UNKNOWN = "none", "other", "unknown"


class Kind(StrEnum):
    COUNT = "count"
    TIME = "time"


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """Something that is measured: its public name and the names of its tags."""

    name: str
    kind: Kind
    tags: tuple[str, ...]
    meaning: str


ATTEMPTS = Measure(
    "task.self_heal.attempts_total",
    Kind.COUNT,
    ("class", "strategy", "outcome"),
    "Attempts that failed, and attempts that passed after a failure.",
)
RECOVERED = Measure("task.self_heal.recovered_total", Kind.COUNT, (), "Steps that passed after a failure.")
EXHAUSTED = Measure("task.self_heal.exhausted_total", Kind.COUNT, (), "Steps whose budget was spent.")
DURATION = Measure("task.step.duration_seconds", Kind.TIME, (), "How long an attempt of a step took.")
IDLE = Measure("task.step.idle_timeout_total", Kind.COUNT, (), "Attempts that were silent for too long.")
WALL = Measure("task.step.wall_timeout_total", Kind.COUNT, (), "Attempts that took too long.")
NO_PROGRESS = Measure("task.step.no_progress_total", Kind.COUNT, (), "Attempts that ended like earlier ones.")
RUNS = Measure(
    "task.run.status_total", Kind.COUNT, ("workflow", "status"), "Times that a run came into a status."
)
MODES = Measure(
    "workflow.mode.changes_total", Kind.COUNT, ("workflow", "mode"), "Times that a workflow came into a mode."
)
RESOLVED = Measure(
    "target.resolutions_total",
    Kind.COUNT,
    ("level", "found_by", "outcome"),
    "Targets that were looked for in a browser, by how tolerantly, and what became of the attempt.",
)
RESOLVING = Measure("target.resolution_seconds", Kind.TIME, (), "How long it took to find a target.")
HEALED = Measure(
    "target.healed_total",
    Kind.COUNT,
    ("verified",),
    "Elements that were taken for a target that had changed.",
)
STRATEGIES = Measure(
    "target.strategies_total",
    Kind.COUNT,
    ("strategy", "verified"),
    "What was needed where a target was not there, or not filled, as it was written.",
)
REJECTED = Measure("target.rejected_total", Kind.COUNT, (), "Targets for which no element was taken.")
DROPPED = Measure(
    "task.metrics.dropped_total", Kind.COUNT, ("where",), "Events and measurements that were not passed on."
)
MEASURES = (
    *(ATTEMPTS, RECOVERED, EXHAUSTED, DURATION, IDLE, WALL, NO_PROGRESS),
    *(RUNS, MODES, RESOLVED, RESOLVING, HEALED, STRATEGIES, REJECTED, DROPPED),
)


class Measurement(NamedTuple):
    """One number. A time is in seconds; the values of the tags are in the order of their names."""

    measure: Measure
    value: float = 1
    values: tuple[str, ...] = ()


class Failing(NamedTuple):
    """A step that has failed, and what was decided then."""

    step_index: int
    cls: str
    strategy: str


@dataclass(frozen=True, slots=True)
class RunContext:
    """What is remembered about a run between its events. Bounded."""

    workflow: str = UNKNOWN
    failing: tuple[Failing, ...] = ()


Measured = tuple[tuple[Measurement, ...], RunContext]
P = TypeVar("P", bound=ev.Payload)


def measure(event: ev.Event, run: RunContext) -> Measured:
    """What the event adds, and what is to be remembered for the run's next one."""
    measures = _MEASURES.get(type(event.payload))
    return measures(event.payload, run) if measures else ((), run)


def is_over(event: ev.Event) -> bool:
    """The driver is done with the run: whoever goes on with it enters it anew."""
    return isinstance(event.payload, _LAST)


def context_of(state: RunState, workflow: str) -> RunContext:
    """What is remembered of a run whose earlier events nobody here has seen."""
    failed = [record for record in state.steps if record.verdict is Verdict.FAILED]
    failing = [
        Failing(record.index, _class(record.failure.cls), _strategy(record.recovery.strategy))
        for record in failed
    ]
    return RunContext(workflow, tuple(failing[-FAILING_MAX:]))


def _failed(payload: ev.AttemptFailed, run: RunContext) -> Measured:
    if payload.not_begun or payload.phase == "always":
        return (), run
    found = [*_took(payload), *_symptoms(payload), *_resolved(payload.resolution, "failed")]
    if payload.failure_class is None:
        return tuple(found), run
    cls, strategy = _class(payload.failure_class), _strategy(payload.strategy)
    found.append(Measurement(ATTEMPTS, 1, (cls, strategy, _outcome(payload))))
    return tuple(found), _remember(run, Failing(payload.step_index, cls, strategy))


def _took(payload: ev.AttemptFailed) -> list[Measurement]:
    """Nobody knows how long a lost attempt took."""
    known = payload.outcome_known or payload.facts.duration_ms > 0
    return [_duration(payload.facts.duration_ms)] if known else []


def _duration(milliseconds: int) -> Measurement:
    return Measurement(DURATION, min(max(0, milliseconds), _DURATION_MAX_MS) / 1000)


def _symptoms(payload: ev.AttemptFailed) -> list[Measurement]:
    found = []
    if payload.failure_kind is FailureKind.IDLE_TIMEOUT:
        found.append(Measurement(IDLE))
    if payload.failure_kind is FailureKind.WALL_TIMEOUT:
        found.append(Measurement(WALL))
    if _repeats(payload):
        found.append(Measurement(NO_PROGRESS))
    return found


def _repeats(payload: ev.AttemptFailed) -> bool:
    """Silence alone has the same class; only the decision tells whether it was the same silence again."""
    if payload.failure_class is not FailureClass.STUCK_NO_PROGRESS:
        return False
    return payload.failure_kind is not FailureKind.IDLE_TIMEOUT or (payload.reason or "").startswith(
        "no progress"
    )


def _outcome(payload: ev.AttemptFailed) -> str:
    if payload.strategy not in (None, Strategy.NONE):
        return "retrying"
    return "queue_retry" if payload.redeliver else "failed"


def _finished(payload: ev.AttemptFinished, run: RunContext) -> Measured:
    if payload.phase == "always":
        return (), run
    before = next((one for one in run.failing if one.step_index == payload.step_index), None)
    found = [_duration(payload.duration_ms)] if payload.settled_by == "outcome" else []
    found += _resolved(payload.resolution, "passed")
    if payload.settled_by != "operator" and (before or payload.verdict == Verdict.RECOVERED):
        cls, strategy = (before.cls, before.strategy) if before else (NONE, NONE)
        found += [Measurement(ATTEMPTS, 1, (cls, strategy, "success")), Measurement(RECOVERED)]
    return tuple(found), _forget(run, payload.step_index) if before else run


def _resolved(resolution: ev.ResolutionDetails | None, outcome: str) -> list[Measurement]:
    if resolution is None:
        return []
    level, found_by = str(min(max(0, resolution.healing_attempt), _LEVEL_MAX)), resolution.found_by
    tags = (level, found_by if found_by in _FOUND_BY else OTHER, outcome)
    seconds = min(max(0.0, resolution.duration_ms), _DURATION_MAX_MS) / 1000
    return [Measurement(RESOLVED, 1, tags), Measurement(RESOLVING, seconds)]


def _healed(payload: ev.TargetHealed, run: RunContext) -> Measured:
    verified = "yes" if payload.verified else "no"
    how = payload.found_by if payload.found_by in _FOUND_BY else OTHER
    return (Measurement(HEALED, 1, (verified,)), Measurement(STRATEGIES, 1, (how, verified))), run


def _adapted(payload: ev.TargetAdapted, run: RunContext) -> Measured:
    how = payload.strategy if payload.strategy in (TIMING, FORMAT) else OTHER
    return (Measurement(STRATEGIES, 1, (how, "yes" if payload.verified else "no")),), run


def _rejected(_payload: ev.TargetRejected, run: RunContext) -> Measured:
    return (Measurement(REJECTED),), run


def _remember(run: RunContext, failing: Failing) -> RunContext:
    others = _forget(run, failing.step_index).failing
    return RunContext(run.workflow, (*others, failing)[-FAILING_MAX:])


def _forget(run: RunContext, step_index: int) -> RunContext:
    return RunContext(run.workflow, tuple([one for one in run.failing if one.step_index != step_index]))


def _exhausted(_payload: ev.SelfHealExhausted, run: RunContext) -> Measured:
    return (Measurement(EXHAUSTED),), run


def _mode_changed(payload: ev.WorkflowModeChanged, run: RunContext) -> Measured:
    return (Measurement(MODES, 1, (run.workflow, payload.mode.value)),), run


def _status(status: RunStatus) -> Callable[[Any, RunContext], Measured]:
    def came(_payload: ev.Payload, run: RunContext) -> Measured:
        return (Measurement(RUNS, 1, (run.workflow, status.value)),), run

    return came


def _class(cls: FailureClass | None) -> str:
    return cls.value if cls is not None else NONE


def _strategy(strategy: str | None) -> str:
    """A word that another version may have made up is not passed on."""
    return strategy if strategy in _STRATEGIES else NONE if strategy is None else OTHER


_LEVEL_MAX = 9
_FOUND_BY = (EXACT, ALIAS, FROM_MEMORY, SEMANTIC, SPATIAL, MODEL, FROM_LESSON, NONE)
_STRATEGIES = {strategy.value for strategy in Strategy}
_LAST = (ev.RunSucceeded, ev.RunFailed, ev.RunDeadLettered, ev.RunCancelled, ev.RunInterrupted)
_MEASURES: dict[type[ev.Payload], Callable[[Any, RunContext], Measured]] = {
    ev.AttemptFailed: _failed,
    ev.AttemptFinished: _finished,
    ev.SelfHealExhausted: _exhausted,
    ev.TargetHealed: _healed,
    ev.TargetAdapted: _adapted,
    ev.TargetRejected: _rejected,
    ev.WorkflowModeChanged: _mode_changed,
    ev.RunStarted: _status(RunStatus.RUNNING),
    ev.RunResumed: _status(RunStatus.RUNNING),
    ev.RunWaiting: _status(RunStatus.WAITING),
    ev.RunBlocked: _status(RunStatus.BLOCKED),
    ev.RunSucceeded: _status(RunStatus.SUCCEEDED),
    ev.RunFailed: _status(RunStatus.FAILED),
    ev.RunCancelled: _status(RunStatus.CANCELLED),
    ev.RunDeadLettered: _status(RunStatus.DEAD_LETTER),
    ev.Escalated: _status(RunStatus.ESCALATED),
}
MEASURED = frozenset((*_MEASURES, *_LAST))
"""The facts that anything here follows from."""
