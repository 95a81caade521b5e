"""Which sinks there are, from what was set. Without any, nothing is built and nothing is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from recoup import __version__
from recoup.errors import SettingsError

if TYPE_CHECKING:
    from recoup.metrics.collector import Metrics, Tracer
    from recoup.metrics.statsd import StatsdSink

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTER = "opentelemetry.exporter.otlp.proto.http"


def open_metrics(
    statsd: tuple[str, int] | None,
    flavour: str,
    otel: bool | None,
    environ: Mapping[str, str],
    found_in: Callable[[bytes], object],
) -> Metrics | None:
    """None where nobody listens. `otel`: None leaves it to whether the environment names a collector of spans."""
    wanted = any(environ.get(name) for name in _ENDPOINTS) if otel is None else otel
    tracer = _tracer(environ, required=otel is True) if wanted else None
    if statsd is None and tracer is None:
        return None
    from recoup.metrics.collector import Metrics

    return Metrics(_sink(*statsd, flavour) if statsd else None, tracer, found_in)


def _sink(host: str, port: int, flavour: str) -> StatsdSink:
    from recoup.metrics.resolver import Resolver
    from recoup.metrics.statsd import StatsdSink
    from recoup.metrics.statsd_lines import Flavour

    return StatsdSink(Resolver(host, port), Flavour(flavour))


def _tracer(environ: Mapping[str, str], *, required: bool) -> Tracer | None:
    if not _installed():
        if required:
            raise SettingsError(
                "RECOUP_OTEL asks for traces, and OpenTelemetry is not installed",
                hint="Install it: pip install 'recoup[otel]', or unset RECOUP_OTEL.",
            )
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from recoup.metrics.collector import EVENTS_MAX
    from recoup.metrics.tracing import CountingExporter, SpanTracer

    exporter = CountingExporter(OTLPSpanExporter())
    spans_max = None if environ.get("OTEL_BSP_MAX_QUEUE_SIZE") else EVENTS_MAX
    processor = BatchSpanProcessor(exporter, max_queue_size=spans_max)
    return SpanTracer(processor, exporter, __version__, environ.get("OTEL_SERVICE_NAME") or "recoup")


def _installed() -> bool:
    try:
        return find_spec(_EXPORTER) is not None and find_spec("opentelemetry.sdk") is not None
    except ModuleNotFoundError:
        return False
