"""Progress for people who watch: a table that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from recoup.engine.world import Watcher
from recoup.kernel.description import Description, Tone, describe
from recoup.kernel.prefix import is_good
from recoup.kernel.wording import duration, plain_log
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.outcome import Progress
from recoup.model.redacted import Redacted
from recoup.model.run import RunState, StepRecord
from recoup.model.workspace import Missing
from recoup.terminal.layout import Cell, Row, in_columns
from recoup.terminal.moments import clock
from recoup.terminal.screen import Screen, Size, can_redraw
from recoup.terminal.writer import note, print_json

_TONES = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.BAD: "red", Tone.WARN: "yellow"}
_ROWS_MIN = 3
_NEXT_MAX = 2
"""Number of waiting steps that are shown one by one."""
_LINES_AROUND = 7
"""Lines kept free around the rows: title, two counts, and a few lines above."""
_NARROW_COLUMNS = 90
_WIDTHS = (1, 24, 11, 8, 9)
_SAID_CHARS_MAX = 2_000


@contextmanager
def progress(state: RunState, *, as_json: bool, quiet: bool) -> Iterator[Watcher]:
    """A watcher that shows, in the way that fits where we are; begins with what was done before."""
    if as_json:
        yield Watcher(event=_line)
    elif quiet:
        yield Watcher()
    elif can_redraw():
        with _Table(state) as table:
            yield Watcher(event=table.event, said=table.said, progressed=table.progressed)
    else:
        yield Watcher(event=_Plain().event)


def _line(event: Event) -> None:
    """Of the run's own stream, whose sequence has no holes; others have their own commands."""
    if event.stream.startswith("run:"):
        print_json(event.line())


class _Plain:
    """A line for each fact that says something new."""

    def __init__(self) -> None:
        self._missing: tuple[Missing, ...] = ()

    def event(self, event: Event) -> None:
        line = self.line(event)
        if line:
            _print_line(event, line)

    def line(self, event: Event) -> Description | None:
        """What checkpoints lack is said once, and not after each step that still lacks it."""
        payload = event.payload
        if isinstance(payload, ev.CheckpointIncomplete):
            known, self._missing = self._missing, payload.missing
            if known == payload.missing:
                return None
        description = describe(payload)
        return description if description is not None and description.live else None


def _print_line(event: Event, line: Description) -> None:
    note(f"[{clock(event.at.iso())}] {line.text}", _TONES[line.tone])
    if line.hint:
        note(line.hint)


class _Table:
    """The steps, where each stands, and the last thing that was said."""

    def __init__(self, state: RunState) -> None:
        self._rows = [
            _Row(step.title, record) for step, record in zip(state.plan.steps, state.steps, strict=True)
        ]
        self._name, self._run_id = state.workflow, state.run_id
        self._began = time.monotonic()
        self._screen = Screen(self._drawn)
        self._lines = _Plain()

    def __enter__(self) -> _Table:
        self._screen.__enter__()
        return self

    def __exit__(self, *ended: object) -> None:
        for row in self._rows:
            row.end()
        self._screen.__exit__(*ended)

    def event(self, event: Event) -> None:
        payload = event.payload
        if isinstance(payload, ev.StepPayload):
            self._rows[payload.step_index].take(payload)
        line = self._lines.line(event)
        if line and line.tone in (Tone.WARN, Tone.BAD) and self._screen.is_in_front():
            _print_line(event, line)

    def said(self, step_index: int, _stream: str, chunk: Redacted) -> None:
        lines = plain_log(chunk.text[-_SAID_CHARS_MAX:]).strip().splitlines()
        if lines:
            self._rows[step_index].last_line = lines[-1]

    def progressed(self, step_index: int, progress: Progress) -> None:
        self._rows[step_index].last_line = plain_log(progress_words(progress))

    def _drawn(self, size: Size) -> list[Row]:
        done = sum(row.sign == "✓" for row in self._rows)
        name = self._name if size.columns < _NARROW_COLUMNS else f"{self._name}  {self._run_id}"
        lasted = duration(time.monotonic() - self._began)
        title = [Cell(f"{name}  {done} of {len(self._rows)}  {lasted}", "bold")]
        return [title, *self._folded(size.lines - _LINES_AROUND)]

    def _folded(self, room: int) -> list[Row]:
        """The steps that something has become of and the next few, or as many as fit; the rest is counted."""
        begun = [i for i, row in enumerate(self._rows) if row.state != "waits"]
        end = min(len(self._rows), (begun[-1] + 1 if begun else 0) + _NEXT_MAX)
        end = len(self._rows) if end >= len(self._rows) - 1 else end
        begin = max(0, end - max(_ROWS_MIN, room))
        rows = in_columns([row.cells() for row in self._rows[begin:end]], _WIDTHS)
        return [*_more(begin, "above"), *rows, *_more(len(self._rows) - end, "that wait")]


def _more(count: int, where: str) -> list[list[Cell]]:
    return [[Cell(f"… {count} more {where}", "dim")]] if count else []


class _Row:
    def __init__(self, title: str, record: StepRecord) -> None:
        self.step_id, self.title = record.step_id, title
        self.state, self.tone, self.sign = "waits", "dim", "·"
        if is_good(record):
            self.state, self.tone, self.sign = record.verdict.value, "green", "✓"
        self.attempts = record.spent.attempts
        self.last_line = ""
        self._began: float | None = None
        self._took = 0.0

    def take(self, payload: ev.StepPayload) -> None:
        match payload:
            case ev.AttemptStarted(phase="always"):
                self._began = self._began or time.monotonic()
            case ev.AttemptStarted():
                self._set("rescue" if payload.phase == "rescue" else "running", "cyan", "▶")
                self.attempts = payload.attempt or 0
                self._began = self._began or time.monotonic()
            case ev.AttemptFinished(phase="always"):
                self._stop()
            case ev.StepReused():
                self._set(str(payload.verdict), "green", "✓")
                self.last_line = f"reused from {payload.from_run_id}"
            case ev.AttemptFinished():
                self._set(str(payload.verdict), "green", "✓")
                self._stop()
                self.last_line = "" if payload.settled_by == "outcome" else f"settled: {payload.settled_by}"
            case ev.AttemptFailed():
                self._set(*(("failed", "red", "✗") if payload.outcome_known else ("unknown", "yellow", "?")))
                self.last_line = payload.summary
            case ev.SelfHealTriggered() | ev.SelfHealEscalated():
                self._set("healing", "yellow", "↻")
                self.last_line = payload.reason or ""
            case ev.SelfHealExhausted():
                self._stop()
            case ev.StepSkipped():
                self._set("skipped", "dim", "-")
            case ev.TargetHealed() | ev.TargetAdapted() | ev.TargetRejected():
                description = describe(payload)
                self.last_line = description.detail if description else ""
            case ev.StepInvalidated():
                self._set("invalidated", "yellow", "↺")
                self.last_line = payload.reason or ""

    def cells(self) -> list[Cell]:
        took = time.monotonic() - self._began if self._began is not None else self._took
        tries = f"{self.attempts} tries" if self.attempts > 1 else ""
        return [
            Cell(self.sign, self.tone),
            Cell(self.step_id),
            Cell(self.state, self.tone),
            Cell(tries),
            Cell(duration(took) if took else ""),
            Cell(self.last_line or self.title),
        ]

    def end(self) -> None:
        """Nobody drives it any more."""
        if self.state in ("running", "rescue"):
            self._set("interrupted", "yellow", "‖")
        self._stop()

    def _set(self, state: str, tone: str, sign: str) -> None:
        self.state, self.tone, self.sign = state, tone, sign

    def _stop(self) -> None:
        if self._began is not None:
            self._took = time.monotonic() - self._began
            self._began = None


def progress_words(progress: Progress) -> str:
    """`loading 3 of 10`, or as much of it as is known."""
    done = f"{progress.done:g}" if progress.done is not None else ""
    count = f"{done} of {progress.total:g}" if done and progress.total is not None else done
    return " ".join(part for part in (progress.note.text.strip(), count) if part)
