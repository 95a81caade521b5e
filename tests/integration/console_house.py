"""The console on one real gateway, in one real browser, with something of everything to look at."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from playwright.sync_api import Browser, Page
from tests.integration.console_reader import Reader, browsing, signed_in
from tests.integration.gateway_house import Gateway, gateway
from tests.integration.heal_house import Shop, plan_file

from recoup.gateway.service import served
from recoup.model.events import Escalated, TargetHealed
from recoup.model.ids import run_stream, targets_stream
from recoup.model.storage import Append, Draft, Escalation, StreamAppend
from recoup.model.target import Box, Candidate, Element
from recoup.operations.probe_reports import ProbeDesk

HOSTILE = '<img src=x onerror="document.title=1">\u202e"\'&'
"""What a run may be called, print or fail with."""
POLICY = "delivery_max: 1\nstep_max_attempts: 2\nbackoff_ms: 10\nstep_fail_streak_to_degraded: 9\n"
PROBE = """\
version: 1
resources:
  - {id: api, process: {command: [sleep, "600"], settle: 100ms}}
"""
PLANS = {
    "hello": "version: 1\nname: hello\nsteps: [{id: a, run: echo hi}]",
    "broken": "version: 1\nname: broken\nsteps: [{id: a, run: 'echo connection reset by peer \"$X\"; exit 3', "
    "env: {X: '<script>document.title=2</script>'}}]",
    "gate": "version: 1\nname: gate\nsteps: [{id: g, approve: {message: 'Release?'}}, {id: b, run: echo out}]",
}

OF_ONE = {
    "/heals/{run_id}/{step}/{attempt}": "/heals/run-1/print/1",
    "/workflows/{name}": "/workflows/shop",
    "/workflows/{name}/memory": "/workflows/shop/memory",
    "/escalations/{escalation_id}": "/escalations/esc-1",
    "/probes/{probe_id}": "/probes/near",
}
"""Which one of many a page is looked at with. Other pages get a run, a step and its first attempt."""
OTHERWISE = ("/api/", "/static/", "/metrics", "/healthz", "/runs/{run_id}/report")
"""For programs, or a file to keep."""
PAGES = sorted(path for method, path in served() if method == "GET" and not path.startswith(OTHERWISE))
"""Every page of the console, whoever made it."""


@dataclass
class Console:
    """Who looks, and at what."""

    gateway: Gateway
    browser: Browser
    reader: Reader
    runs: dict[str, str]

    @property
    def page(self) -> Page:
        return self.reader.page

    @property
    def wrong(self) -> list[str]:
        """What the browser refused or did not understand. Addresses that are not served are the business of whoever
        asks; what the page itself does wrong is ours."""
        return [words for words in self.reader.troubles if "Failed to load resource" not in words]

    def open(self, path: str) -> Page:
        answer = self.page.goto(self.gateway.url + path)
        assert answer is not None and answer.status == 200, f"{path}: {answer and answer.status}"
        return self.page

    def address(self, template: str) -> str:
        if template in OF_ONE:
            return OF_ONE[template]
        return template.format(run_id=self.runs["hello"], step="a", attempt=1, name="hello")

    @contextlib.contextmanager
    def policy(self, more: str) -> Iterator[None]:
        """With these words in the policy file."""
        path = self.gateway.home.parent / "policy.yaml"
        path.write_text(POLICY + more)
        try:
            yield
        finally:
            path.write_text(POLICY)

    def another_operator(self) -> httpx2.Client:
        """Somebody else, who may change things, too."""
        words = ("tokens", "make", "operator", "--name", "bob")
        done = subprocess.run(
            [sys.executable, "-m", "recoup.cli.main", *words],
            env={**os.environ, "RECOUP_HOME": str(self.gateway.home)},
            capture_output=True,
            text=True,
            check=True,
        )
        self.gateway.tokens["bob"] = done.stdout.split()[-1]
        return self.gateway.client("bob")

    def answer(self, reason: str) -> None:
        """In the dialog that asks why."""
        self.page.fill("#reason", reason)
        self.page.click("#ask [type=submit]")

    def said(self, words: str) -> None:
        """At the foot of the page."""
        self.page.locator("#said.shown", has_text=words).wait_for()


@contextlib.contextmanager
def console(root: Path) -> Iterator[Console]:
    home = root / "home"
    asyncio.run(_seeded(root, home))
    (root / "policy.yaml").write_text(POLICY)
    with (
        _probe(root, home),
        gateway(home, "--workers", "2", env={"RECOUP_POLICY": str(root / "policy.yaml")}) as served,
        browsing() as browser,
    ):
        runs = {name: served.submit(plan) for name, plan in PLANS.items()}
        reader = signed_in(served, browser, viewport={"width": 1280, "height": 860}, locale="en-GB")
        made = Console(served, browser, reader, runs)
        served.wait(runs["broken"], lambda run: run["status"] == "dead_letter")
        served.wait(runs["gate"], lambda run: run["status"] == "waiting")
        yield made


def sign_in(page: Page, served: Gateway, role: str) -> None:
    page.goto(served.url + "/sign-in?next=/settings")
    page.fill("#token", served.tokens[role])
    page.press("#token", "Enter")
    page.wait_for_url(served.url + "/settings")


@contextlib.contextmanager
def _probe(root: Path, home: Path) -> Iterator[None]:
    (root / "near.yaml").write_text(PROBE)
    process = subprocess.Popen(
        [sys.executable, "-m", "recoup.cli.main", "probe", "run", str(root / "near.yaml"), "--quiet"],
        env={**os.environ, "RECOUP_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


# Something to look at


async def _seeded(root: Path, home: Path) -> None:
    shop = Shop(home)
    await shop.run_file(plan_file(root), "run-1")
    await _pictured(shop)
    await _handed_over(shop)
    await _told_from_afar(shop)
    await shop.ledger.close()


async def _pictured(shop: Shop) -> None:
    """A heal with a picture, places and words that nobody should trust."""
    handle = await shop.world.evidence.put(shop.redactor.picture(png(640, 400)), 1_000_000)
    heal = TargetHealed(
        step_id="print",
        step_index=3,
        attempt=1,
        reason="found by model",
        run_id="run-1",
        target=f"text {HOSTILE!r}",
        verified=False,
        confidence=0.81,
        margin=0.2,
        found_by="model",
        before=_element("Print", 40),
        after=_element("To paper", 140),
        runner_up=_element(HOSTILE, 240),
        runner_up_confidence=0.61,
        candidates=(
            Candidate(role="button", name="To paper", confidence=0.81),
            Candidate(role="button", name=HOSTILE, confidence=0.61),
        ),
        evidence=(handle,),
        target_digest="sha256:" + "1" * 64,
        identity="sha256:" + "2" * 64,
    )
    short = msgspec.structs.replace(heal, before=None, after=None, runner_up=None, candidates=())
    parts = (_told(shop, run_stream("run-1"), heal), _told(shop, targets_stream("shop"), short))
    await shop.ledger.append(Append(at=shop.clock.now(), streams=parts))


def _element(name: str, y: float) -> Element:
    return Element(tag="button", role="button", name=name, text=name, box=Box(30, y, 120, 28))


async def _handed_over(shop: Shop) -> None:
    plan = (await shop.state("run-1")).plan
    await shop.submit(plan, "run-2")
    told = Escalated(
        escalation_id="esc-1",
        reason=f"it is not known whether {HOSTILE} was done",
        hint="Find out whether it was done.",
        step_id="approve",
        step_index=1,
        attempt=1,
    )
    part = _told(shop, run_stream("run-2"), told)
    handed = Escalation("esc-1", run_stream("run-2"), told.reason, part.drafts[0].payload)
    await shop.ledger.append(Append(at=shop.clock.now(), streams=(part,), escalations=(handed,)))


async def _told_from_afar(shop: Shop) -> None:
    """A probe elsewhere has reported; somebody has ordered something."""
    base: dict[str, Any] = {
        "resource_id": "tunnel",
        "lease_epoch": 1,
        "timestamp_unix": 1.0,
        "correlation_id": "far:1",
    }
    base |= {"causation_id": None}
    events: list[dict[str, Any]] = [
        {**base, "type": "PhaseChanged", "event_id": "far:1", "monotonic_seq": 1, "phase": "recovering",
         "health": "unhealthy", "reason": HOSTILE},
        {**base, "type": "RecoveryAttempted", "event_id": "far:2", "monotonic_seq": 2, "action": "reconnect",
         "fault_class": "channel_down", "retry_count": 2, "phase": "recovering", "reason": "again"},
        {**base, "type": "ChannelDowngraded", "event_id": "far:3", "monotonic_seq": 3, "from": "push",
         "to": "poll", "reason": "the budget is spent"},
    ]  # fmt: skip
    desk = ProbeDesk(shop.ledger, shop.redactor, shop.clock)
    await desk.take(json.dumps({"probe_id": "far", "lease_epoch": 3, "events": events}).encode())
    command = {"command_id": "c-1", "action": "restore_primary", "resource_id": "tunnel"}
    command |= {"reason": "the line is back"}
    await desk.order({"probe_id": "far", "command": command}, "ada")


def _told(shop: Shop, stream: str, fact: TargetHealed | Escalated) -> StreamAppend:
    return StreamAppend(stream, (Draft(fact.TYPE, shop.redactor.seal(fact)),))


def png(width: int, height: int) -> bytes:
    """A grey picture of this size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xcc" * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
