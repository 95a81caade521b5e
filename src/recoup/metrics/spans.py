"""A run's events as spans: pure, made when something has ended, from the times at which it was recorded.

A driver's work on a run is one span, a step in it another, each attempt of it a third. All that is done for a run
stands in one trace, whoever did it: ids follow from the run's id and from sequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from recoup.kernel.elapsed import elapsed_s
from recoup.metrics.measures import UNKNOWN
from recoup.model import events as ev
from recoup.model.failure import FailureKind
from recoup.model.instant import Instant
from recoup.model.run import Verdict

STEPS_MAX = 10_000
"""Of one run; what begins beyond them has no span."""
TEXT_CHARACTERS_MAX = 500
_PERIOD_S = 366 * 24 * 3600.0

Value = str | int | bool


class Result(StrEnum):
    """In the words of the CI/CD conventions. `error` is a fault of the machinery: a lost driver, say."""

    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLATION = "cancellation"
    SKIP = "skip"


class Level(StrEnum):
    RUN = "run"
    STEP = "step"
    ATTEMPT = "attempt"


@dataclass(frozen=True, slots=True)
class Span:
    level: Level
    name: str
    trace_id: int
    span_id: int
    parent_id: int | None
    start_ns: int
    end_ns: int
    result: Result | None
    """None: it waits for somebody, and is no result yet."""
    error: str | None = None
    words: str = ""
    attributes: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True)
class OpenStep:
    first_seq: int
    since: Instant
    step_id: str
    attempt_seq: int = 0
    attempt_since: Instant | None = None
    kind: str = UNKNOWN
    attempts: int = 0
    result: Result = Result.ERROR
    error: str | None = None
    words: str = ""


class RunTrace:
    """One driver's work on one run. `take` gives the spans that an event ends."""

    def __init__(self, run_id: str, workflow: str, begun: ev.Event) -> None:
        self._run_id, self._workflow = run_id, workflow
        self._since, self._seq = begun.at, begun.seq
        self._last = begun.at
        self._steps: dict[int, OpenStep] = {}
        self._delivery = getattr(begun.payload, "delivery", 0)
        self.epoch: int | None = getattr(begun.payload, "epoch", None)

    def take(self, event: ev.Event) -> Iterator[Span]:
        self._last = event.at
        match event.payload:
            case ev.AttemptStarted() as payload:
                self._started(payload, event)
            case ev.AttemptFinished() as payload:
                yield from self._finished(payload, event)
            case ev.AttemptFailed() as payload:
                yield from self._failed(payload, event)
            case ev.StepSkipped() as payload:
                yield self._skipped(payload, event)

    def end(self, result: Result | None, error: str | None, words: str) -> Iterator[Span]:
        """The steps that are still open, then the run."""
        for index in list(self._steps):
            yield self._step_span(index, self._last)
        yield Span(
            Level.RUN,
            f"RUN {self._workflow}",
            self._trace_id,
            self._run_span_id,
            None,
            self._ns(self._since),
            self._ns(self._last),
            result,
            error,
            words[:TEXT_CHARACTERS_MAX],
            {
                "cicd.pipeline.action.name": "RUN",
                "cicd.pipeline.name": self._workflow,
                "cicd.pipeline.run.id": self._run_id,
                "recoup.delivery": self._delivery,
            },
        )

    def _started(self, payload: ev.AttemptStarted, event: ev.Event) -> None:
        step = self._steps.get(payload.step_index)
        if step is None:
            if len(self._steps) >= STEPS_MAX:
                return
            step = self._steps[payload.step_index] = OpenStep(event.seq, event.at, payload.step_id)
        step.attempt_seq, step.attempt_since, step.kind = event.seq, event.at, payload.kind

    def _finished(self, payload: ev.AttemptFinished, event: ev.Event) -> Iterator[Span]:
        step = self._steps.get(payload.step_index)
        if step is None:
            return
        always = payload.phase == "always"
        good = always or payload.verdict != Verdict.FAILED
        yield from self._attempt_span(
            step, payload, event.at, payload.phase, Result.SUCCESS if good else Result.FAILURE
        )
        if not always or step.error is None:
            step.result, step.error, step.words = Result.SUCCESS, None, ""
        yield self._step_span(payload.step_index, event.at)

    def _failed(self, payload: ev.AttemptFailed, event: ev.Event) -> Iterator[Span]:
        step = self._steps.get(payload.step_index)
        if step is None:
            return
        result = _result_of(payload)
        error = payload.failure_kind.value if payload.failure_kind else "unknown"
        yield from self._attempt_span(step, payload, event.at, payload.phase, result, error, payload.summary)
        step.result, step.error, step.words = result, error, payload.summary

    def _skipped(self, payload: ev.StepSkipped, event: ev.Event) -> Span:
        self._steps[payload.step_index] = OpenStep(
            event.seq, event.at, payload.step_id, result=Result.SKIP, words=payload.reason or ""
        )
        return self._step_span(payload.step_index, event.at)

    def _attempt_span(
        self,
        step: OpenStep,
        payload: ev.StepPayload,
        ended: Instant,
        phase: str,
        result: Result,
        error: str | None = None,
        words: str = "",
    ) -> Iterator[Span]:
        if step.attempt_since is None:
            return
        step.attempts += 1
        yield Span(
            Level.ATTEMPT,
            f"attempt {step.step_id}",
            self._trace_id,
            _id(self._run_id, "attempt", step.attempt_seq),
            _id(self._run_id, "step", step.first_seq),
            self._ns(step.attempt_since),
            self._ns(ended),
            result,
            error,
            words[:TEXT_CHARACTERS_MAX],
            {**self._about(step), "recoup.phase": phase, **_known(payload)},
        )
        step.attempt_since = None

    def _step_span(self, index: int, ended: Instant) -> Span:
        step = self._steps.pop(index)
        return Span(
            Level.STEP,
            step.step_id,
            self._trace_id,
            _id(self._run_id, "step", step.first_seq),
            self._run_span_id,
            self._ns(step.since),
            self._ns(ended),
            step.result,
            step.error,
            step.words[:TEXT_CHARACTERS_MAX],
            {**self._about(step), "recoup.attempts": step.attempts},
        )

    def _about(self, step: OpenStep) -> dict[str, Value]:
        return {
            "cicd.pipeline.name": self._workflow,
            "cicd.pipeline.run.id": self._run_id,
            "cicd.pipeline.task.name": step.step_id,
            "cicd.pipeline.task.run.id": f"{self._run_id}/{step.step_id}/{step.first_seq}",
            "recoup.step.kind": step.kind,
        }

    @property
    def _trace_id(self) -> int:
        return int.from_bytes(sha256(f"trace {self._run_id}".encode()).digest()[:16]) or 1

    @property
    def _run_span_id(self) -> int:
        return _id(self._run_id, "run", self._seq)

    def _ns(self, at: Instant) -> int:
        """By the clock that does not jump, from the wall time at which the driver began: children stay within."""
        return self._since.wall_us * 1000 + round(elapsed_s(self._since, at, _PERIOD_S) * 1e6) * 1000


def _result_of(payload: ev.AttemptFailed) -> Result:
    match payload.failure_kind:
        case FailureKind.WALL_TIMEOUT | FailureKind.IDLE_TIMEOUT:
            return Result.TIMEOUT
        case FailureKind.CANCELLED:
            return Result.CANCELLATION
        case FailureKind.DRIVER_LOST | FailureKind.SPAWN_FAILED | FailureKind.WORKSPACE_BROKEN:
            return Result.ERROR
        case FailureKind.MACHINE_TROUBLE:
            return Result.ERROR
        case _:
            return Result.FAILURE


def _known(payload: ev.StepPayload) -> dict[str, Value]:
    said: dict[str, Value | None] = {
        "recoup.attempt": payload.attempt,
        "recoup.failure.class": payload.failure_class.value if payload.failure_class else None,
        "recoup.failure.kind": payload.failure_kind.value if payload.failure_kind else None,
        "recoup.failure.signature": payload.failure_signature,
        "recoup.strategy": payload.strategy,
    }
    return {name: value for name, value in said.items() if value is not None}


def _id(run_id: str, what: str, seq: int) -> int:
    return int.from_bytes(sha256(f"{what} {seq} {run_id}".encode()).digest()[:8]) or 1
