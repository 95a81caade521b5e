"""A probe and its gateway on real sockets: what goes out, what comes in, and what happens when either is gone."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from recoup.cli.probe_live import status_lines
from recoup.clock import SystemClock
from recoup.errors import UsageError
from recoup.kernel.probe_gateway import pause_s
from recoup.model import events as ev
from recoup.model.probe import Budget, ChannelKind, Command, Phase, ProbeConfig, Resource
from recoup.model.probe_wire import BODY_BYTES_MAX, EVENTS_PATH
from recoup.notifiers.file import NOTIFIER as FILE
from recoup.notifiers.kind import NotifierSite, OpenNotifier
from recoup.probe.gateway.cursor import CURSOR_FILE, read_cursor
from recoup.probe.operators import Operators
from recoup.probe.outboxes.opening import link_of
from recoup.probe.supervisor import probe_folder
from recoup.testing.clock import HandClock
from recoup.testing.gateway import GatewayStandIn, Reply, Request
from recoup.testing.gateway_book import GatewayBook
from recoup.testing.probe import ProbeHouse, process

CHILD = Path(__file__).parent / "probe_gateway_child.py"
LATER_UNIX = 1_900_000_000
QUICK = Budget(max_retries=0)
"""Handed over at the first fault."""
TUNNEL = Resource(
    id="tunnel",
    kind=ChannelKind(transport="ssh_remote", mode="ide_primary", fallback="terminal_fallback"),
    budget=QUICK,
)


CONFIG = ProbeConfig(id="house", resources=(), folder=".", gateway="http://127.0.0.1:8620")


@pytest.fixture
async def gateway() -> AsyncIterator[GatewayStandIn]:
    async with GatewayStandIn() as stand_in:
        yield stand_in


def housed(root: Path, gateway: GatewayStandIn, *resources: Resource, **more: Any) -> ProbeHouse:
    resources = resources or (process("api"),)
    return ProbeHouse(root, *resources, scripted=True, gateway=(gateway.url, gateway.token), **more)


async def until(holds: Callable[[], bool], patience_s: float = 20) -> None:
    async with asyncio.timeout(patience_s):
        while not holds():
            await asyncio.sleep(0.01)


def kept(gateway: GatewayStandIn) -> list[dict[str, Any]]:
    return gateway.book.events("house", 0, 1 << 20)


def posts(gateway: GatewayStandIn) -> list[Request]:
    return [one for one in gateway.requests if one.path == EVENTS_PATH]


def first_sent(gateway: GatewayStandIn, epoch: int) -> int:
    """By the probe that held this epoch."""
    batches = [json.loads(one.body) for one in posts(gateway)]
    return next(int(one["events"][0]["monotonic_seq"]) for one in batches if one["lease_epoch"] == epoch)


def says_what_is_recorded(gateway: GatewayStandIn, *houses: ProbeHouse) -> bool:
    recorded = [event for house in houses for event in house.events]
    return kept(gateway) == [{"type": one.type, **msgspec.json.decode(one.raw)} for one in recorded]


# Events


async def test_the_gateway_is_told_everything_in_order_and_the_end_too(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    async with housed(tmp_path, gateway).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        await until(lambda: gateway.types("house")[-1:] == ["PhaseChanged"])
    assert says_what_is_recorded(gateway, house)
    assert gateway.types("house")[0] == "ProbeStarted" and gateway.types("house")[-1] == "ProbeStopped"


async def test_a_gateway_that_is_away_is_told_when_it_is_back(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    await gateway.close()
    async with housed(tmp_path, gateway, chance=lambda: 0.5).running() as house:
        clock = house.clock
        assert isinstance(clock, HandClock)
        pauses = [pause_s(failed, 0.5) for failed in range(1, 6)]
        for pause in pauses:  # of the sender, and of who asks for commands
            await until(lambda pause=pause: clock.waited_s.count(pause) == 2)  # type: ignore[misc]
            await house.pass_time(pause if pause != pauses[-1] else 0)
        document = await Operators(house.world).document("house")
        assert "cannot be reached" in document["gateway"]["trouble"]
        assert document["gateway"]["behind"] == house.probe.state.seq
        assert "events behind" in "\n".join(status_lines(document))
        await gateway.open()
        await house.pass_time(pauses[-1])
        await until(lambda: says_what_is_recorded(gateway, house))
        async with asyncio.timeout(20):  # its answer is still on the way when the gateway has everything
            while (await Operators(house.world).document("house"))["gateway"]["trouble"]:
                await asyncio.sleep(0.01)
    assert says_what_is_recorded(gateway, house)


async def test_a_probe_that_is_started_again_goes_on_where_the_gateway_is(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    async with housed(tmp_path, gateway).running() as first:
        await first.until(lambda: first.phase("api") == Phase.RUNNING)
    async with housed(tmp_path, gateway).running() as second:
        await second.until(lambda: second.phase("api") == Phase.RUNNING)
    assert says_what_is_recorded(gateway, first, second)
    assert first_sent(gateway, epoch=2) == len(first.events) + 1
    assert {one["lease_epoch"] for one in kept(gateway)} == {1, 2}


async def test_without_its_cursor_it_sends_again_what_is_then_seen_once(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    cursor = probe_folder(tmp_path, "house") / CURSOR_FILE
    async with housed(tmp_path, gateway).running() as first:
        await first.until(lambda: first.phase("api") == Phase.RUNNING)
    cursor.write_bytes(cursor.read_bytes()[:7])
    async with housed(tmp_path, gateway).running() as second:
        await second.until(lambda: second.phase("api") == Phase.RUNNING)
    assert says_what_is_recorded(gateway, first, second)
    assert first_sent(gateway, epoch=2) == 1 and gateway.book.duplicates >= len(first.events)


async def test_a_gateway_that_forgot_is_told_again(tmp_path: Path, gateway: GatewayStandIn) -> None:
    async with housed(tmp_path, gateway).running() as house:
        await until(lambda: says_what_is_recorded(gateway, house) and house.phase("api") == Phase.RUNNING)
        gateway.book = GatewayBook()
        house.holders["api"].fail()
        await house.until(lambda: house.phase("api") == Phase.RECOVERING)
        await until(lambda: says_what_is_recorded(gateway, house))


async def test_another_probe_of_the_same_name_is_told_so_and_nothing_is_mixed_up(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    async with housed(tmp_path / "one", gateway).running() as first:
        await first.until(lambda: first.phase("api") == Phase.RUNNING)
    (tmp_path / "two").mkdir()
    async with housed(tmp_path / "two", gateway).running() as second:
        await until(lambda: "conflict" in _trouble(tmp_path / "two"))
        await second.until(lambda: second.phase("api") == Phase.RUNNING)
    assert says_what_is_recorded(gateway, first)


async def test_a_batch_that_is_too_long_for_the_gateway_is_sent_in_parts(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    await gateway.close()
    async with housed(tmp_path, gateway, *(process(f"p{n}") for n in range(10))).running() as house:
        await house.until(lambda: all(house.phase(f"p{n}") == Phase.RUNNING for n in range(10)))
        gateway.replies.extend([Reply(413), Reply(413)])
        await gateway.open()
        await house.pass_time(5)
        await until(lambda: says_what_is_recorded(gateway, house))
    sizes = [len(json.loads(one.body)["events"]) for one in posts(gateway)]
    assert sizes[:3] == [31, 15, 7]


async def test_a_gateway_that_asks_for_quiet_gets_it(tmp_path: Path, gateway: GatewayStandIn) -> None:
    gateway.replies.append(Reply(503, headers={"Retry-After": "300"}))
    async with housed(tmp_path, gateway).running() as house:
        clock = house.clock
        assert isinstance(clock, HandClock)
        await until(lambda: 300 in clock.waited_s)
        await house.pass_time(299)
        assert len(posts(gateway)) == 1
        await house.pass_time(1)
        await until(lambda: says_what_is_recorded(gateway, house))


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(200, b"{}"), "does not acknowledge"),
        (Reply(200, b'{"acknowledged_seq": 0}'), "does not acknowledge"),
        (Reply(302, headers={"Location": "http://127.0.0.1:1/"}), "answers 302"),
        (Reply(500, b"<html>"), "answers 500"),
        (Reply(200, b"x" * (BODY_BYTES_MAX + 1)), "more than"),
        (Reply(409, b'{"type": "urn:recoup:problem:gap", "expected_seq": 900}'), "gap"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_trouble_and_nothing_is_lost(
    tmp_path: Path, gateway: GatewayStandIn, reply: Reply, words: str
) -> None:
    gateway.replies.append(reply)
    async with housed(tmp_path, gateway).running() as house:
        await until(lambda: words in _trouble(tmp_path))
        await house.pass_time(2)
        await until(lambda: says_what_is_recorded(gateway, house))


async def test_a_wrong_token_is_trouble_and_stands_nowhere(tmp_path: Path, gateway: GatewayStandIn) -> None:
    right, gateway.token = gateway.token, "another-one"
    house = ProbeHouse(tmp_path, process("api"), scripted=True, gateway=(gateway.url, right))
    async with house.running():
        await until(lambda: "401" in _trouble(tmp_path))
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not [path for path in files if right.encode() in path.read_bytes()]
    assert probe_folder(tmp_path, "house").stat().st_mode & 0o077 == 0


async def test_a_probe_killed_between_sending_and_noting_is_heard_once(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    killed: list[int] = []

    def kill(request: Request) -> None:
        if request.path == EVENTS_PATH and "Escalated" in gateway.types("house") and not killed:
            killed.append(child.pid)
            os.kill(child.pid, signal.SIGKILL)

    gateway.before_answer = kill
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(CHILD), str(tmp_path), gateway.url, env={**os.environ, "TOKEN": gateway.token}
    )
    assert await asyncio.wait_for(child.wait(), 60) == -signal.SIGKILL
    heard = kept(gateway)
    noted = read_cursor(probe_folder(tmp_path, "house"))
    assert noted is None or noted.acknowledged_seq < len(heard), "it was killed before it could note it"

    house = housed(tmp_path, gateway, clock=SystemClock())
    async with house.running():
        await until(lambda: not house.probe.state.open_escalations)
        await until(lambda: gateway.types("house")[-1] == "EscalationDelivered")
    assert gateway.book.duplicates > 0
    assert kept(gateway)[: len(heard)] == heard
    assert [one["monotonic_seq"] for one in kept(gateway)] == list(range(1, len(kept(gateway)) + 1))
    assert list(gateway.book.escalations) == ["house:api:1"]


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_on_the_way_the_gateway_ends_with_the_ledger(
    tmp_path: Path, gateway: GatewayStandIn, seed: int
) -> None:
    """Answers are lost, it refuses, closes, forgets; the probe is started again without its last notes."""
    chance, recorded = random.Random(seed), list[ProbeHouse]()

    def lose_some(request: Request) -> None:
        if chance.random() < 0.3:
            raise ConnectionResetError("the answer was lost")

    gateway.before_answer = lose_some
    for _ in range(3):
        async with housed(tmp_path, gateway, process("api", budget=QUICK)).running() as house:
            recorded.append(house)
            for _ in range(6):
                await _trouble_of_some_kind(chance, gateway, house)
        if chance.random() < 0.5:
            (probe_folder(tmp_path, "house") / CURSOR_FILE).unlink(missing_ok=True)
    gateway.before_answer = lambda _request: None
    gateway.replies.clear()
    async with housed(tmp_path, gateway, process("api", budget=QUICK)).running() as house:
        recorded.append(house)
        await until(lambda: says_what_is_recorded(gateway, *recorded))
    assert says_what_is_recorded(gateway, *recorded)
    escalated = [one["escalation_id"] for one in kept(gateway) if one["type"] == "Escalated"]
    assert list(gateway.book.escalations) == escalated and escalated


async def _trouble_of_some_kind(chance: random.Random, gateway: GatewayStandIn, house: ProbeHouse) -> None:
    match chance.randrange(5):
        case 0:
            await gateway.restart()
        case 1:
            gateway.replies.append(Reply(chance.choice([413, 500, 503])))
        case 2:
            gateway.book = GatewayBook()
        case 3:
            house.holders["api"].fail()
        case _:
            name = f"r-{chance.random()}"
            reset = Command(command_id=name, kind="reset_budget", resource_id="api", reason="x", actor="ada")
            await house.probe.tell(reset)
    await house.pass_time(chance.choice([0, 1, 60]))


# Escalations


def told(letters: Path) -> OpenNotifier:
    return OpenNotifier(FILE, str(letters), cast(NotifierSite, SimpleNamespace(folder=letters.parent)))


async def test_one_exhaustion_is_one_escalation_at_the_gateway_and_in_the_file(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    await gateway.close()
    letters = tmp_path / "letters.jsonl"
    house = housed(tmp_path, gateway, process("api", budget=QUICK), outboxes=[told(letters)])
    async with house.running():
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        house.holders["api"].fail()
        await house.until(lambda: house.phase("api") == Phase.FAILED)
        await house.pass_time(1)
        await house.until(lambda: house.types("api").count("EscalationDelivered") == 1)
        assert len(letters.read_text().splitlines()) == 1, "it does not wait for a gateway that is away"
        assert list(house.probe.state.open_escalations) == ["house:api:1"]
        await gateway.open()
        for _ in range(4):
            await house.pass_time(60)
        await house.until(lambda: not house.probe.state.open_escalations)
    delivered = [one for one in house.facts("api") if isinstance(one, ev.EscalationDelivered)]
    assert [(one.outbox, one.complete) for one in delivered] == [("file", False), ("gateway", True)]
    (escalation,) = gateway.book.escalations.values()
    assert (escalation["result"], escalation["retry_count"]) == ("escalated_to_gateway", 1)


# Commands


def order(
    gateway: GatewayStandIn, command_id: str, action: str, resource_id: str = "api", **more: Any
) -> None:
    command = {
        "command_id": command_id,
        "action": action,
        "resource_id": resource_id,
        "reason": "the gateway says so",
        "desired_version": 1,
        "lease_epoch": 1,
        "deadline_unix": LATER_UNIX,
        **more,
    }
    gateway.order("house", **command)


def fates(gateway: GatewayStandIn) -> dict[str, tuple[str, str | None]]:
    """By command, as the gateway was told."""
    told = [one for one in kept(gateway) if one["type"] == "CommandHandled"]
    assert len({one["command_id"] for one in told}) == len(told), "each is told once"
    return {one["command_id"]: (one["outcome"], one["rule"]) for one in told}


async def test_a_command_is_carried_out_once_though_it_is_sent_again(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    async with housed(tmp_path, gateway, clock=SystemClock()).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        order(gateway, "c-1", "restart")
        order(gateway, "c-2", "terminate")
        refused = ("refused", "silent_termination")
        await until(lambda: fates(gateway) == {"c-1": ("accepted", None), "c-2": refused})
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        gateway.book.probes["house"].handled.clear()  # as if it had not understood
        order(gateway, "c-3", "archive")  # sent with those before it
        await until(lambda: fates(gateway).get("c-3") == refused)
        assert house.holders["api"].done == ["start", "restart"]
        assert house.types("api").count("CommandHandled") == 3
        (attempt,) = [one for one in house.facts("api") if isinstance(one, ev.RecoveryAttempted)]
        assert (attempt.manual, attempt.actor, attempt.command_id) == (True, "gateway", "c-1")


async def test_commands_are_checked_and_whatever_is_forbidden_is_refused_by_its_rule(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    order(gateway, "host", "move_to_host")
    order(gateway, "route", "restart", workspace_id="w")
    order(gateway, "state", "scale")
    order(gateway, "approval", "bypass_approval")
    order(gateway, "end", "terminate")
    order(gateway, "budget", "reset_budget")
    order(gateway, "kind", "remount")
    order(gateway, "epoch", "restart", lease_epoch=9)
    order(gateway, "late", "restart", deadline_unix=1_000)
    order(gateway, "nobody", "restart", "web")
    order(gateway, "shape", "restart", deadline_unix=None)
    order(gateway, "back", "restore_primary")
    async with housed(tmp_path, gateway, clock=SystemClock()).running() as house:
        await until(lambda: len(fates(gateway)) == 12)
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        order(gateway, "good", "restart", desired_version=5)
        await until(lambda: fates(gateway).get("good") == ("accepted", None))
        order(gateway, "old", "restart", desired_version=4)
        await until(lambda: "old" in fates(gateway))
        refused = {name: rule for name, (outcome, rule) in fates(gateway).items() if outcome == "refused"}
        audited = [event.payload for event in house.events if isinstance(event.payload, ev.ActionRefused)]
        done = [one for one in house.holders["api"].done if one != "start"]
    expected = {
        "host": "host_placement",
        "route": "stable_route",
        "state": "desired_state",
        "approval": "platform_approval",
        "end": "silent_termination",
        "budget": "allowed_actions",
        "kind": "kind",
        "epoch": "lease_epoch",
        "late": "deadline_unix",
        "nobody": "unknown_resource",
        "shape": "malformed_command",
        "back": "not_downgraded",
        "old": "desired_version",
    }
    assert refused == expected and done == ["restart"]
    assert [one.rule for one in audited] == list(expected.values())[:6]
    assert {one.source for one in audited} == {"gateway"}


async def test_only_the_gateway_brings_a_downgraded_channel_back(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    async with housed(tmp_path, gateway, TUNNEL, clock=SystemClock()).running() as house:
        await house.until(lambda: house.phase("tunnel") == Phase.RUNNING)
        house.holders["tunnel"].fail("ssh_remote_attach_failed")
        await house.until(lambda: "ChannelDowngraded" in house.types("tunnel"))
        await house.until(lambda: house.phase("tunnel") == Phase.RUNNING)
        order(gateway, "c-1", "restore_primary", "tunnel")
        await until(lambda: fates(gateway) == {"c-1": ("accepted", None)})
        await house.until(lambda: house.phase("tunnel") == Phase.RUNNING)
        await until(lambda: "ChannelRestored" in gateway.types("house"))
    (downgraded,) = [one for one in kept(gateway) if one["type"] == "ChannelDowngraded"]
    assert (downgraded["from"], downgraded["to"]) == ("ide_primary", "terminal_fallback")
    assert house.holders["tunnel"].done[:3] == ["start", "terminal_fallback", "ide_primary"]


async def test_a_command_without_an_id_does_not_hold_up_those_behind_it(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    gateway.order("house", command_id="no id", action="restart")
    order(gateway, "c-1", "terminate")
    async with housed(tmp_path, gateway, clock=SystemClock()).running():
        await until(lambda: fates(gateway) == {"c-1": ("refused", "silent_termination")})


async def test_a_name_that_holds_a_secret_is_not_taken_into_the_ledger(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    secret = "-".join(["quite", "secret", "word"])
    order(gateway, secret, "restart")
    order(gateway, "c-1", "terminate", reason=f"because of {secret}")
    house = housed(tmp_path, gateway, clock=SystemClock())
    house.world.redactor.register("WORD", secret)
    async with house.running():
        await until(lambda: fates(gateway) == {"c-1": ("refused", "silent_termination")})
    assert not [line for line in house.told() if secret in line]
    assert not [one for one in kept(gateway) if secret in json.dumps(one)]


async def test_a_command_that_is_told_twice_before_it_is_heard_is_carried_out_once(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    async with housed(tmp_path, gateway).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        command = Command(
            command_id="c-1", kind="act", resource_id="api", action="restart", reason="x", actor="ada"
        )
        for _ in range(3):
            await house.probe.tell(command)
        await house.until(
            lambda: house.types("api")[-1] == "PhaseChanged" and "RecoverySucceeded" in house.types("api")
        )
        await house.pass_time(1)
        assert house.types("api").count("CommandHandled") == 1
        assert house.holders["api"].done == ["start", "restart"]


# The command


async def test_the_command_tells_its_gateway_and_is_told_by_it(
    tmp_path: Path, gateway: GatewayStandIn
) -> None:
    file = tmp_path / "dev.yaml"
    crash = ["sh", "-c", "exit 3"]
    budget = {"max_retries": 1, "delays_s": ["1s"]}
    resource = {"id": "api", "process": {"command": crash, "never_restart_on": [3]}}
    file.write_text(
        json.dumps({"version": 1, "gateway": gateway.url, "budget": budget, "resources": [resource]})
    )
    environ = {**os.environ, "RECOUP_HOME": str(tmp_path / "home"), "RECOUP_TOKEN": gateway.token}
    argv = (sys.executable, "-m", "recoup.cli.main", "probe", "run", str(file), "--json")
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*argv, env=environ, stdout=pipe, stderr=pipe)
    await until(lambda: list(gateway.book.escalations) == ["dev:api:1"], 60)
    gateway.order("dev", command_id="c-1", action="archive")
    await until(lambda: "CommandHandled" in gateway.types("dev"), 60)
    child.send_signal(signal.SIGTERM)
    out, err = await asyncio.wait_for(child.communicate(), 60)
    assert child.returncode == 0, err
    assert gateway.types("dev")[-1] == "ProbeStopped"
    assert [json.loads(line)["type"] for line in out.splitlines()] == gateway.types("dev")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if gateway.token.encode() in path.read_bytes()]


async def test_a_gateway_without_a_token_is_said_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="RECOUP_TOKEN"):
        link_of(ProbeHouse(tmp_path).world, CONFIG, None)


def _trouble(root: Path) -> str:
    cursor = read_cursor(probe_folder(root, "house"))
    return (cursor.trouble or "") if cursor else ""
