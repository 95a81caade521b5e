"""Runs as spans: run, step, attempt, as a collector of OpenTelemetry gets them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed: pip install 'recoup[otel]'")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from recoup.metrics.collector import Metrics
from recoup.metrics.tracing import CountingExporter, SpanTracer
from recoup.model import events as ev
from recoup.model.events import Event, Payload
from recoup.model.failure import Facts, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.outcome import Order, Outcome
from recoup.testing.clock import FakeClock
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import SUCCESS, ScriptedRuntime, exits, hangs

RESET = "error: connection reset by peer"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    one = House(tmp_path)
    yield one
    await one.ledger.close()


class Heard(list[Event]):
    """What the watcher of a house's runs is told, passed on as the app passes it on."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._tell = metrics.beside(super().append)

    def append(self, event: Event) -> None:
        self._tell(event)


class Traced:
    """Metrics whose spans stay here."""

    def __init__(self) -> None:
        self._memory = InMemorySpanExporter()
        exporter = CountingExporter(self._memory)
        self.metrics = Metrics(tracer=SpanTracer(SimpleSpanProcessor(exporter), exporter, "1", "recoup"))

    async def drive(self, house: House, run_id: str = "run-1") -> Sequence[ReadableSpan]:
        self.metrics.enter(await house.state(run_id))
        house.seen = Heard(self.metrics)
        await (await house.driver(run_id)).drive()
        return self.spans()

    def spans(self) -> Sequence[ReadableSpan]:
        self.metrics.close(5)
        assert self.metrics.faults == 0, self.metrics.last_fault
        return self._memory.get_finished_spans()


def script(house: House, **told: list[Outcome]) -> None:
    house.world.runtimes["run"] = ScriptedRuntime(told)  # type: ignore[index]


def named(spans: Sequence[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


def said(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


async def test_a_run_holds_its_steps_which_hold_their_attempts(house: House) -> None:
    script(house, a=[exits(1, RESET), hangs()])
    await house.submit(plan_of("a", "b", name="sync"))
    spans = await Traced().drive(house)
    (run,), (a,), (b,) = named(spans, "RUN sync"), named(spans, "a"), named(spans, "b")
    attempts = named(spans, "attempt a")
    assert len(spans) == 7 and len(attempts) == 3
    assert run.parent is None and run.kind is SpanKind.SERVER
    assert all(step.parent and step.parent.span_id == run.context.span_id for step in (a, b))
    assert all(one.parent and one.parent.span_id == a.context.span_id for one in attempts)
    assert len({span.context.span_id for span in spans}) == 7
    assert {span.context.trace_id for span in spans} == {run.context.trace_id}
    assert said(run) == {
        "cicd.pipeline.action.name": "RUN",
        "cicd.pipeline.name": "sync",
        "cicd.pipeline.run.id": "run-1",
        "cicd.pipeline.result": "success",
        "recoup.delivery": 1,
    }
    assert [said(one)["cicd.pipeline.task.run.result"] for one in attempts] == [
        "failure",
        "timeout",
        "success",
    ]
    assert said(attempts[1])["error.type"] == "idle_timeout"
    assert said(attempts[1])["recoup.failure.class"] == "stuck_no_progress"
    assert attempts[1].status.status_code is StatusCode.ERROR
    assert said(a)["cicd.pipeline.task.name"] == "a" and said(a)["recoup.attempts"] == 3
    assert said(a)["cicd.pipeline.task.run.result"] == "success" and a.status.status_code is StatusCode.UNSET


async def test_spans_take_their_times_from_the_events_even_when_the_wall_clock_jumps(house: House) -> None:
    clock = house.clock
    assert isinstance(clock, FakeClock)

    def jump(order: Order) -> Outcome:
        clock.advance(3)  # twice that is less than the lease lasts
        clock.jump_wall(-3600 if order.attempt == 1 else 10 * 365 * 24 * 3600)
        return exits(1, RESET) if order.attempt == 1 else SUCCESS

    house.world.runtimes["run"] = ScriptedRuntime({"a": jump})  # type: ignore[index]
    await house.submit(plan_of("a", "b", name="sync"))
    spans = await Traced().drive(house)
    (run,), (step,) = named(spans, "RUN sync"), named(spans, "a")
    first, second = named(spans, "attempt a")
    for attempt in (first, second):
        assert length_s(attempt) == pytest.approx(3, abs=0.5)
    gap_s = (second.start_time or 0) / 1e9 - (first.end_time or 0) / 1e9
    assert 0.3 < gap_s < 2  # the backoff
    assert length_s(step) == pytest.approx(6 + gap_s, abs=1)
    for span in spans:
        assert (run.start_time or 0) <= (span.start_time or 0) <= (span.end_time or 0) <= (run.end_time or 0)


def length_s(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


async def test_a_run_that_two_drivers_worked_on_is_one_trace(house: House) -> None:
    script(
        house,
        a=[
            exits(1, RESET),
            exits(1, "error: 503 service unavailable"),
            exits(1, "could not resolve host: x"),
        ],
    )
    await house.submit(plan_of("a", name="sync"))
    first = await Traced().drive(house)
    second = await Traced().drive(house)
    (failed,), (passed,) = named(first, "RUN sync"), named(second, "RUN sync")
    assert failed.context.trace_id == passed.context.trace_id
    assert failed.context.span_id != passed.context.span_id
    assert said(failed)["cicd.pipeline.result"] == "failure" and failed.status.description
    assert said(named(first, "a")[0])["error.type"] == said(failed)["error.type"] == "exit_nonzero"
    assert said(passed)["recoup.delivery"] == 2


def test_a_driver_that_was_lost_ends_in_an_error() -> None:
    step, run = spans_of(resumed(1), started("a"), resumed(2))
    assert said(run)["cicd.pipeline.result"] == said(step)["cicd.pipeline.task.run.result"] == "error"
    assert said(run)["error.type"] == "driver_lost"


def test_a_step_that_its_rescue_saved_succeeded_and_what_always_follows_is_a_span_of_its_own() -> None:
    spans = spans_of(
        resumed(1),
        started("a"),
        failed("a"),
        started("a", "rescue"),
        finished("a", "rescue", "recovered"),
        started("a", "always"),
        finished("a", "always", "recovered"),
        ev.StepSkipped(step_id="b", step_index=1, attempt=None, reason="when: no"),
        ev.RunSucceeded(known_good_prefix_length=2, reason=""),
    )
    steps = [span for span in spans if span.name in ("a", "b")]
    assert [said(one)["cicd.pipeline.task.run.result"] for one in steps] == ["success", "success", "skip"]
    assert [said(one)["recoup.attempts"] for one in steps] == [2, 1, 0]
    phases = [said(one)["recoup.phase"] for one in named(spans, "attempt a")]
    assert phases == ["main", "rescue", "always"]


def test_always_after_a_failure_does_not_make_it_good() -> None:
    end = ev.RunFailed(
        reason="no", failure_class=None, failure_kind=FailureKind.EXIT_NONZERO, retryable=False, delivery=1
    )
    spans = spans_of(
        resumed(1), started("a"), failed("a"), started("a", "always"), finished("a", "always", "failed"), end
    )
    (step,), (run,) = named(spans, "a"), named(spans, "RUN unknown")
    assert said(step)["cicd.pipeline.task.run.result"] == said(run)["cicd.pipeline.result"] == "failure"


def test_a_wait_for_a_person_is_no_result_and_a_cooldown_no_end() -> None:
    waits = ev.RunWaiting(reason="cooldown", waiting_for="time")
    gate = ev.RunWaiting(reason="a gate", waiting_for="approval")
    (run,) = spans_of(resumed(1), waits, resumed(1), gate)
    assert "cicd.pipeline.result" not in said(run) and run.status.status_code is StatusCode.UNSET
    assert length_s(run) == pytest.approx(3)


async def test_no_span_holds_a_secret(house: House) -> None:
    secret = "kW3" + "pQ8zL5" + "vY1nR7"
    house.redactor.register("TOKEN", secret)
    script(house, a=[exits(1, f"{RESET}: {secret}")])
    await house.submit(plan_of("a", name="sync"))
    spans = await Traced().drive(house)
    assert len(spans) == 4 and secret not in "".join(span.to_json() for span in spans)


def spans_of(*payloads: Payload) -> Sequence[ReadableSpan]:
    """One event a second."""
    traced = Traced()
    for seq, payload in enumerate(payloads, 1):
        at = Instant(10**15 + seq * 10**6, seq * 10**6, "boot-1")
        traced.metrics.event(Event("run:r", seq, at, payload.TYPE, payload, b""))
    return traced.spans()


def failed(step_id: str) -> Payload:
    return ev.AttemptFailed(
        step_id=step_id,
        step_index=0,
        attempt=1,
        failure_kind=FailureKind.EXIT_NONZERO,
        facts=Facts(kind=FailureKind.EXIT_NONZERO),
        summary="it failed",
        outcome_known=True,
        gives_up=True,
    )


def finished(step_id: str, phase: str, verdict: str) -> Payload:
    return ev.AttemptFinished(
        step_id=step_id, step_index=0, attempt=1, verdict=verdict, duration_ms=1, phase=phase
    )


def resumed(epoch: int) -> Payload:
    owner = ProcessIdentity("host", "boot-1", 1, 1)
    return ev.RunResumed(delivery=1, epoch=epoch, owner=owner, reason="")


def started(step_id: str, phase: str = "main") -> Payload:
    return ev.AttemptStarted(
        step_id=step_id,
        step_index=0,
        attempt=1,
        delivery=1,
        kind="run",
        args_digest="",
        pre_state=None,
        workspace=None,
        inline=True,
        phase=phase,
    )


# As a process of its own: the exporter reads its settings from the environment

PROGRAM = """
import sys
import time
from recoup.metrics.opening import open_metrics
from recoup.model.events import Event, RunStarted, RunSucceeded
from recoup.model.failure import Facts, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
import os
metrics = open_metrics(None, "plain", None, os.environ, lambda name: ())
owner = ProcessIdentity("host", "boot", 1, 1)
facts = [
    RunStarted(delivery=1, epoch=1, owner=owner, policy_digest=""),
    RunSucceeded(known_good_prefix_length=0, reason=""),
]
for seq, fact in enumerate(facts, 1):
    metrics.event(Event("run:r1", seq, Instant(10**15 + seq, seq, "boot"), fact.TYPE, fact, b""))
began_s = time.monotonic()
metrics.close(float(sys.argv[1]))
print(time.monotonic() - began_s)
assert metrics.faults == 0, metrics.last_fault
"""


def run_program(endpoint: str, wait_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(wait_s)],
        env={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_spans_reach_a_collector_over_http() -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    ended = run_program(f"http://127.0.0.1:{server.server_port}", 20)
    server.shutdown()
    thread.join()
    server.server_close()
    assert (ended.returncode, ended.stderr) == (0, "")
    request = ExportTraceServiceRequest.FromString(b"".join(bodies))
    spans = [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
    assert [span.name for span in spans] == ["RUN unknown"]


def test_a_collector_that_is_away_delays_the_end_for_a_moment_only_and_says_nothing() -> None:
    ended = run_program("http://127.0.0.1:9", 0.3)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert float(ended.stdout) < 8, "the exporter itself would try for a minute"


WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
from recoup.errors import SettingsError
from recoup.metrics.opening import open_metrics
assert open_metrics(None, "plain", None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, lambda name: ()) is None
try:
    open_metrics(None, "plain", True, {}, lambda name: ())
except SettingsError as error:
    assert "recoup[otel]" in (error.hint or "")
else:
    raise AssertionError("it was not refused")
"""


def test_without_the_extra_traces_are_left_out_unless_they_were_asked_for() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, timeout=60)
