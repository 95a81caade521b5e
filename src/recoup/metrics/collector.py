"""Takes events from those who work and deals with them in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from recoup.metrics.measures import DROPPED, MEASURED, Measurement, RunContext, context_of, is_over, measure
from recoup.metrics.statsd import StatsdSink
from recoup.metrics.tally import Tally
from recoup.metrics.vocabulary import Vocabulary
from recoup.model.events import Event, WorkflowModeChanged
from recoup.model.ids import run_stream
from recoup.model.run import RunState

EVENTS_MAX = 8_192
RUNS_MAX = 1_024
"""About which something is remembered; the oldest is forgotten first."""
GATHER_S = 0.1
"""Between an event and its packet: what else happens by then goes with it."""
RETRY_S = 1.0
CLOSE_S = 0.5
_AT_A_TIME = 16
"""Events between two chances for the other threads to go on."""


class Tracer(Protocol):
    """Makes spans of events."""

    @property
    def dropped(self) -> int: ...

    def enter(self, run_id: str, workflow: str) -> None: ...

    def event(self, event: Event) -> None: ...

    def close(self, wait_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Entered:
    """A run that is about to be driven, as far as it is known."""

    run_id: str
    workflow: str
    context: RunContext


class Metrics:
    """Counts, times and traces of what this process does. `event` never waits and never raises."""

    def __init__(
        self,
        statsd: StatsdSink | None = None,
        tracer: Tracer | None = None,
        found_in: Callable[[bytes], object] = lambda _name: (),
    ) -> None:
        self.events_dropped = 0
        """For which the queue had no room."""
        self.faults = 0
        """Bugs of ours, each of which cost an event or what was to be passed on."""
        self.last_fault: str | None = None
        self._statsd, self._tracer = statsd, tracer
        self._tally = Tally()
        self._vocabulary = Vocabulary(found_in)
        self._runs: dict[str, RunContext] = {}
        self._queue: deque[Event | Entered | tuple[Event, str]] = deque()
        self._turn = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._close_by_s = 0.0
        self._dropped_told: dict[str, int] = {}
        self._thread = threading.Thread(target=self._work, name="recoup-metrics", daemon=True)
        self._thread.start()

    def event(self, event: Event) -> None:
        """For `Watcher.event`: told of every event after it is stored."""
        fact = type(event.payload)
        if fact not in MEASURED and self._tracer is None:
            return
        if fact is WorkflowModeChanged:
            self._put((event, self._vocabulary.word(event.stream.removeprefix("workflow:"))))
        else:
            self._put(event)

    def enter(self, state: RunState) -> None:
        """Before a run is driven: its workflow, and what failed under earlier drivers."""
        workflow = self._vocabulary.word(state.workflow)
        self._put(Entered(state.run_id, workflow, context_of(state, workflow)))

    def beside(self, listener: Callable[[Event], None]) -> Callable[[Event], None]:
        """A listener that tells these metrics first, then the one that is given."""
        return told(self.event, listener)

    def render(self) -> bytes:
        """Everything up to now, in the text format of Prometheus."""
        from recoup.metrics.prometheus import render

        with self._turn:
            self._take_all()
            self._count_dropped()
            return render(self._tally)

    def close(self, wait_s: float = CLOSE_S) -> None:
        """Passes on what is left, for so long and no longer."""
        self._close_by_s = time.monotonic() + wait_s
        self._closing.set()
        self._wake.set()
        self._thread.join(wait_s)

    def _put(self, item: Event | Entered | tuple[Event, str]) -> None:
        if len(self._queue) >= EVENTS_MAX:
            self.events_dropped += 1
            return
        self._queue.append(item)
        if not self._wake.is_set():
            self._wake.set()

    # In the thread

    def _work(self) -> None:
        while not self._closing.is_set():
            self._wake.wait(RETRY_S if self._statsd and self._statsd.waiting else None)
            self._closing.wait(GATHER_S)
            self._wake.clear()
            self._guarded(self._pass_on)
        self._guarded(self._pass_on)
        self._guarded(self._end)

    def _pass_on(self) -> None:
        with self._turn:
            self._take_all()
            if self._statsd is not None:
                self._tell_dropped(self._statsd)
                self._statsd.flush()

    def _take_all(self) -> None:
        for number in range(len(self._queue)):
            if number % _AT_A_TIME == 0:
                time.sleep(0)
            self._guarded(self._take, self._queue.popleft())

    def _guarded(self, work: Callable[..., None], *arguments: object) -> None:
        """Whatever is wrong here, the work it is about goes on, and so do the other numbers."""
        try:
            work(*arguments)
        except Exception as error:  # noqa: BLE001 counted among what was dropped
            self.faults += 1
            self.last_fault = f"{type(error).__name__}: {error}"

    def _take(self, item: Event | Entered | tuple[Event, str]) -> None:
        if isinstance(item, Entered):
            self._remember(run_stream(item.run_id), item.context)
            if self._tracer is not None:
                self._tracer.enter(item.run_id, item.workflow)
        elif isinstance(item, Event):
            self._measure(item, self._runs.get(item.stream, _NEW))
        else:
            self._measure(item[0], RunContext(item[1]))

    def _measure(self, event: Event, before: RunContext) -> None:
        measurements, after = measure(event, before)
        for measurement in measurements:
            self._tally.add(measurement)
            if self._statsd is not None:
                self._statsd.add(measurement)
        if is_over(event):
            self._runs.pop(event.stream, None)
        elif after is not before:
            self._remember(event.stream, after)
        if self._tracer is not None:
            self._tracer.event(event)

    def _remember(self, stream: str, context: RunContext) -> None:
        self._runs.pop(stream, None)
        self._runs[stream] = context
        while len(self._runs) > RUNS_MAX:
            del self._runs[next(iter(self._runs))]

    def _tell_dropped(self, statsd: StatsdSink) -> None:
        for where, dropped in (("queue", self.events_dropped), ("faults", self.faults)):
            untold = dropped - self._dropped_told.get(where, 0)
            if untold:
                self._dropped_told[where] = dropped
                statsd.add(Measurement(DROPPED, untold, (where,)))

    def _count_dropped(self) -> None:
        dropped = self._tally.counts[DROPPED]
        dropped[("queue",)] = self.events_dropped
        dropped[("faults",)] = self.faults
        dropped[("registry",)] = self._tally.dropped
        if self._statsd is not None:
            dropped[("statsd",)] = self._statsd.dropped
        if self._tracer is not None:
            dropped[("spans",)] = self._tracer.dropped

    def _end(self) -> None:
        if self._statsd is not None:
            self._statsd.close(self._left_s())
        if self._tracer is not None:
            self._tracer.close(self._left_s())

    def _left_s(self) -> float:
        return max(0.0, self._close_by_s - time.monotonic())


_NEW = RunContext()


def told(*listeners: Callable[[Event], None]) -> Callable[[Event], None]:
    """One listener out of several, each told in this order."""

    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return tell
