"""Cost of metrics per event: without a sink, with a sink that accepts nothing, and with one that accepts all."""

from __future__ import annotations

import socket
import threading
import time

from benchmarks.report import Figure, percentile, scaled
from recoup.metrics.collector import EVENTS_MAX, Metrics
from recoup.metrics.measures import RunContext, measure
from recoup.metrics.resolver import Address, Resolver
from recoup.metrics.statsd import StatsdSink
from recoup.model.events import AttemptFailed, AttemptFinished, AttemptStarted, Event, Payload
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.instant import Instant

ROUNDS = scaled(20, 2)
EVENTS = 600
"""In each round; a pause follows, as between steps, and no queue is ever full."""
BAR_US = 20
STEP: dict[str, object] = {"step_id": "fetch", "step_index": 0, "attempt": 1}


def run() -> list[Figure]:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    live = StatsdSink(Resolver("127.0.0.1", receiver.getsockname()[1]))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    blocked = StatsdSink(Resolver("127.0.0.1", 9), connect=lambda _address: full(ours))
    hanging = threading.Event()
    lost = StatsdSink(Resolver("statsd.invalid", 9, lookup=lambda _host, _port: hang(hanging)))
    figures = [
        *cost("no sink", None, BAR_US),
        *cost("blocked sink", blocked, BAR_US),
        *cost("resolver that hangs", lost, BAR_US),
        *cost("live sink", live, BAR_US),
        Figure("made into measurements, per event", measuring_us(), "µs"),
    ]
    hanging.set()
    for one in (receiver, theirs):
        one.close()
    assert live.dropped == 0 and live.sent and blocked.dropped and not blocked.sent, "the sinks were as named"
    return figures


def cost(name: str, sink: StatsdSink | None, bar: float) -> list[Figure]:
    metrics, costs, waited = Metrics(sink), [], time.process_time()
    for _ in range(ROUNDS):
        for event in events():
            began = time.perf_counter_ns()
            metrics.event(event)
            costs.append((time.perf_counter_ns() - began) / 1000)
        time.sleep(0.15)
    metrics.close()
    used_us = (time.process_time() - waited) * 1e6 - sum(costs)
    assert EVENTS < EVENTS_MAX and not metrics.events_dropped and not metrics.faults
    return [
        Figure(f"{name}: per event, mean", sum(costs) / len(costs), "µs", bar=bar, at_most=True),
        Figure(f"{name}: per event, p99", percentile(costs, 0.99), "µs", bar=bar, at_most=True),
        Figure(f"{name}: in the thread, per event", used_us / len(costs), "µs"),
    ]


def measuring_us() -> float:
    context, many = RunContext("workflow"), events()
    began = time.perf_counter_ns()
    for event in many:
        context = measure(event, context)[1]
    return (time.perf_counter_ns() - began) / 1000 / len(many)


def events() -> list[Event]:
    at = Instant(1_800_000_000_000_000, 1, "boot")
    facts = Facts(kind=FailureKind.EXIT_NONZERO, exit_code=56, duration_ms=12)
    payloads: list[Payload] = [
        AttemptStarted(
            **STEP,  # type: ignore[arg-type]
            delivery=1,
            kind="run",
            args_digest="",
            pre_state=None,
            workspace=None,
            inline=False,
        ),
        AttemptFailed(
            **STEP,  # type: ignore[arg-type]
            failure_class=FailureClass.TRANSIENT_RUNTIME,
            failure_kind=FailureKind.EXIT_NONZERO,
            strategy="soft_reset",
            facts=facts,
            summary="exit 56",
            outcome_known=True,
        ),
        AttemptFinished(**STEP, verdict="passed", duration_ms=12),  # type: ignore[arg-type]
    ]
    return [Event("run:1", seq, at, payloads[seq % 3].TYPE, payloads[seq % 3], b"") for seq in range(EVENTS)]


def full(ours: socket.socket) -> socket.socket:
    """A socket whose buffer has no room and whose other end reads nothing."""
    made = ours.dup()
    made.setblocking(False)
    try:
        while True:
            made.send(b"x" * 1000)
    except BlockingIOError:
        return made


def hang(until: threading.Event) -> list[Address]:
    until.wait(60)
    return []
