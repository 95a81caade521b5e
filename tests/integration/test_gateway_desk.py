"""What comes to the desk of a real gateway: a real probe, the inbox, commands."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from tests.commands import Commands
from tests.integration.gateway_house import Gateway, gateway

from recoup.app import open_app
from recoup.clock import SystemClock
from recoup.gateway.access import Role
from recoup.gateway.book import Book
from recoup.gateway.console import inbox as console_inbox
from recoup.gateway.house import House
from recoup.gateway.service import build
from recoup.kernel.reports import IDS_KEPT
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.answers.inbox import EscalationDocument, EscalationPage, Released
from recoup.model.events import Event
from recoup.model.ids import commands_stream, reported_stream, senders_stream
from recoup.operations.cursor import cursor_of
from recoup.operations.declining import Declined
from recoup.operations.probe_reports import ProbeDesk
from recoup.redaction.redactor import SecretRedactor
from recoup.settings import read_settings
from recoup.testing.clock import HandClock
from recoup.testing.gateway_suite import command, escalation, event, handled

PROBE = """\
version: 1
id: far
gateway: {url}
resources:
  - id: api
    process: {{command: [sh, -c, "exit 1"]}}
    budget: {{max_retries: 0}}
  - id: web
    process: {{command: [sh, -c, "echo x >> starts; exec sleep 600"]}}
"""
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("desk") / "home", "--workers", "1") as served:
        yield served


@pytest.fixture
def client(house: Gateway) -> Iterator[httpx2.Client]:
    with house.client() as made:
        yield made


def until(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)
    return found


def recoup(house: Gateway, commands: Commands, *words: str) -> Any:
    env = {"PATH": os.environ["PATH"], "RECOUP_HOME": str(house.home)}
    done = commands.run(*words, env=env, cwd=house.home)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# A probe elsewhere


@contextlib.contextmanager
def probe(folder: Path, house: Gateway) -> Iterator[None]:
    """With a home of its own, as on another machine."""
    (folder / "far.yaml").write_text(PROBE.format(url=house.url))
    token = {"RECOUP_TOKEN": house.tokens["probe"], "RECOUP_HOME": str(folder / "home")}
    running = subprocess.Popen(
        [sys.executable, "-m", "recoup.cli.main", "probe", "run", "far.yaml", "--json"],
        env={"PATH": os.environ["PATH"], **token},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(PATIENCE_S)
        finally:
            running.kill()


def test_what_a_probe_hands_over_is_in_the_inbox_and_what_is_ordered_is_done(
    tmp_path: Path, house: Gateway, client: httpx2.Client
) -> None:
    def told(kind: str) -> list[dict[str, Any]]:
        found = client.get("/api/probe/events", params={"probe_id": "far"}).json()["events"]
        return [one for one in found if one["type"] == kind]

    with probe(tmp_path, house):
        until(lambda: told("Escalated"))
        (entry,) = client.get("/api/escalations", params={"source": "probe"}).json()["escalations"]
        assert (entry["state"], entry["probe_id"], entry["escalation_id"]) == ("open", "far", "far:api:1")
        until(lambda: (tmp_path / "starts").exists())
        order = {
            **{"command_id": "c-1", "action": "restart", "resource_id": "web", "reason": "a new certificate"},
            **{"desired_version": 1, "lease_epoch": entry["event"]["lease_epoch"]},
            "deadline_unix": time.time() + 600,
        }
        refused = {**order, "command_id": "c-0", "action": "reset_budget"}
        for one in (refused, order):
            answer = client.post("/api/probe/commands", json={"probe_id": "far", "command": one})
            assert answer.status_code == 201, answer.text
        until(lambda: len(told("CommandHandled")) == 2)
        outcomes = {one["command_id"]: one["outcome"] for one in told("CommandHandled")}
        assert outcomes == {"c-0": "refused", "c-1": "accepted"}, "a budget is given back by people, there"
        until(lambda: told("RecoverySucceeded"))
    assert (tmp_path / "starts").read_text() == "x\n" * 2


# The inbox

ASKS = "{version: 1, name: asks, steps: [{id: pay, run: 'sleep 60', timeout: 0.2s, repeat: never}]}"


def test_an_escalation_is_taken_on_and_ends_when_its_run_goes_on(
    house: Gateway, client: httpx2.Client, commands: Commands
) -> None:
    run_id = house.submit(ASKS)
    name = house.wait(run_id, lambda run: run["status"] == "escalated")["escalationId"]
    path = f"/api/escalations/{name}"
    (entry,) = client.get("/api/escalations", params={"source": "run", "state": "open"}).json()["escalations"]
    assert (entry["id"], entry["runId"], entry["probe_id"]) == (name, run_id, None)
    msgspec.json.decode(client.get(path).content, type=EscalationDocument)
    seen = client.post(f"{path}/acknowledge", json={"reason": "looking"})
    assert seen.json()["state"] == "acknowledged", seen.text
    again = client.post(f"{path}/acknowledge", json={"reason": "looking"})
    assert (again.status_code, again.json()["type"]) == (409, "urn:recoup:problem:state")
    given = client.post(f"{path}/assign", json={"reason": "her bank", "assignee": "ada"}).json()
    assert (given["state"], given["assignee"]) == ("assigned", "ada")
    assert [one["change"] for one in given["history"]] == ["acknowledged", "assigned"]
    assert "first operator" in given["history"][0]["by"]
    listed = recoup(house, commands, "escalations", "list", "--json")
    assert [one["state"] for one in listed if one["id"] == name] == ["assigned"]
    settle = {"action": "settle", "stepId": "pay", "as": "done", "reason": "the bank shows it"}
    assert client.post(f"/api/runs/{run_id}/control", json=settle).status_code == 200
    assert client.get(path).json()["state"] == "resolved"
    assert client.post(f"{path}/resolve", json={"reason": "late"}).status_code == 409


def test_the_inbox_comes_in_pages(house: Gateway, client: httpx2.Client, commands: Commands) -> None:
    with house.client("probe") as sender:
        batch = {
            "probe_id": "many",
            "lease_epoch": 1,
            "events": [escalation(n, f"e-{n}") for n in range(1, 6)],
        }
        assert sender.post("/api/probe/events", json=batch).json() == {"acknowledged_seq": 5}
    asked: dict[str, Any] = {"limit": 2, "source": "probe"}
    seen: list[str] = []
    while True:
        answer = client.get("/api/escalations", params=asked)
        msgspec.json.decode(answer.content, type=EscalationPage)
        page = answer.json()
        seen += [one["id"] for one in page["escalations"]]
        if (cursor := page["nextCursor"]) is None:
            break
        asked["cursor"] = cursor
    assert [name for name in seen if name.startswith("many~")] == [f"many~e-{n}" for n in range(1, 6)]
    assert len(seen) == len(set(seen))
    done = recoup(house, commands, "escalations", "resolve", "many~e-1", "--reason", "mended", "--json")
    assert done["state"] == "resolved"
    assert client.get("/api/escalations/many~e-1").json()["history"][0]["reason"] == "mended"


# Two gateways, one ledger


@contextlib.asynccontextmanager
async def desks(path: Path) -> AsyncIterator[tuple[ProbeDesk, ProbeDesk, SqliteLedger]]:
    ledgers = [SqliteLedger(path) for _ in range(2)]
    redactor = SecretRedactor()
    one, other = (ProbeDesk(ledger, redactor, SystemClock()) for ledger in ledgers)
    try:
        yield one, other, ledgers[0]
    finally:
        for ledger in ledgers:
            await ledger.close()


def batch(*events: dict[str, Any], epoch: int = 1) -> bytes:
    return json.dumps({"probe_id": "p", "lease_epoch": epoch, "events": events}).encode()


def order(name: str) -> dict[str, Any]:
    return {"probe_id": "p", "command": command(name)}


async def test_two_gateways_of_one_ledger_take_every_event_once(tmp_path: Path) -> None:
    async with desks(tmp_path / "ledger.db") as (one, other, ledger):
        assert await one.take(batch(event(1), event(2))) == 2
        assert await other.take(batch(event(1), event(2), event(3))) == 3
        same = [desk.take(batch(event(3), event(4), escalation(5, "e-1"))) for desk in (one, other) * 4]
        assert await asyncio.gather(*same) == [5] * 8
        assert await ledger.head(reported_stream("p")) == 5
        assert [row.id for row in await ledger.inbox()] == ["p~e-1"]
        await other.waiting("p", 2, 0, lambda: False)
        with pytest.raises(Declined) as refused:
            await one.take(batch(event(6)))
        assert refused.value.refusal.code == "stale_epoch", "the other one has heard a later probe"
        assert await ledger.head(senders_stream("p")) == 2


FAR = 2**53 - 1


async def test_a_probe_belongs_to_one_token_at_every_gateway_until_it_is_released(tmp_path: Path) -> None:
    async with desks(tmp_path / "ledger.db") as (one, other, ledger), asyncio.timeout(PATIENCE_S):
        assert await one.take(batch(event(1))) == 1, "as before tokens were recorded"
        assert await one.take(batch(), "t-1") == 1
        for speaks in (other.take(batch(epoch=FAR), "t-2"), other.waiting("p", FAR, 0, bool, "t-2")):
            with pytest.raises(Declined) as refused:
                await speaks
            assert (refused.value.refusal.status, refused.value.refusal.code) == (403, "role")
        assert await one.take(batch(event(2)), "t-1") == 2
        assert await ledger.head(senders_stream("p")) == 2


async def test_who_shut_a_probe_out_by_a_lease_far_ahead_loses_it_when_it_is_released(tmp_path: Path) -> None:
    async with desks(tmp_path / "ledger.db") as (one, other, ledger), asyncio.timeout(PATIENCE_S):
        waits = asyncio.create_task(one.waiting("p", FAR, 1.5, lambda: False, "t-2"))
        while await ledger.head(senders_stream("p")) == 0:
            await asyncio.sleep(0.01)
        await other.release("p", "ada", "a stranger spoke for it")
        assert await waits == []
        assert await ledger.head(senders_stream("p")) == 2, "who waited has not taken it again"
        assert await one.take(batch(event(1)), "t-1") == 1
        with pytest.raises(Declined):
            await other.take(batch(epoch=FAR), "t-2")


def test_only_an_operator_releases_a_probe_and_that_is_recorded(
    house: Gateway, client: httpx2.Client, commands: Commands
) -> None:
    stranger = recoup(house, commands, "tokens", "make", "probe", "--name", "stranger", "--json")["token"]
    shut_out = {"probe_id": "bound", "lease_epoch": FAR, "events": []}
    own = {"probe_id": "bound", "lease_epoch": 1, "events": []}
    release = ("/api/probes/bound/release", {"reason": "a stranger spoke for it"})
    as_stranger = {"Authorization": f"Bearer {stranger}"}
    with house.client("probe") as machine:
        assert client.post(release[0], json=release[1]).status_code == 404
        assert client.post("/api/probe/events", json=shut_out, headers=as_stranger).status_code == 200
        refused = machine.post("/api/probe/events", json=own)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:recoup:problem:role")
        assert "release" in refused.json()["hint"]
        assert machine.post(release[0], json=release[1]).status_code == 403
        answer = client.post(release[0], json=release[1])
        msgspec.json.decode(answer.content, type=Released)
        assert machine.post("/api/probe/events", json=own).status_code == 200
        asked = "/api/probe/commands?probe_id=bound&lease_epoch=9"
        assert client.get(asked, headers=as_stranger).status_code == 403
    told = [
        one for one in client.get("/api/events?limit=500").json()["items"] if one["stream"] == "senders:bound"
    ]
    assert [one["type"] for one in told] == [
        f"probe.sender.{kind}" for kind in ("changed", "released", "changed")
    ]
    assert told[1]["payload"]["reason"] == release[1]["reason"] and "operator" in told[1]["payload"]["by"]


async def test_a_command_that_is_ordered_at_one_gateway_reaches_a_probe_that_waits_at_another(
    tmp_path: Path,
) -> None:
    async with desks(tmp_path / "ledger.db") as (one, other, ledger), asyncio.timeout(PATIENCE_S):
        waiting = asyncio.create_task(one.waiting("p", 1, 20, lambda: False))
        while await ledger.head(senders_stream("p")) == 0:
            await asyncio.sleep(0.01)
        await asyncio.gather(*(desk.order(order("c-1"), "ada") for desk in (one, other) * 3))
        assert [found["command_id"] for found in await waiting] == ["c-1"]
        assert await ledger.head(commands_stream("p")) == 1
        await other.take(batch(handled(1, "c-1")))
        assert await one.waiting("p", 1, 0, lambda: False) == []


async def test_who_waits_is_not_kept_when_the_gateway_ends(tmp_path: Path) -> None:
    async with desks(tmp_path / "ledger.db") as (one, _, _ledger), asyncio.timeout(PATIENCE_S):
        assert await one.waiting("p", 1, 30, lambda: True) == []


async def test_who_waits_already_is_let_go_at_once_when_the_gateway_ends(tmp_path: Path) -> None:
    ledger, clock, ends = SqliteLedger(tmp_path / "ledger.db"), HandClock(), asyncio.Event()
    desk = ProbeDesk(ledger, SecretRedactor(), clock)
    async with asyncio.timeout(PATIENCE_S):
        waiting = asyncio.create_task(desk.waiting("p", 1, 30, ends.is_set))
        while not clock.waited_s:
            await asyncio.sleep(0)
        ends.set()
        desk.wake()
        assert await waiting == []
    await ledger.close()


async def test_secrets_that_the_gateway_knows_are_not_kept_and_the_event_is_still_known_again(
    tmp_path: Path,
) -> None:
    secret = "".join(("hun", "ter", "-", "2" * 8))
    ledger, redactor = SqliteLedger(tmp_path / "ledger.db"), SecretRedactor()
    desk = ProbeDesk(ledger, redactor, SystemClock())
    assert await desk.take(batch(event(1))) == 1
    redactor.register("PASSWORD", secret)
    sent = batch(event(2, reason=f"it said {secret}"))
    assert await desk.take(sent) == 2 == await desk.take(sent)
    assert secret not in json.dumps(await desk.events("p", 0, 10))
    with pytest.raises(Declined):
        await desk.order({"probe_id": "p", "command": command(secret)}, "ada")
    await ledger.close()


async def test_of_a_long_story_only_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    async with desks(path) as (one, _, ledger):
        for first in range(1, 2_000, 500):
            await one.take(batch(*(event(seq) for seq in range(first, first + 500))))
        read: list[int] = []
        real = ledger.read

        async def counted(stream: str, after: int = 0, limit: int = 10_000) -> list[Event]:
            found = await real(stream, after, limit)
            read.append(len(found))
            return found

        ledger.read = counted  # type: ignore[method-assign]
        fresh = ProbeDesk(ledger, SecretRedactor(), SystemClock())
        assert await fresh.take(batch(event(2_001))) == 2_001
        assert sum(read) <= IDS_KEPT + 1
        read.clear()
        assert await fresh.take(batch(event(2_002))) == 2_002
        assert sum(read) <= 2


# Problems


def test_every_problem_says_what_kind_it_is(client: httpx2.Client) -> None:
    kinds = {
        ("GET", "/api/runs/nothing"): "not_found",
        ("DELETE", "/api/runs"): "method",
        ("POST", "/api/runs"): "invalid",
        ("GET", "/api/escalations/nothing"): "not_found",
        ("GET", "/api/escalations?cursor=x"): "malformed",
        ("GET", f"/api/escalations?cursor={cursor_of(2**63)}"): "malformed",
        ("GET", f"/api/escalations?cursor={cursor_of(-1)}"): "malformed",
    }
    for (method, path), kind in kinds.items():
        answer = client.request(method, path, json={} if method == "POST" else None)
        assert answer.json()["type"] == f"urn:recoup:problem:{kind}", answer.text


def test_an_address_that_is_not_understood_is_said_on_a_page(client: httpx2.Client) -> None:
    answer = client.get(f"/escalations?after={2**63}")
    assert answer.status_code == 422 and answer.headers["Content-Type"].startswith("text/html")
    assert "this address is not understood" in answer.text


async def test_a_mistake_of_ours_is_said_on_a_page_and_noted_without_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def mistaken(*_: Any) -> Any:
        raise KeyError("what came")

    monkeypatch.setattr(console_inbox, "items", mistaken)
    settings = read_settings({"HOME": str(tmp_path)}, tmp_path, str(tmp_path / "home"))
    async with open_app(settings, {}) as app:
        with contextlib.closing(Book(tmp_path / "home" / "gateway.db", time.time)) as book:
            token = book.make(Role.VIEWER, "eve", "now")
            served = httpx2.ASGITransport(app=build(House(app, book)))
            async with httpx2.AsyncClient(transport=served, base_url="http://127.0.0.1") as client:
                answer = await client.get("/escalations", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 500 and answer.headers["Content-Type"].startswith("text/html")
    assert "something went wrong inside the gateway" in answer.text
    assert "KeyError in test_gateway_desk.py" in caplog.text
    assert "what came" not in answer.text + caplog.text
