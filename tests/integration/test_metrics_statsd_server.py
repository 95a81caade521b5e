"""What the reference StatsD server makes of what we send. `make statsd` installs it; without it these
tests are skipped, and say so."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recoup.metrics import measures as m
from recoup.metrics.measures import Measurement
from recoup.metrics.resolver import Resolver
from recoup.metrics.statsd import StatsdSink
from recoup.metrics.statsd_lines import Flavour

SERVER = Path(__file__).parents[2] / ".bench" / "statsd" / "node_modules" / "statsd" / "stats.js"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(
    NODE is None or not SERVER.exists(),
    reason="the StatsD server is not installed: run `make statsd`",
)
MEASUREMENTS = [
    *(Measurement(m.ATTEMPTS, 1, ("transient_runtime", "soft_reset", "retrying")) for _ in range(70)),
    *(Measurement(m.ATTEMPTS, 1, ("stuck_no_progress", "hard_reset", "success")) for _ in range(3)),
    *(Measurement(m.RECOVERED) for _ in range(3)),
    Measurement(m.RUNS, 1, ("sync|x:y#z,@a\nb/c.d", "succeeded")),
    *(Measurement(m.DURATION, milliseconds / 1000) for milliseconds in (0, 1, 1500, 900_000)),
    Measurement(m.DROPPED, 41, ("queue",)),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[int, int]]:
    port, asked_at = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_STREAM)
    config = tmp_path / "config.js"
    config.write_text(
        json.dumps(
            {
                "address": "127.0.0.1",
                "port": port,
                "mgmt_address": "127.0.0.1",
                "mgmt_port": asked_at,
                "flushInterval": 3_600_000,
                "backends": [],
            }
        )
    )
    assert NODE is not None
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([NODE, str(SERVER), str(config)], stdout=log, stderr=log)
    try:
        until(lambda: "health: up" in ask(asked_at, "health"))
        yield port, asked_at
    finally:
        process.kill()
        process.wait()


def free_port(kind: int) -> int:
    with socket.socket(socket.AF_INET, kind) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def ask(port: int, command: str) -> str:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(command.encode())
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    except ConnectionError:
        return ""


def until(holds: Callable[[], bool]) -> None:
    """Another process's doing, which nothing tells us of."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "the server did not get there in time"
        time.sleep(0.02)


def counters(port: int) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"'([^']+)': ([\d.]+)", ask(port, "counters"))}


def timers(port: int) -> dict[str, list[float]]:
    found = re.findall(r"'([^']+)': \[([^\]]*)\]", ask(port, "timers"))
    return {name: [float(value) for value in values.split(",")] for name, values in found}


def send(port: int, flavour: Flavour) -> StatsdSink:
    sink = StatsdSink(Resolver("127.0.0.1", port), flavour)
    for measurement in MEASUREMENTS:
        sink.add(measurement)
    sink.close()
    return sink


def received(port: int, lines: int) -> dict[str, float]:
    until(lambda: counters(port).get("statsd.metrics_received", 0) >= lines)
    return counters(port)


def test_the_server_counts_what_we_count_in_the_datadog_flavour(server: tuple[int, int]) -> None:
    port, asked_at = server
    sink = send(port, Flavour.DATADOG)
    found = received(asked_at, len(MEASUREMENTS))
    assert (sink.sent, sink.dropped) == (len(MEASUREMENTS), 0)
    attempts = "task.self_heal.attempts_total"
    assert found == {
        "statsd.bad_lines_seen": 0,
        "statsd.packets_received": found["statsd.packets_received"],
        "statsd.metrics_received": len(MEASUREMENTS),
        f"{attempts};class=transient_runtime;strategy=soft_reset;outcome=retrying": 70,
        f"{attempts};class=stuck_no_progress;strategy=hard_reset;outcome=success": 3,
        "task.self_heal.recovered_total": 3,
        "task.run.status_total;workflow=sync_x_y_z__a_b-c.d;status=succeeded": 1,
        "task.metrics.dropped_total;where=queue": 41,
    }
    assert 1 < found["statsd.packets_received"] < len(MEASUREMENTS) / 5
    assert timers(asked_at) == {"task.step.duration_seconds": [0, 1, 1500, 900_000]}


def test_the_server_counts_what_we_count_in_the_plain_flavour(server: tuple[int, int]) -> None:
    port, asked_at = server
    send(port, Flavour.PLAIN)
    tagged = sum(bool(one.values) for one in MEASUREMENTS)
    found = received(asked_at, len(MEASUREMENTS) + tagged)
    attempts = "task.self_heal.attempts_total"
    assert found == {
        "statsd.bad_lines_seen": 0,
        "statsd.packets_received": found["statsd.packets_received"],
        "statsd.metrics_received": len(MEASUREMENTS) + tagged,
        attempts: 73,
        f"{attempts}.transient_runtime.soft_reset.retrying": 70,
        f"{attempts}.stuck_no_progress.hard_reset.success": 3,
        "task.self_heal.recovered_total": 3,
        "task.run.status_total": 1,
        "task.run.status_total.sync_x_y_z__a_b_c_d.succeeded": 1,
        "task.metrics.dropped_total": 41,
        "task.metrics.dropped_total.queue": 41,
    }
    assert timers(asked_at) == {"task.step.duration_seconds": [0, 1, 1500, 900_000]}
