"""Output without end: drained always, bounded in memory and on disk, and the timers stay on time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.scenario.conftest import Cli

MEMORY_MAX_KB = 150_000
FLOODS = {
    "lines": "yes 'a line of output that says nothing new' | head -c {size}",
    "one line": "head -c {size} /dev/zero | tr '\\\\0' x",
    "no text": "head -c {size} /dev/urandom",
    "both streams": "yes out | head -c {size} & yes err | head -c {size} >&2; wait",
}


def flood(cli: Cli, command: str) -> None:
    plan = cli.plan(f"""
        version: 1
        name: flood
        steps:
          - id: flood
            run: "{command}; echo; echo the end"
            expect: [{{stdout: the end}}]
    """)
    driver = cli.start("run", plan, "--quiet")
    most = 0
    while driver.poll() is None:
        most = max(most, resident_kb(driver.pid))
        time.sleep(0.02)
    assert driver.returncode == 0
    assert 0 < most < MEMORY_MAX_KB
    run = cli.run_dir(cli("show", "last", "--json").json["runId"])
    log = (run / "artifacts/logs/steps/step-0000.log").read_bytes()
    assert len(log) < 20 << 20
    assert b"over log_bytes_max]" in log
    assert b"the end" in log[-(5 << 20) :]


def resident_kb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0]) if found else 0


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_is_bounded(cli: Cli, kind: str) -> None:
    flood(cli, FLOODS[kind].format(size=150_000_000))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("kind", "size"), [("lines", 10_000_000_000), ("one line", 1_000_000_000)])
def test_a_flood_of_gigabytes_is_bounded(cli: Cli, kind: str, size: int) -> None:
    flood(cli, FLOODS[kind].format(size=size))


@pytest.mark.parametrize(("key", "kind"), [("timeout", "wall_timeout")])
def test_a_flood_does_not_hold_up_the_timeout(cli: Cli, key: str, kind: str) -> None:
    plan = cli.plan(
        f"{{version: 1, name: endless, steps: [{{id: a, run: 'yes', {key}: 2s, max_attempts: 1}}]}}"
    )
    result = cli("run", plan, "--json")
    failed = result.payloads("task.step.attempt.failed")[0]
    assert failed["failureKind"] == kind
    assert failed["facts"]["durationMs"] < 6000


def test_a_slow_drip_still_meets_the_wall_timeout(cli: Cli) -> None:
    """F15: output every now and then keeps the idle timer quiet; the wall timer stands."""
    drip = "while true; do printf .; sleep 0.2; done"
    plan = cli.plan(
        f"{{version: 1, name: drip, steps: [{{id: a, run: '{drip}', timeout: 2s, idle_timeout: 1s, max_attempts: 1}}]}}"
    )
    result = cli("run", plan, "--json")
    assert result.payloads("task.step.attempt.failed")[0]["failureKind"] == "wall_timeout"


def test_a_silent_step_that_works_is_not_idle_by_activity(cli: Cli) -> None:
    busy = "end=$((SECONDS + 3)); while [ $SECONDS -lt $end ]; do :; done"
    plan = cli.plan(f"""
        version: 1
        name: busy
        steps: [{{id: a, run: "{busy}", idle_timeout: 1s, idle: activity, max_attempts: 1}}]
    """)
    assert cli("run", plan).code == 0
    idle = cli.plan(
        "{version: 1, name: idle, steps: [{id: a, run: sleep 9, idle_timeout: 1s, idle: activity, max_attempts: 1}]}"
    )
    assert cli("run", idle, "--json").document["failureKind"] == "idle_timeout"
