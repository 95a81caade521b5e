"""Progress for people who watch: a table that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recoup.cli.output import print_json, seconds, write_line
from recoup.cli.words import Line, line_of, progress_words
from recoup.engine.world import Watcher
from recoup.kernel.healing import adapted_words, healed_words, rejected_words
from recoup.kernel.prefix import is_good
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.outcome import Progress
from recoup.model.redacted import Redacted
from recoup.model.run import RunState, StepRecord

_TONES = {"plain": "", "good": "green", "bad": "red", "heal": "yellow"}
_ROWS_MIN = 3
_LINES_AROUND = 9
"""What stands around the rows: title, heading, borders, the two counts, and a line or two above."""
_NARROW_COLUMNS = 90
_CONTROLS = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x1f\x7f-\x9f]")


@contextmanager
def progress(state: RunState, *, as_json: bool, quiet: bool) -> Iterator[Watcher]:
    """A watcher that shows, in the way that fits where we are; begins with what was done before."""
    if as_json:
        yield Watcher(event=_line)
    elif quiet:
        yield Watcher()
    elif sys.stderr.isatty():
        with _Table(state) as table:
            yield Watcher(event=table.event, said=table.said, progressed=table.progressed)
    else:
        yield Watcher(event=_plain)


def _line(event: Event) -> None:
    """Of the run's own stream, whose sequence has no holes; others have their own commands."""
    if event.stream.startswith("run:"):
        print_json(event.line())


def _plain(event: Event) -> None:
    line = line_of(event)
    if line:
        write_line(sys.stderr, f"[{event.at.iso()[11:19]}] {line.text}")


class _Table:
    """The steps, where each stands, and the last thing that was said."""

    def __init__(self, state: RunState) -> None:
        from rich.console import Console
        from rich.live import Live

        self._rows = [
            _Row(step.title, record) for step, record in zip(state.plan.steps, state.steps, strict=True)
        ]
        self._name, self._run_id = state.workflow, state.run_id
        self._began = time.monotonic()
        self._console = Console(stderr=True)
        self._live = Live(
            console=self._console, refresh_per_second=5, get_renderable=self._render, transient=True
        )

    def __enter__(self) -> _Table:
        self._live.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._live.stop()
        self._console.print(self._render())

    def event(self, event: Event) -> None:
        payload = event.payload
        if isinstance(payload, ev.StepPayload):
            self._rows[payload.step_index].take(payload)
        line = line_of(event)
        if line and line.tone in ("heal", "bad"):
            self._say(event, line)

    def said(self, step_index: int, _stream: str, chunk: Redacted) -> None:
        lines = chunk.text.strip().splitlines()
        if lines:
            self._rows[step_index].last_line = _CONTROLS.sub("", lines[-1])[:200]

    def progressed(self, step_index: int, progress: Progress) -> None:
        self._rows[step_index].last_line = _CONTROLS.sub("", progress_words(progress))[:200]

    def _say(self, event: Event, line: Line) -> None:
        from rich.text import Text

        self._console.print(Text(f"{event.at.iso()[11:19]}  {line.text}", style=_TONES[line.tone]))

    def _render(self) -> Any:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        narrow = self._console.width < _NARROW_COLUMNS
        done = sum(row.sign == "✓" for row in self._rows)
        lasted = seconds(time.monotonic() - self._began)
        name = self._name if narrow else f"{self._name}  {self._run_id}"
        table = Table(
            title=Text(f"{name}  {done} of {len(self._rows)}  {lasted}", no_wrap=True),
            expand=True,
            box=None if narrow else box.HEAVY_HEAD,
            padding=(0, 1, 0, 0) if narrow else (0, 1),
        )
        table.add_column("", min_width=1, no_wrap=True)
        table.add_column("step", no_wrap=True, overflow="ellipsis", ratio=1 if narrow else None, max_width=40)
        table.add_column("state", no_wrap=True, min_width=7)
        table.add_column("tries", justify="right", no_wrap=True, min_width=5)
        table.add_column("time", justify="right", no_wrap=True, min_width=6)
        if not narrow:
            table.add_column("what", overflow="ellipsis", no_wrap=True, ratio=1)
        for cells in self._shown():
            table.add_row(*cells[: len(table.columns)])
        return table

    def _shown(self) -> list[list[Any]]:
        """All rows, or as many as fit around the one that is being worked on, with the rest counted."""
        room = max(_ROWS_MIN, self._console.height - _LINES_AROUND)
        if len(self._rows) <= room:
            return [row.cells() for row in self._rows]
        current = max((i for i, row in enumerate(self._rows) if row.state != "waits"), default=0)
        first = max(0, min(current - room // 2, len(self._rows) - room))
        cells = [row.cells() for row in self._rows[first : first + room]]
        above, below = first, len(self._rows) - first - room
        return [*_more(above, "above"), *cells, *_more(below, "below")]


def _more(count: int, where: str) -> list[list[str]]:
    return [["", f"… {count} more {where}", "", "", "", ""]] if count else []


class _Row:
    def __init__(self, title: str, record: StepRecord) -> None:
        self.step_id, self.title = record.step_id, title
        self.state, self.tone, self.sign = "waits", "dim", "·"
        if is_good(record):
            self.state, self.tone, self.sign = record.verdict.value, "green", "✓"
        self.attempts = record.attempts
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
                self._set("failed", "red", "✗")
                self.last_line = payload.summary
            case ev.SelfHealTriggered() | ev.SelfHealEscalated():
                self._set("healing", "yellow", "↻")
                self.last_line = payload.reason or ""
            case ev.SelfHealExhausted():
                self._stop()
            case ev.StepSkipped():
                self._set("skipped", "dim", "-")
            case ev.TargetHealed():
                self.last_line = healed_words(payload)
            case ev.TargetAdapted():
                self.last_line = adapted_words(payload)
            case ev.TargetRejected():
                self.last_line = rejected_words(payload)
            case ev.StepInvalidated():
                self._set("invalidated", "yellow", "↺")
                self.last_line = payload.reason or ""

    def cells(self) -> list[Any]:
        from rich.text import Text

        took = time.monotonic() - self._began if self._began is not None else self._took
        return [
            Text(self.sign, style=self.tone),
            Text(self.step_id),
            Text(self.state, style=self.tone),
            Text(str(self.attempts) if self.attempts else ""),
            Text(seconds(took) if took else ""),
            Text(self.last_line or self.title),
        ]

    def _set(self, state: str, tone: str, sign: str) -> None:
        self.state, self.tone, self.sign = state, tone, sign

    def _stop(self) -> None:
        if self._began is not None:
            self._took = time.monotonic() - self._began
            self._began = None
