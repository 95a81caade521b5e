"""Spans for OpenTelemetry. Loaded only where its SDK is installed and somebody wants them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from recoup.metrics.measures import UNKNOWN
from recoup.metrics.spans import Level, Result, RunTrace, Span
from recoup.model import events as ev
from recoup.model.events import Event

RUNS_MAX = 1_024
"""That are open at once; the oldest is ended as lost."""
_BAD = (Result.FAILURE, Result.ERROR, Result.TIMEOUT)


class SpanTracer:
    """Follows the runs of this process and passes on what has ended."""

    def __init__(
        self, processor: SpanProcessor, exporter: CountingExporter, version: str, service: str
    ) -> None:
        _silence()
        self._exporter = exporter
        self._ids = _GivenIds()
        self._processor = processor
        # Nothing at exit: whoever closes this says for how long it may take.
        self._provider = TracerProvider(
            resource=Resource.create({SERVICE_NAME: service}),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("recoup", version)
        self._workflows: dict[str, str] = {}
        self._runs: dict[str, RunTrace] = {}

    @property
    def dropped(self) -> int:
        return self._exporter.dropped

    def enter(self, run_id: str, workflow: str) -> None:
        self._workflows[run_id] = workflow
        while len(self._workflows) > RUNS_MAX:
            del self._workflows[next(iter(self._workflows))]

    def event(self, event: Event) -> None:
        if not event.stream.startswith("run:"):
            return
        run_id = event.stream.removeprefix("run:")
        if isinstance(event.payload, ev.RunStarted | ev.RunResumed):
            self._begin(run_id, event)
        trace = self._runs.get(run_id)
        if trace is None:
            return
        for span in trace.take(event):
            self._emit(span)
        ended = _end(event.payload)
        if ended is not None:
            self._end(run_id, *ended)

    def close(self, wait_s: float) -> None:
        """Runs that are still open are not ended here: nobody knows how they will."""
        self._processor.force_flush(round(wait_s * 1000))
        self._provider.shutdown()

    def _begin(self, run_id: str, event: Event) -> None:
        """The end of a cooldown resumes what is open; another epoch is another driver's work."""
        open_one = self._runs.get(run_id)
        if open_one is not None and open_one.epoch == getattr(event.payload, "epoch", None):
            return
        self._end(run_id, Result.ERROR, "driver_lost", "the driver was lost")
        while len(self._runs) >= RUNS_MAX:
            self._end(next(iter(self._runs)), Result.ERROR, "driver_lost", "too many runs are open")
        self._runs[run_id] = RunTrace(run_id, self._workflows.get(run_id, UNKNOWN), event)

    def _end(self, run_id: str, result: Result | None, error: str | None, words: str) -> None:
        trace = self._runs.pop(run_id, None)
        for span in trace.end(result, error, words) if trace else ():
            self._emit(span)

    def _emit(self, span: Span) -> None:
        self._ids.next_trace, self._ids.next_span = span.trace_id, span.span_id
        made = self._tracer.start_span(
            span.name,
            context=set_span_in_context(NonRecordingSpan(self._parent(span))) if span.parent_id else None,
            kind=SpanKind.SERVER if span.level is Level.RUN else SpanKind.INTERNAL,
            attributes={**span.attributes, **_told(span)},
            start_time=span.start_ns,
        )
        if span.result in _BAD:
            made.set_status(Status(StatusCode.ERROR, span.words))
        made.end(span.end_ns)

    def _parent(self, span: Span) -> SpanContext:
        """The run's own span comes last: whether it will be sampled must be asked before."""
        sampled = self._provider.sampler.should_sample(None, span.trace_id, span.name).decision
        return SpanContext(
            span.trace_id,
            span.parent_id or 0,
            is_remote=False,
            trace_flags=TraceFlags(sampled is Decision.RECORD_AND_SAMPLE),
        )


class CountingExporter(SpanExporter):
    """Passes spans on, and counts those that could not be."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.dropped = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            self.dropped += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class _GivenIds(IdGenerator):
    """The ids that the span brings along."""

    def __init__(self) -> None:
        self.next_trace = self.next_span = 1

    def generate_trace_id(self) -> int:
        return self.next_trace

    def generate_span_id(self) -> int:
        return self.next_span


def _told(span: Span) -> dict[str, str]:
    told = {}
    if span.result is not None:
        of = "cicd.pipeline.result" if span.level is Level.RUN else "cicd.pipeline.task.run.result"
        told[of] = span.result.value
    if span.result in _BAD and span.error is not None:
        told["error.type"] = span.error
    return told


def _end(payload: ev.Payload) -> tuple[Result | None, str | None, str] | None:
    """How the driver's work on the run ended; None: it goes on."""
    match payload:
        case ev.RunSucceeded():
            return Result.SUCCESS, None, ""
        case ev.RunFailed() | ev.RunDeadLettered():
            return Result.FAILURE, payload.failure_kind or "failed", payload.reason
        case ev.RunCancelled():
            return Result.CANCELLATION, None, payload.reason
        case ev.RunInterrupted():
            return Result.CANCELLATION, None, payload.reason
        case ev.RunWaiting(waiting_for="operator" | "approval") | ev.RunBlocked():
            return None, None, payload.reason
        case ev.Escalated(step_id=str()):
            return None, None, payload.reason
        case _:
            return None


def _silence() -> None:
    """A collector that is away is no reason to write into the output of a run; whoever wants it can listen."""
    logger = logging.getLogger("opentelemetry")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
