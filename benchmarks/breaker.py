"""Cost and memory of the circuit breaker: neither may depend on the number of failures."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import msgspec

from benchmarks.report import Figure, median, percentile, scaled
from recoup.kernel.breaker import fold_health, rule
from recoup.model.events import WorkflowStepResult
from recoup.model.instant import Instant
from recoup.model.mode import Health
from recoup.model.policy import Policy

CALLS = scaled(20_000, 2_000)
FAILURES = scaled(1_000_000, 20_000)
PATIENT = Policy(workflow_fail_max_in_window=200, workflow_count_window=200, workflow_count_min=200)
NOW = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")


def run() -> list[Figure]:
    micros = [1e6 * seconds for seconds in decision_seconds()]
    seconds, growth, stored = many_failures()
    return [
        Figure("a result and its decision, median", median(micros), "µs"),
        Figure(
            "a result and its decision, 99th percentile", percentile(micros, 0.99), "µs", bar=50, at_most=True
        ),
        Figure(f"{FAILURES:,} failures folded", seconds, "s"),
        Figure(f"memory after {FAILURES:,} over 1,000", growth, "times", bar=1.2, at_most=True),
        Figure("the state as it is stored", stored, "bytes"),
    ]


def decision_seconds() -> Iterator[float]:
    """Results that fail and pass by turns, in a memory that is full."""
    health, seq = filled(1_000), 1_000
    for number in range(CALLS):
        payload, now = result(number, failed=number % 3 == 0), NOW.plus_s(number / 10)
        began = time.perf_counter()
        seq += 1
        health = fold_health(health, payload, now, seq)
        ruling = rule(health, PATIENT, now, seq, ended=True, begins="run")
        yield time.perf_counter() - began
        for told in ruling.payloads:
            seq += 1
            health = fold_health(health, told, now, seq)


def many_failures() -> tuple[float, float, int]:
    began = time.perf_counter()
    health = filled(FAILURES)
    seconds = time.perf_counter() - began
    few, many = held(filled(1_000)), held(health)
    return seconds, many / few, len(msgspec.json.encode(health))


def held(health: Health) -> int:
    """Bytes that a copy of the state takes."""
    raw = msgspec.json.encode(health)
    tracemalloc.start()
    copy = msgspec.json.decode(raw, type=Health)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert copy == health
    return size


def filled(failures: int) -> Health:
    health = Health()
    for number in range(failures):
        health = fold_health(health, result(number, failed=True), NOW.plus_s(number / 100), number + 1)
    return health


def result(number: int, *, failed: bool) -> WorkflowStepResult:
    told = "failed" if failed else "passed"
    return WorkflowStepResult(run_id=f"run-{number}", step_id=f"s{number % 500}", result=told, attempts=1)
