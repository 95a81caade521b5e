"""Attempts and the waits between them, on one axis."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from recoup.kernel.description import Tone
from recoup.kernel.prefix import is_good, outcome_unknown
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.failure import FailureKind
from recoup.model.run import RunState, StepRecord, Verdict
from recoup.reports.axis import Axis, axis_of
from recoup.reports.plain import Plain
from recoup.reports.spoken import count, lasting
from recoup.reports.view import Bar, Lane, Timeline

_LANE_BARS_MAX = 60
_RUN_BARS_MAX = 200
_TITLE_CHARS_MAX = 120
_RESTS = (
    ev.RunInterrupted,
    ev.RunTakenOver,
    ev.RunBlocked,
    ev.Escalated,
    ev.RunFailed,
    ev.RunDeadLettered,
    ev.RunCancelled,
    ev.RunSucceeded,
)
"""From then on nobody works on the run."""


class _Span(msgspec.Struct):
    """A stretch of time as it is found; `end_s` is None while it lasts."""

    kind: str
    begin_s: float
    words: str
    end_s: float | None = None
    attempt: int = 0


def timeline(
    state: RunState, events: Sequence[Event], moments: Sequence[float], end_s: float, plain: Plain
) -> Timeline:
    tracks = _Tracks(len(state.steps), plain)
    for event, at_s in zip(events, moments, strict=True):
        tracks.tell(event.payload, at_s)
    tracks.close(end_s)
    axis = axis_of(tracks.busy(), end_s)
    lanes = tuple(_lane(state, record, tracks.steps[record.index], axis, plain) for record in state.steps)
    run = tuple(_bar(span, axis) for span in tracks.run[-_RUN_BARS_MAX:])
    return Timeline(lanes, run, axis.ticks(), axis.breaks(), len(tracks.run) - len(run))


class _Tracks:
    """What is known of each step, and of the run, up to one event."""

    def __init__(self, steps: int, plain: Plain) -> None:
        self.steps: list[list[_Span]] = [[] for _ in range(steps)]
        self.run: list[_Span] = []
        self._plain = plain
        self._last_s = 0.0
        self._open: dict[int, _Span] = {}
        self._waiting: dict[int, _Span] = {}

    def tell(self, payload: ev.Payload, at_s: float) -> None:
        if isinstance(payload, ev.StepPayload):
            self._step(payload, at_s)
        else:
            self._of_run(payload, at_s)
        self._last_s = at_s

    def close(self, end_s: float) -> None:
        for span in (*self._open.values(), *self._waiting.values(), *self.run[-1:]):
            span.end_s = end_s if span.end_s is None else span.end_s
        self.run = [span for span in self.run if span.kind != "wait" or span.end_s != span.begin_s]

    def busy(self) -> list[tuple[float, float]]:
        return [(s.begin_s, s.end_s) for track in self.steps for s in track if s.end_s is not None]

    def _step(self, payload: ev.StepPayload, at_s: float) -> None:
        index = payload.step_index
        match payload:
            case ev.AttemptStarted():
                self._end_wait(index, at_s)
                span = _Span("open", at_s, _start_words(payload), attempt=payload.attempt or 0)
                self._open[index] = span
                self.steps[index].append(span)
            case ev.AttemptFinished():
                bad = payload.phase == "always" and payload.reason is not None
                words = f"{payload.verdict}, {payload.settled_by.replace('_', ' ')}"
                words = payload.verdict if payload.settled_by == "outcome" else words
                self._end_attempt(index, "failed" if bad else "passed", at_s, words)
            case ev.AttemptFailed():
                known = (
                    payload.failure_class is not None and payload.facts.kind is not FailureKind.DRIVER_LOST
                )
                words = "did not begin" if payload.not_begun else self._plain.line(payload.summary, 160)
                self._end_attempt(index, "failed" if known else "unknown", at_s, words)
            case ev.SelfHealTriggered() | ev.SelfHealEscalated():
                how = (payload.strategy or "recovery").replace("_", " ")
                wait = _Span("backoff", at_s, f"{lasting(payload.delay_ms / 1000)} backoff, then {how}")
                self._waiting[index] = wait
                self.steps[index].append(wait)
            case _:
                pass

    def _of_run(self, payload: ev.Payload, at_s: float) -> None:
        match payload:
            case ev.RunSubmitted():
                words = "has not begun" if payload.queue is None else f"in the queue {payload.queue}"
                self._next(_Span("wait", at_s, self._plain.line(words, 160)), at_s)
            case ev.RunStarted() | ev.RunResumed():
                if isinstance(payload, ev.RunStarted) or self.run[-1:] == [] or self.run[-1].kind == "wait":
                    self._next(_Span("work", at_s, f"delivery {payload.delivery}"), at_s)
            case ev.RunWaiting():
                if payload.until is None:
                    self._rest(at_s)
                self._next(_Span("wait", at_s, self._plain.line(payload.reason, 160)), at_s)
            case ev.RunTakenOver():
                # Of a lost driver nobody knows more than its last fact.
                self._rest(self._last_s)
                self._next(_Span("wait", self._last_s, "the driver was lost"), self._last_s)
            case _ if isinstance(payload, _RESTS):
                self._rest(at_s)
                self._next(_Span("wait", at_s, self._plain.line(getattr(payload, "reason", ""), 160)), at_s)
            case _:
                pass

    def _next(self, span: _Span, at_s: float) -> None:
        if self.run and self.run[-1].end_s is None:
            self.run[-1].end_s = max(at_s, self.run[-1].begin_s)
        self.run.append(span)

    def _rest(self, at_s: float) -> None:
        """Nobody waits for anything now, and what was under way has stopped, whatever is recorded of it later."""
        for index in list(self._waiting):
            self._end_wait(index, at_s)
        for span in self._open.values():
            span.end_s = at_s if span.end_s is None else span.end_s

    def _end_wait(self, index: int, at_s: float) -> None:
        wait = self._waiting.pop(index, None)
        if wait is not None:
            wait.end_s = at_s

    def _end_attempt(self, index: int, kind: str, at_s: float, words: str) -> None:
        span = self._open.pop(index, None)
        if span is None:
            return
        span.end_s = at_s if span.end_s is None else span.end_s
        span.kind = kind
        span.words = f"{span.words}: {words}, after {lasting(span.end_s - span.begin_s)}"


def _start_words(payload: ev.AttemptStarted) -> str:
    phase = "" if payload.phase == "main" else f" ({payload.phase})"
    how = f", {payload.strategy.replace('_', ' ')}" if payload.strategy else ""
    return f"attempt {payload.attempt}{phase}{how}"


def _lane(state: RunState, record: StepRecord, spans: list[_Span], axis: Axis, plain: Plain) -> Lane:
    kept = spans if len(spans) <= _LANE_BARS_MAX else [*spans[:20], *spans[20 - _LANE_BARS_MAX :]]
    mark, tone = mark_of(state, record)
    tried = [span for span in spans if span.kind != "backoff"]
    return Lane(
        index=record.index,
        step_id=plain.line(record.step_id, _TITLE_CHARS_MAX),
        title=plain.line(state.plan.steps[record.index].title, _TITLE_CHARS_MAX),
        mark=mark,
        tone=tone,
        words=_lane_words(record, tried, plain),
        bars=tuple(_bar(span, axis) for span in kept),
        quiet=len(spans) <= 1 and (tone is Tone.PLAIN or is_good(record)),
        bars_left_out=len(spans) - len(kept),
    )


def mark_of(state: RunState, record: StepRecord) -> tuple[str, Tone]:
    if record.skipped:
        return "–", Tone.PLAIN
    if is_good(record):
        return "✓", Tone.GOOD
    if record.open is not None:
        return "▶", Tone.WARN
    if outcome_unknown(record):
        return "?", Tone.WARN
    if record.verdict is Verdict.FAILED:
        return "✗", Tone.WARN if record.recovery.strategy and not state.status.is_terminal else Tone.BAD
    return ("↺", Tone.WARN) if record.verdict is Verdict.INVALIDATED else ("·", Tone.PLAIN)


def _lane_words(record: StepRecord, tried: list[_Span], plain: Plain) -> str:
    if record.skipped:
        return "skipped"
    if record.reused_from is not None and not tried:
        return f"reused from {plain.line(record.reused_from, 60)}"
    if not tried:
        return "invalidated" if record.verdict is Verdict.INVALIDATED else "not run"
    took_s = sum((span.end_s or span.begin_s) - span.begin_s for span in tried)
    times = f"{count(len(tried), 'attempt')}, " if len(tried) > 1 else ""
    return f"{times}{lasting(took_s)}"


def _bar(span: _Span, axis: Axis) -> Bar:
    end_s = span.begin_s if span.end_s is None else span.end_s
    return Bar(span.kind, round(axis.place(span.begin_s), 5), round(axis.place(end_s), 5), span.words)
