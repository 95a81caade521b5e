"""Processes under a probe: real ones, which crash, hang on, fork, flood and are killed."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from recoup.clock import SystemClock
from recoup.model import events as ev
from recoup.model.probe import (
    Budget,
    CommandCheck,
    HeartbeatCheck,
    HttpCheck,
    OutputCheck,
    Phase,
    ProcessKind,
    TcpCheck,
)
from recoup.model.process import Ended, EndedBy
from recoup.notifiers.command import NOTIFIER as COMMAND
from recoup.notifiers.command import CommandSettings
from recoup.notifiers.file import NOTIFIER as FILE
from recoup.notifiers.kind import DELIVERY_S, NotDelivered, Notification, NotifierSite, OpenNotifier
from recoup.probe.kinds.process import fault_of
from recoup.probe.output import Lines, OutputLog, Sluice
from recoup.redaction.redactor import SecretRedactor
from recoup.testing.probe import ProbeHouse, process

QUICK = Budget(delays_s=(0.05,))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def pids_in(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


async def gone(pids: list[int], within_s: float = 5) -> bool:
    end_s = time.monotonic() + within_s
    while any(alive(pid) for pid in pids):
        if time.monotonic() > end_s:
            return False
        await asyncio.sleep(0.02)
    return True


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


async def test_a_dead_process_is_noticed_within_a_tenth_of_a_second_and_started_again(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    api = process("api", "sh", "-c", f"echo $$ >> {pids}; exec sleep 1000", budget=QUICK)
    async with ProbeHouse(tmp_path, api, clock=SystemClock()).running() as house:
        delays: list[float] = []
        # It is running as soon as it is started; only what it has said of itself can be killed.
        await house.until(lambda: house.phase("api") == Phase.RUNNING and len(pids_in(pids)) == 1)
        while len(delays) < 3:
            began = time.monotonic()
            os.kill(pids_in(pids)[-1], signal.SIGKILL)
            await house.until(lambda: house.phase("api") == Phase.RECOVERING)
            delays.append(time.monotonic() - began)
            await house.until(
                lambda: house.phase("api") == Phase.RUNNING and len(pids_in(pids)) == 1 + len(delays)
            )
        assert min(delays) <= 0.1, delays
        fault = next(one for one in house.facts("api") if isinstance(one, ev.RecoveryPlanned))
        assert (fault.fault_class, fault.error_code) == ("process_exited", "signal_9")
    assert await gone(pids_in(pids))


async def test_the_old_one_is_dead_before_the_new_one_begins_even_if_it_will_not_stop(tmp_path: Path) -> None:
    """It ignores SIGTERM and leaves a daemon in a session of its own; both are gone before the next one starts."""
    pids, seen = tmp_path / "pids", tmp_path / "seen"
    script = (
        f"trap '' TERM; for p in $(cat {pids} 2>/dev/null); do kill -0 $p 2>/dev/null && echo $p >> {seen}; done;"
        f"echo $$ >> {pids}; setsid sh -c 'trap \"\" TERM; echo $$ >> {pids}; sleep 1000' & "
        "while true; do sleep 0.1; done"
    )
    stubborn = process("stubborn", "sh", "-c", script, stop_grace_s=0.2, budget=QUICK)
    async with ProbeHouse(tmp_path, stubborn, clock=SystemClock()).running() as house:
        await house.until(lambda: house.phase("stubborn") == Phase.RUNNING and len(pids_in(pids)) == 2)
        os.kill(pids_in(pids)[0], signal.SIGKILL)
        await house.until(lambda: "RecoverySucceeded" in house.types("stubborn"))
        await house.until(lambda: len(pids_in(pids)) == 4)
    assert not seen.exists(), "an old one was alive when a new one began"
    assert await gone(pids_in(pids))


async def test_a_daemon_that_forks_away_is_no_running_process(tmp_path: Path) -> None:
    """Its parent ends: that is an exit, and the daemon goes with it, or there would soon be two."""
    pids = tmp_path / "pids"
    script = f"setsid sh -c 'echo $$ >> {pids}; exec sleep 1000' & until test -s {pids}; do sleep 0.02; done; exit 0"
    daemon = process("daemon", "sh", "-c", script, budget=Budget(max_retries=0))
    async with ProbeHouse(tmp_path, daemon, clock=SystemClock()).running() as house:
        await house.until(lambda: house.phase("daemon") == Phase.FAILED)
        assert pids_in(pids) and await gone(pids_in(pids))


async def test_exit_codes_decide_what_follows(tmp_path: Path) -> None:
    codes = {"crashes": 1, "refuses": 2, "done": 0}
    resources = [
        process(
            name, "sh", "-c", f"sleep 0.2; exit {code}", never_restart_on=(0, 2), budget=Budget(max_retries=0)
        )
        for name, code in codes.items()
    ]
    rests = process("rests", needs=("done",))
    async with ProbeHouse(tmp_path, *resources, rests, clock=SystemClock()).running() as house:
        await house.until(lambda: [house.phase(name) for name in codes] == ["failed", "failed", "stopped"])
        limits = [
            [one.limit for one in house.facts(name) if isinstance(one, ev.ProbeEscalated)] for name in codes
        ]
        assert limits == [["max_retries"], ["final"], []]
        await house.until(lambda: house.phase("rests") == Phase.RUNNING)


def test_an_end_that_nobody_saw_is_an_exit_and_says_so() -> None:
    fault = fault_of(Ended(ended_by=EndedBy.EXIT), ProcessKind(command=("true",), never_restart_on=(0,)))
    assert (fault.fault_class, fault.error_code, fault.final) == ("process_exited", "exit_unknown", False)
    assert "nobody saw" in fault.reason


async def test_what_cannot_be_started_says_so(tmp_path: Path) -> None:
    async with ProbeHouse(
        tmp_path, process("none", "/does/not/exist", budget=QUICK), clock=SystemClock()
    ).running() as house:
        await house.until(lambda: house.phase("none") == Phase.FAILED)
        planned = [one for one in house.facts("none") if isinstance(one, ev.RecoveryPlanned)]
        assert {one.fault_class for one in planned} == {"process_not_started"} and len(planned) == 3
        assert "No such file" in planned[0].reason


async def test_a_flood_of_output_stops_nobody_and_fills_no_disk(tmp_path: Path) -> None:
    flood = process("flood", "sh", "-c", "yes 'a line that is printed for ever'", log_bytes_max=200_000)
    async with ProbeHouse(tmp_path, flood, process("other"), clock=SystemClock()).running() as house:
        await house.until(lambda: house.phase("flood") == house.phase("other") == Phase.RUNNING)
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await asyncio.sleep(0.05)
        assert time.monotonic() - began < 5, "the loop goes on"
        assert house.phase("flood") == Phase.RUNNING
    logs = [file.stat().st_size for file in (tmp_path / "probes").rglob("output.log*")]
    assert logs and sum(logs) < 200_000 + (1 << 19)


async def test_what_a_process_prints_is_kept_without_its_secrets(tmp_path: Path) -> None:
    secret = "tok" + "-" + "Zk3u9QpL77xw"
    prints = process("prints", "sh", "-c", f"echo begin {secret} end; exec sleep 1000")
    house = ProbeHouse(tmp_path, prints, clock=SystemClock())
    house.world.redactor.register("TOKEN", secret)
    async with house.running():
        await house.until(lambda: house.phase("prints") == Phase.RUNNING)
    (log,) = (tmp_path / "probes").rglob("output.log")
    assert "begin" in log.read_text() and secret not in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


async def test_checks_look_at_real_things(tmp_path: Path) -> None:
    port, beat = free_port(), tmp_path / "beat"
    server = (
        "import http.server, threading, time, pathlib\n"
        f"beat = pathlib.Path({str(beat)!r})\n"
        "def beats():\n"
        "    while True:\n"
        "        if not pathlib.Path('quiet').exists(): beat.write_text(str(time.time()))\n"
        "        time.sleep(0.05)\n"
        "threading.Thread(target=beats, daemon=True).start()\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(503 if pathlib.Path('sick').exists() else 200); self.end_headers()\n"
        "    def log_message(self, *a): pass\n"
        "print('listening', flush=True)\n"
        f"http.server.ThreadingHTTPServer(('127.0.0.1', {port}), H).serve_forever()\n"
    )
    often = {"every_s": 0.1, "failures": 2, "timeout_s": 2}
    checks = (
        TcpCheck(host="127.0.0.1", port=port, **often),  # type: ignore[arg-type]
        HttpCheck(url=f"http://127.0.0.1:{port}/healthz", **often),  # type: ignore[arg-type]
        HeartbeatCheck(path="beat", max_age_s=1.5, **often),  # type: ignore[arg-type]
        CommandCheck(command=("test", "!", "-e", "broken"), every_s=0.3, failures=1),
        OutputCheck(ready="^listening$", every_s=0.1),
    )
    api = process(
        "api", sys.executable, "-c", server, checks=checks, cwd=str(tmp_path), start_period_s=20, budget=QUICK
    )
    async with ProbeHouse(tmp_path, api, clock=SystemClock()).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        for file, fault_class in (
            ("sick", "http_unhealthy"),
            ("quiet", "heartbeat_stale"),
            ("broken", "command_failed"),
        ):
            (tmp_path / file).touch()
            await house.until(lambda: house.phase("api") != Phase.RUNNING)
            (tmp_path / file).unlink()
            await house.until(lambda: house.phase("api") == Phase.RUNNING)
            classes = [one.fault_class for one in house.facts("api") if isinstance(one, ev.RecoveryPlanned)]
            assert classes[-1] == fault_class


async def test_a_line_that_means_a_fault_is_noticed_at_once(tmp_path: Path) -> None:
    script = "sleep 0.3; echo 'FATAL: out of cheese'; exec sleep 1000"
    api = process(
        "api", "sh", "-c", script, checks=(OutputCheck(fault="^FATAL"),), budget=Budget(max_retries=0)
    )
    async with ProbeHouse(tmp_path, api, clock=SystemClock()).running() as house:
        await house.until(lambda: house.phase("api") == Phase.FAILED)
        (escalated,) = [one for one in house.facts("api") if isinstance(one, ev.ProbeEscalated)]
        assert escalated.fault_class == "output_pattern" and "cheese" not in escalated.reason


async def test_a_line_that_means_health_is_noticed_at_once(tmp_path: Path) -> None:
    """The clock stands still: nobody looks for a second time but because of the line."""
    script = "sleep 0.3; echo listening; exec sleep 1000"
    api = process("api", "sh", "-c", script, checks=(OutputCheck(ready="^listening$"),), settle_s=0)
    async with ProbeHouse(tmp_path, api).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)


async def test_a_lost_lease_ends_everything(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    api = process("api", "sh", "-c", f"echo $$ >> {pids}; exec sleep 1000")
    house = ProbeHouse(tmp_path, api, clock=SystemClock())
    running = asyncio.create_task(house.probe.run(asyncio.Event()))
    await house.until(lambda: house.probe.started.is_set() and len(pids_in(pids)) == 1)
    house.probe.lose()
    (result,) = await asyncio.gather(running, return_exceptions=True)
    assert isinstance(result, Exception) and "lost its lease" in str(result)
    assert await gone(pids_in(pids))


# Output


def test_a_sluice_drops_what_is_too_much_and_goes_on_with_a_new_line() -> None:
    now = [0.0]
    sluice = Sluice(lambda: now[0])
    assert sluice.passes(b"x" * (4 << 20)) != b""
    assert sluice.passes(b"half of a sec") == b""
    now[0] = 1.0
    assert sluice.passes(b"ret and more\nnext line\n") == b"next line\n"
    assert sluice.passes(b"again\n") == b"again\n"
    assert sluice.dropped == len(b"half of a sec") + len(b"ret and more\n")
    sluice.passes(b"y" * (4 << 20))
    now[0] = 2.0
    assert sluice.passes(b"no end of line") == b"", "still within the line that was cut"


def test_lines_are_cut_where_they_end_and_have_a_limit() -> None:
    lines: list[bytes] = []
    cutter = Lines(lines.append)
    cutter.feed("stdout", b"one\ntw")
    cutter.feed("stderr", b"other\n")
    cutter.feed("stdout", b"o\n")
    cutter.feed("stdout", b"z" * 70_000)
    assert lines[:3] == [b"one", b"other", b"two"]
    assert len(lines[3]) == 64 << 10


def test_a_log_has_two_files_and_both_streams_have_their_lines(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "deep" / "output.log", SecretRedactor(), 1000)
    log.feed("stdout", b"begun")
    log.feed("stderr", b"other\n")
    log.note("a word")
    for _ in range(100):
        log.feed("stdout", b"x" * 40 + b"\n")
    log.close()
    assert {file.name for file in (tmp_path / "deep").iterdir()} == {"output.log", "output.log.1"}
    assert sum(file.stat().st_size for file in (tmp_path / "deep").iterdir()) < 2000


def test_half_of_a_secret_before_a_gap_does_not_leak(tmp_path: Path) -> None:
    redactor, secret = SecretRedactor(), "tok" + secrets.token_hex(16)
    redactor.register("TOKEN", secret)
    log = OutputLog(tmp_path / "output.log", redactor, 1 << 20)
    log.feed("stdout", b"begun " + secret[:20].encode())
    log.note("100 bytes left out")
    log.feed("stdout", b"next line\n")
    log.close()
    text = (tmp_path / "output.log").read_text()
    assert secret[:20] not in text and text.endswith("next line\n")


# Outboxes


def test_a_command_has_the_time_that_its_file_gives_it() -> None:
    assert COMMAND.timeout_s(CommandSettings(("page",), 30)) == DELIVERY_S
    assert COMMAND.timeout_s(CommandSettings(("page",), 300)) > 300


def letter(number: int) -> Notification:
    body = SecretRedactor().seal({"escalation_id": f"p:api:{number}"})
    return Notification(f"p:api:{number}", "api", body)


def site(house: ProbeHouse) -> NotifierSite:
    world = house.world
    return NotifierSite(Path(house.config.folder), world.environ, world.keeper, _Forever())


async def test_a_file_is_told_once_also_after_a_torn_line(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "escalations.jsonl"
    outbox = OpenNotifier(FILE, str(file), site(ProbeHouse(tmp_path, process("api"), clock=SystemClock())))
    await outbox.deliver(letter(1))
    with file.open("ab") as torn:
        torn.write(b'{"escalation_id": "p:a')
    await outbox.deliver(letter(2))
    await outbox.deliver(letter(1))
    await outbox.deliver(letter(2))
    lines = file.read_bytes().splitlines()
    assert len(lines) == 3
    assert [msgspec.json.decode(lines[n])["escalation_id"] for n in (0, 2)] == ["p:api:1", "p:api:2"]
    broken = dataclasses.replace(outbox, settings=str(file / "below a file"))
    with pytest.raises(NotDelivered, match="below a file"):
        await broken.deliver(letter(1))


async def test_a_command_is_told_on_its_standard_input_until_it_says_that_it_worked(tmp_path: Path) -> None:
    house = ProbeHouse(tmp_path, process("api"), clock=SystemClock())
    script = "test -e ready || exit 3; cat > told; echo $RECOUP_ESCALATION_ID >> told"
    outbox = OpenNotifier(COMMAND, CommandSettings(("sh", "-c", script)), site(house))
    with pytest.raises(NotDelivered, match="exit 3"):
        await outbox.deliver(letter(1))
    (tmp_path / "ready").touch()
    await outbox.deliver(letter(1))
    assert (tmp_path / "told").read_text() == '{"escalation_id":"p:api:1"}p:api:1\n'


class _Forever:
    """A lease that does not run out."""

    deadline_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME) + 3600

    def attach(self, extend: Callable[[float], None]) -> Callable[[], None]:
        del extend
        return lambda: None
