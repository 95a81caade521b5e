"""The tally in the text format of Prometheus, written by its own library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from recoup.metrics.measures import Measure
from recoup.metrics.tally import BUCKETS_S, Histogram, Tally


def render(tally: Tally) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Tallied(tally))
    return generate_latest(registry)


def prometheus_name(measure: Measure) -> str:
    return "recoup_" + measure.name.removeprefix("task.").replace(".", "_")


class _Tallied(Collector):
    """Made anew from the tally each time: the library's own counters would lock at every event."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterator[Metric]:
        for measure, series in self._tally.counts.items():
            yield _counter(measure, series.items())
        for measure, times in self._tally.times.items():
            yield _histogram(measure, times.items())


def _counter(measure: Measure, series: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    family = CounterMetricFamily(prometheus_name(measure), measure.meaning, labels=measure.tags)
    for values, total in series:
        family.add_metric(values, total)
    return family


def _histogram(measure: Measure, series: Iterable[tuple[tuple[str, ...], Histogram]]) -> Metric:
    family = HistogramMetricFamily(prometheus_name(measure), measure.meaning, labels=measure.tags)
    for values, histogram in series:
        family.add_metric(values, _cumulative(histogram), histogram.sum_s)
    return family


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    total, buckets = 0, []
    for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), histogram.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
