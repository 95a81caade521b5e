"""Every measurement of this process added up, in bounded memory."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from recoup.metrics.measures import MEASURES, Kind, Measure, Measurement

SERIES_MAX = 2_000
BUCKETS_S = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    *(10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0),
)


@dataclass(slots=True)
class Histogram:
    """Times by how long they were; the last bucket holds what is longer than all of them."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    sum_s: float = 0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


class Tally:
    """Counts and histograms by the values of their tags. What was never seen and has no tags counts as zero."""

    def __init__(self) -> None:
        self.counts: dict[Measure, dict[tuple[str, ...], float]] = {}
        self.times: dict[Measure, dict[tuple[str, ...], Histogram]] = {}
        self.dropped = 0
        """Measurements of a series for which there was no room."""
        self._series = 0
        for measure in MEASURES:
            if measure.kind is Kind.COUNT:
                self.counts[measure] = {} if measure.tags else {(): 0}
            else:
                self.times[measure] = {} if measure.tags else {(): Histogram()}

    def add(self, measurement: Measurement) -> None:
        measure, value, values = measurement
        if measure.kind is Kind.COUNT:
            series = self.counts[measure]
            if values in series or self._room():
                series[values] = series.get(values, 0) + value
        elif values in self.times[measure] or self._room():
            self.times[measure].setdefault(values, Histogram()).add(value)

    def _room(self) -> bool:
        if self._series >= SERIES_MAX:
            self.dropped += 1
            return False
        self._series += 1
        return True
