"""A probe brings a service and a tunnel back within its budget, and hands over once when the service flaps."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from examples.asking import Gateway
from examples.camera import signed_in
from examples.stage import Child, Stage, ended, heard, until

TITLE = "a service flaps on a developer's machine: restarted, reconnected, and then handed over once"
HERE = Path(__file__).parent
FILES = ("dev.yaml", "api.py", "api.json")
SHORT = {"[1s, 2s, 4s]": "[10ms, 10ms, 10ms]", "stop_grace: 2s": "stop_grace: 2s, settle: 10ms"}
"""What the probe file says instead where seconds count."""
RETRIES_MAX = 3
Event = dict[str, Any]


async def tell(stage: Stage) -> None:
    async with (
        _far_end() as far,
        _gateway(stage) as (gateway, token),
        _probe(stage, gateway, token, far) as probe,
        signed_in(stage.pictures, "flapping-service", gateway.url, gateway.token) as camera,
    ):
        await _within_the_budget(stage, probe, far)
        escalation = await _beyond_it(stage, probe, gateway)
        await camera.take("escalation", f"/escalations/{quote(escalation['id'])}")
        await _mended(stage, probe, gateway, escalation)
        await _goes_on(stage, probe)
        await camera.take("probe", "/probes/dev")
    _stopped(stage, probe.pid())


async def _within_the_budget(stage: Stage, probe: "Probe", far: "FarEnd") -> None:
    stage.chapter("The service dies")
    await probe.until(_entered("api", "running"))
    first = probe.pid()
    _kill(stage, first)
    restarted = await probe.until(_is("RecoverySucceeded", "api"))
    stage.promise(
        "it was restarted at the first of three retries; the old one is gone, the new one lives",
        (restarted["action"], restarted["retry_count"]) == ("restart", 1)
        and not _lives(first)
        and _lives(probe.pid()),
    )
    await probe.until(_entered("api", "running"))
    stage.chapter("The tunnel breaks")
    second = probe.pid()
    stage.say("   the far end closes the connection")
    far.breaks()
    mended = await probe.until(_is("RecoverySucceeded", "tunnel"))
    await until(far.is_connected, "the far end hears of a connection")
    stage.promise(
        "it was connected again, at the first retry of its own budget",
        (mended["action"], mended["retry_count"]) == ("reconnect", 1) and far.connections == 2,
    )
    await probe.until(_entered("api", "running"))
    stage.promise(
        "the service, which needs it, was stopped for that and started again, which cost it no retry",
        probe.pid() != second and len(probe.of("RecoveryAttempted", "api")) == 1,
    )


async def _beyond_it(stage: Stage, probe: "Probe", gateway: Gateway) -> Event:
    stage.chapter("Somebody breaks its configuration, and it flaps")
    stage.say('   $ echo "{workers: two" > api.json')
    (stage.folder / "api.json").write_text("{workers: two\n")
    _kill(stage, probe.pid())
    handed_over = await probe.until(_is("Escalated", "api"))
    tried = [one["retry_count"] for one in probe.of("RecoveryAttempted", "api")]
    stage.promise("it was tried three times in all, and the fourth was refused", tried == [1, 2, RETRIES_MAX])
    stage.say(f"     {handed_over['reason']}")

    async def arrived() -> list[Event]:
        found = await gateway.ask("/api/escalations")
        return list(found["escalations"])

    escalations = await until(arrived, "the escalation is at the gateway")
    stage.promise(
        "exactly one escalation is at the gateway, and it says what to do next",
        [(one["state"], "reset-budget api" in one["event"]["hint"]) for one in escalations]
        == [("open", True)],
    )
    return escalations[0]


async def _mended(stage: Stage, probe: "Probe", gateway: Gateway, escalation: Event) -> None:
    stage.chapter("An operator takes it on")
    await _decide(stage, gateway, escalation, "acknowledge", "I am looking at it")
    refused = await _ordered(stage, probe, gateway, "does it help to try once more?")
    stage.promise(
        "not even the gateway goes around a budget that is spent: its restart is refused",
        (refused["outcome"], refused["rule"]) == ("refused", "budget"),
    )
    stage.say("   $ git checkout api.json")
    shutil.copy(HERE / "api.json", stage.folder)
    reason = "the configuration is fixed"
    await stage.recoup("--home", "laptop", "probe", "reset-budget", "api", "--reason", reason)
    accepted = await _ordered(stage, probe, gateway, reason)
    await probe.until(_entered("api", "running"))
    stage.promise("with its retries given back it is restarted, and runs", accepted["outcome"] == "accepted")
    await _decide(stage, gateway, escalation, "resolve", reason)
    await _recorded(stage, gateway, reason)


async def _recorded(stage: Stage, gateway: Gateway, reason: str) -> None:
    async def resets() -> list[Event]:
        told = await gateway.ask("/api/probe/events?probe_id=dev&after=0")
        return [one for one in told["events"] if one["type"] == "BudgetReset"]

    given_back = await until(resets, "the gateway hears of the budget")
    stage.promise(
        "that retries were given back is on record at the gateway, with who did it and why",
        [(one["automatic"], one["reason"]) for one in given_back] == [(False, reason)]
        and bool(given_back[0]["actor"]),
    )
    found = (await gateway.ask("/api/escalations"))["escalations"]
    stage.promise(
        "there was one escalation in all, and it is resolved", [one["state"] for one in found] == ["resolved"]
    )


async def _goes_on(stage: Stage, probe: "Probe") -> None:
    stage.chapter("The service dies once more")
    _kill(stage, probe.pid())
    restarted = await probe.until(_is("RecoverySucceeded", "api"))
    stage.promise(
        "the probe goes on: it was restarted, and nobody was asked", restarted["action"] == "restart"
    )


def _stopped(stage: Stage, pid: int) -> None:
    stage.promise(
        "the probe was told to stop, and nothing that it looked after is left",
        not _lives(pid),
    )


async def _decide(stage: Stage, gateway: Gateway, escalation: Event, verb: str, reason: str) -> None:
    """By the command; where seconds count by HTTP, as the console does."""
    name = escalation["id"]
    if not stage.short:
        await stage.recoup("escalations", verb, name, "--reason", reason)
        return
    stage.say(f"   POST /api/escalations/{name}/{verb}")
    await gateway.ask(f"/api/escalations/{quote(name)}/{verb}", {"reason": reason})


async def _ordered(stage: Stage, probe: "Probe", gateway: Gateway, reason: str) -> Event:
    """What the probe answers to the gateway's wish for a restart."""
    stage.say("   POST /api/probes/dev/act: restart api")
    wish = {"resourceId": "api", "action": "restart", "reason": reason}
    ordered = await gateway.ask("/api/probes/dev/act", wish)
    return await probe.until(lambda one: one.get("command_id") == ordered["command_id"] and "outcome" in one)


@dataclass
class FarEnd:
    """What the tunnel leads to; the story breaks it."""

    port: int = 0
    connections: int = 0
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        await reader.read()
        writer.close()

    async def is_connected(self) -> bool:
        """The probe may know it before the far end does."""
        return bool(self._writers)

    def breaks(self) -> None:
        while self._writers:
            self._writers.pop().close()


@asynccontextmanager
async def _far_end() -> AsyncIterator[FarEnd]:
    far = FarEnd()
    server = await asyncio.start_server(far.serve, "127.0.0.1", 0)
    far.port = server.sockets[0].getsockname()[1]
    try:
        yield far
    finally:
        server.close()
        far.breaks()


@asynccontextmanager
async def _gateway(stage: Stage) -> AsyncIterator[tuple[Gateway, str]]:
    """And the token that probes send to it."""
    stage.chapter("A gateway in the office, a probe on a developer's machine")
    stage.say("   $ recoup serve --port 0 --json")
    served = await stage.start("serve", "--port", "0", "--json")
    try:
        [told] = await heard(served, lambda one: "url" in one)
        yield Gateway(told["url"], told["tokens"]["operator"]), told["tokens"]["probe"]
    finally:
        await ended(served, grace_s=30)


@dataclass
class Probe:
    """The probe of the story, and all that it has said so far."""

    child: Child
    folder: Path
    events: list[Event] = field(default_factory=list)

    async def until(self, is_last: Callable[[Event], bool]) -> Event:
        """The next event that is such a one."""
        self.events += await heard(self.child, is_last)
        return self.events[-1]

    def of(self, kind: str, resource: str | None = None) -> list[Event]:
        return [one for one in self.events if one["type"] == kind and resource in (None, one["resource_id"])]

    def pid(self) -> int:
        return int((self.folder / "api.pid").read_text())


@asynccontextmanager
async def _probe(stage: Stage, gateway: Gateway, token: str, far: FarEnd) -> AsyncIterator[Probe]:
    """With a home of its own: it is another machine."""
    for name in FILES:
        shutil.copy(HERE / name, stage.folder)
    file = stage.folder / "dev.yaml"
    instead = {"http://127.0.0.1:8620": gateway.url, "127.0.0.1:9000": f"127.0.0.1:{far.port}"}
    written = file.read_text()
    for words, others in (instead | (SHORT if stage.short else {})).items():
        written = written.replace(words, others)
    file.write_text(written)
    stage.say("   $ RECOUP_TOKEN=… recoup --home laptop probe run dev.yaml --json")
    env = {"RECOUP_TOKEN": token, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    child = await stage.start("--home", "laptop", "probe", "run", "dev.yaml", "--json", env=env)
    try:
        yield Probe(child, stage.folder)
    finally:
        await ended(child, grace_s=30)


def _is(kind: str, resource: str) -> Callable[[Event], bool]:
    return lambda one: (one["type"], one["resource_id"]) == (kind, resource)


def _entered(resource: str, phase: str) -> Callable[[Event], bool]:
    return lambda one: _is("PhaseChanged", resource)(one) and one["phase"] == phase


def _kill(stage: Stage, pid: int) -> None:
    stage.say(f"   $ kill -9 {pid}")
    os.kill(pid, signal.SIGKILL)


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
