"""A probe and its resources: the real ledger and supervisor, resources that do as they are told, and a clock by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from recoup.errors import UsageError
from recoup.model import events as ev
from recoup.model.ids import probe_stream
from recoup.model.probe import (
    Action,
    Budget,
    ChannelKind,
    Command,
    Phase,
    Resource,
)
from recoup.notifiers.kind import NotDelivered, Notification
from recoup.probe.minder import FAULTS_MAX
from recoup.probe.ports import Done
from recoup.probe.supervisor import read_probe
from recoup.testing.probe import ProbeHouse, process

TUNNEL = Resource(
    id="tunnel",
    kind=ChannelKind(transport="ssh_remote", mode="ide_primary", fallback="terminal_fallback"),
)


async def recovered(house: ProbeHouse, name: str, delay_s: float) -> None:
    """It fails, waits, is acted on, and runs again."""
    house.holders[name].fail()
    await house.until(lambda: house.phase(name) == Phase.RECOVERING)
    await house.pass_time(delay_s)
    await house.until(lambda: house.phase(name) == Phase.RUNNING)


def scripted(root: Path, *resources: Resource, **more: object) -> ProbeHouse:
    return ProbeHouse(root, *resources, scripted=True, **more)  # type: ignore[arg-type]


async def test_three_recoveries_wait_30_90_210_and_the_fourth_fault_is_handed_over(tmp_path: Path) -> None:
    async with scripted(tmp_path, process("api")).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        for delay_s in (30, 90, 210):
            house.holders["api"].fail()
            await house.until(lambda: house.phase("api") == Phase.RECOVERING)
            await house.pass_time(delay_s - 1)
            assert house.phase("api") == Phase.RECOVERING, "not before its time"
            await house.pass_time(1)
            await house.until(lambda: house.phase("api") == Phase.RUNNING)
        house.holders["api"].fail()
        await house.until(lambda: house.phase("api") == Phase.FAILED)
        attempts = [one for one in house.facts("api") if isinstance(one, ev.RecoveryAttempted)]
        assert [(one.retry_count, one.backoff_seconds) for one in attempts] == [(1, 30), (2, 90), (3, 210)]
        (escalated,) = [one for one in house.facts("api") if isinstance(one, ev.ProbeEscalated)]
        assert (escalated.retry_count, escalated.result) == (4, "escalated_to_gateway")
        assert escalated.action is Action.RESTART and escalated.fault_class == "process_exited"
        assert house.holders["api"].done == ["start", "restart", "restart", "restart"]
    stored = await house.ledger.inbox()
    assert [one.id for one in stored] == ["house:api:1"]


async def test_every_event_has_its_envelope(tmp_path: Path) -> None:
    async with scripted(tmp_path, process("api")).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        await recovered(house, "api", 30)
    facts = [event.payload for event in house.events]
    assert all(isinstance(fact, ev.ProbePayload) for fact in facts)
    for event, fact in zip(house.events, facts, strict=True):
        assert isinstance(fact, ev.ProbePayload)
        assert (fact.event_id, fact.monotonic_seq) == (f"house:{event.seq}", event.seq)
        assert fact.lease_epoch == 1 and fact.timestamp_unix == event.at.wall_us / 1e6
    story = [one for one in house.facts("api") if one.correlation_id == "house:5"]
    assert [one.TYPE for one in story][:5] == [
        "PhaseChanged",
        "RecoveryPlanned",
        "RecoveryAttempted",
        "RecoverySucceeded",
        "PhaseChanged",
    ]
    assert [one.causation_id for one in story[1:]] == [one.event_id for one in story[:-1]]


async def test_an_action_that_says_it_worked_has_failed_when_the_check_says_so(tmp_path: Path) -> None:
    async with scripted(tmp_path, process("api", start_period_s=20)).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        house.holders["api"].good = False
        await house.pass_time(1)
        await house.until(lambda: house.phase("api") == Phase.RECOVERING)
        await house.pass_time(30)
        await house.until(lambda: "RecoveryAttempted" in house.types("api"))
        await house.pass_time(20)
        await house.until(lambda: "RecoveryFailed" in house.types("api"))
        (failed,) = [one for one in house.facts("api") if isinstance(one, ev.RecoveryFailed)]
        assert failed.error_code == "not_healthy" and "the test says so" in failed.reason
        planned = [one for one in house.facts("api") if isinstance(one, ev.RecoveryPlanned)]
        assert [one.retry_count for one in planned] == [1, 2]


async def test_what_gets_well_by_itself_is_left_alone(tmp_path: Path) -> None:
    async with scripted(tmp_path, process("api")).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        house.holders["api"].good = False
        await house.pass_time(1)
        await house.until(lambda: house.phase("api") == Phase.RECOVERING)
        house.holders["api"].good = True
        await house.pass_time(2)
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        assert house.holders["api"].done == ["start"]
        assert house.probe.state.resources["api"].used == {}


async def test_the_budget_comes_back_after_ten_healthy_minutes_and_not_before(tmp_path: Path) -> None:
    async with scripted(tmp_path, process("api")).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        await recovered(house, "api", 30)
        for _ in range(11):
            await house.pass_time(50)
        assert "BudgetReset" not in house.types("api")
        await house.pass_time(60)
        await house.until(lambda: "BudgetReset" in house.types("api"))
        house.holders["api"].fail()
        await house.until(lambda: house.phase("api") == Phase.RECOVERING)
        planned = [one for one in house.facts("api") if isinstance(one, ev.RecoveryPlanned)]
        assert [one.retry_count for one in planned] == [1, 1]


async def test_flapping_every_eleven_minutes_is_handed_over_at_the_thirteenth_fault_of_a_day(
    tmp_path: Path,
) -> None:
    async with scripted(tmp_path, process("api")).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        for number in range(12):
            await recovered(house, "api", 30)
            await house.pass_time(660)
            await house.until_told("api", "BudgetReset", number + 1)
        house.holders["api"].fail()
        await house.until(lambda: house.phase("api") == Phase.FAILED)
        (escalated,) = [one for one in house.facts("api") if isinstance(one, ev.ProbeEscalated)]
        assert (escalated.limit, escalated.retry_count) == ("day_max", 1)


async def test_a_probe_that_is_started_again_waits_for_the_rest_and_forgets_nothing(tmp_path: Path) -> None:
    first = scripted(tmp_path, process("api"))
    async with first.running():
        await first.until(lambda: first.phase("api") == Phase.RUNNING)
        await recovered(first, "api", 30)
        first.holders["api"].fail()
        await first.until(lambda: first.phase("api") == Phase.RECOVERING)
        await first.pass_time(50)
    second = scripted(tmp_path, process("api"), clock=first.clock, ledger=first.ledger)
    async with second.running():
        assert second.holders["api"].done == [], "it is not started: an action waits for its time"
        await second.pass_time(39)
        assert second.phase("api") == Phase.RECOVERING
        await second.pass_time(1)
        await second.until(lambda: second.phase("api") == Phase.RUNNING)
        (attempted,) = [one for one in second.facts("api") if isinstance(one, ev.RecoveryAttempted)]
        assert (attempted.retry_count, attempted.lease_epoch) == (2, 2)


async def test_an_action_whose_result_nobody_saw_is_used_up(tmp_path: Path) -> None:
    first = scripted(tmp_path, process("api"))
    async with first.running():
        await first.until(lambda: first.phase("api") == Phase.RUNNING)
        first.holders["api"].good = False
        await first.pass_time(1)
        await first.until(lambda: first.phase("api") == Phase.RECOVERING)
        await first.pass_time(30)
        await first.until(lambda: "RecoveryAttempted" in first.types("api"))
        # As it would be after a kill -9: nothing more is recorded.
        state = await read_probe(first.ledger, "house")
    assert state.resources["api"].attempted is not None
    stream = probe_stream("house")
    events = await first.ledger.read(stream)
    lost_at = next(event.seq for event in events if event.type == "RecoveryAttempted")
    other = scripted(tmp_path / "copy", process("api"), clock=first.clock)
    from recoup.model.storage import Append, Draft, StreamAppend

    for event in events[:lost_at]:
        draft = Draft(event.type, other.world.redactor.seal(event.payload))
        await other.ledger.append(Append(at=event.at, streams=(StreamAppend(stream, (draft,)),)))
    async with other.running():
        await other.until(lambda: "RecoveryPlanned" in other.types("api"))
        failed, planned = [
            one for one in other.facts("api") if isinstance(one, ev.RecoveryFailed | ev.RecoveryPlanned)
        ]
        assert isinstance(failed, ev.RecoveryFailed) and failed.error_code == "probe_lost"
        assert isinstance(planned, ev.RecoveryPlanned) and planned.retry_count == 2


async def test_what_was_handed_over_stays_so_after_a_restart_and_is_told_once(tmp_path: Path) -> None:
    taken: list[str] = []

    class Outbox:
        name = "test"
        timeout_s = 60.0
        refusals = 2

        async def deliver(self, notification: Notification) -> None:
            if self.refusals:
                self.refusals -= 1
                raise NotDelivered("nobody there")
            taken.append(notification.id)

    no_retries = process("api", budget=Budget(max_retries=0))
    first = scripted(tmp_path, no_retries, outboxes=[Outbox()])
    async with first.running():
        await first.until(lambda: first.phase("api") == Phase.RUNNING)
        first.holders["api"].fail()
        await first.until(lambda: first.phase("api") == Phase.FAILED)
    assert taken == []
    second = scripted(tmp_path, no_retries, clock=first.clock, ledger=first.ledger, outboxes=[Outbox()])
    async with second.running():
        for _ in range(5):
            await second.pass_time(5)
        await second.until(lambda: "EscalationDelivered" in second.types("api"))
        assert second.phase("api") == Phase.FAILED and second.holders["api"].done == []
        for _ in range(3):
            await second.pass_time(60)
    assert taken == ["house:api:1"]


async def test_what_needs_another_starts_after_it_stops_before_it_and_starts_again_with_it(
    tmp_path: Path,
) -> None:
    order: list[str] = []
    house = scripted(
        tmp_path,
        process("web", needs=("api",)),
        process("api", needs=("db",)),
        process("db"),
        process("alone"),
    )
    async with house.running():
        await house.until(lambda: all(house.phase(name) == Phase.RUNNING for name in house.holders))
        for name, holder in house.holders.items():
            holder.done = _Noted(order, name)
        await recovered(house, "db", 30)
        await house.until(lambda: house.phase("web") == Phase.RUNNING)
        assert order == ["web stop", "api stop", "db restart", "api start", "web start"]
        assert "RecoveryAttempted" not in house.types("api"), "it was not their fault"
        order.clear()
    assert order.index("web stop") < order.index("api stop") < order.index("db stop")


class _Noted(list[str]):
    """Notes what is appended to it in a list that others share."""

    def __init__(self, order: list[str], name: str) -> None:
        super().__init__()
        self._order, self._name = order, name

    def append(self, what: str) -> None:
        self._order.append(f"{self._name} {what}")


async def test_a_fault_that_may_come_from_what_it_needs_waits(tmp_path: Path) -> None:
    async with scripted(tmp_path, process("db"), process("api", needs=("db",))).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        house.holders["db"].fail()
        await house.until(lambda: house.phase("db") == Phase.RECOVERING)
        house.holders["api"].fail()
        await house.pass_time(1)
        assert house.phase("api") == Phase.RUNNING and "RecoveryPlanned" not in house.types("api")
        await house.pass_time(29)
        await house.until(lambda: house.phase("db") == house.phase("api") == Phase.RUNNING)
        assert house.holders["api"].done == ["start", "stop", "start"]


async def test_a_spent_channel_is_downgraded_once_and_only_the_gateway_takes_it_back(tmp_path: Path) -> None:
    async with scripted(tmp_path, TUNNEL).running() as house:
        holder = house.holders["tunnel"]
        await house.until(lambda: house.phase("tunnel") == Phase.RUNNING)
        for delay_s in (30, 90, 210):
            await recovered(house, "tunnel", delay_s)
        holder.fail()
        await house.until(lambda: "ChannelDowngraded" in house.types("tunnel"))
        await house.until(lambda: house.phase("tunnel") == Phase.RUNNING)
        assert holder.done[-1] == "terminal_fallback"
        last = house.facts("tunnel")[-1]
        assert isinstance(last, ev.PhaseChanged) and last.health == "degraded"
        (down,) = [one for one in house.facts("tunnel") if isinstance(one, ev.ChannelDowngraded)]
        assert (down.from_mode, down.to_mode, down.reason_code) == (
            "ide_primary",
            "terminal_fallback",
            "budget_spent:max_retries",
        )
        refused = await house.probe.tell(restore("c1", by_gateway=False))
        assert refused == "refused"
        await house.probe.tell(restore("c2", by_gateway=True))
        await house.until(lambda: "ChannelRestored" in house.types("tunnel"))
        await house.until(lambda: house.phase("tunnel") == Phase.RUNNING)
        assert holder.done[-1] == "ide_primary"


async def test_a_downgrade_that_does_not_help_is_handed_over(tmp_path: Path) -> None:
    async with scripted(tmp_path, TUNNEL).running() as house:
        await house.until(lambda: house.phase("tunnel") == Phase.RUNNING)
        for delay_s in (30, 90, 210):
            await recovered(house, "tunnel", delay_s)
        house.holders["tunnel"].answers = [Done(ok=False, reason="no terminal", error_code="refused")]
        house.holders["tunnel"].fail()
        await house.until(lambda: house.phase("tunnel") == Phase.FAILED)
        assert house.types("tunnel").count("ChannelDowngraded") == 1
        (escalated,) = [one for one in house.facts("tunnel") if isinstance(one, ev.ProbeEscalated)]
        assert escalated.retry_count == 4


def restore(command_id: str, *, by_gateway: bool) -> Command:
    return Command(
        command_id=command_id,
        kind="restore_mode",
        resource_id="tunnel",
        reason="it works again",
        actor="gateway",
        by_gateway=by_gateway,
    )


def restart(command_id: str, resource_id: str = "api", action: str = "restart") -> Command:
    return Command(
        command_id=command_id,
        kind="act",
        resource_id=resource_id,
        action=action,
        reason="new certificate",
        actor="ada",
    )


async def test_actions_by_hand_count_are_carried_out_once_and_end_with_the_budget(tmp_path: Path) -> None:
    async with scripted(tmp_path, process("api")).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        for number in range(3):
            await house.probe.tell(restart(f"c{number}"))
            await house.until_told("api", "RecoverySucceeded", number + 1)
            assert await house.probe.tell(restart(f"c{number}")) == "accepted"
        await house.probe.tell(restart("c3"))
        await house.until(lambda: house.probe.state.commands.get("c3") == "refused")
        assert house.holders["api"].done == ["start", "restart", "restart", "restart"]
        reset = Command(command_id="c4", kind="reset_budget", resource_id="api", reason="mended", actor="ada")
        await house.probe.tell(reset)
        await house.until(lambda: house.probe.state.commands.get("c4") == "accepted")
        (given_back,) = [one for one in house.facts("api") if isinstance(one, ev.BudgetReset)]
        assert (given_back.automatic, given_back.actor) == (False, "ada")
        await house.probe.tell(restart("c5"))
        await house.until(lambda: house.types("api").count("RecoverySucceeded") == 4)
        manual = [one for one in house.facts("api") if isinstance(one, ev.RecoveryAttempted)]
        assert all(one.manual and one.backoff_seconds == 0 for one in manual)


@pytest.mark.parametrize(
    ("action", "rule"),
    [
        ("migrate_host", "host_placement"),
        ("reroute", "stable_route"),
        ("scale", "desired_state"),
        ("skip_approval", "platform_approval"),
        ("archive", "silent_termination"),
        ("defragment", "allowed_actions"),
    ],
)
async def test_what_no_probe_may_do_is_refused_by_name_and_recorded(
    tmp_path: Path, action: str, rule: str
) -> None:
    async with scripted(tmp_path, process("api")).running() as house:
        assert await house.probe.tell(restart("c1", action=action)) == "refused"
        (denied,) = [event.payload for event in house.events if event.type == "ActionRefused"]
        assert isinstance(denied, ev.ActionRefused)
        assert (denied.asked, denied.rule, denied.source) == (action, rule, "ada")


async def test_a_probe_runs_once(tmp_path: Path) -> None:
    async with scripted(tmp_path, process("api")).running() as house:
        second = scripted(tmp_path, process("api"), clock=house.clock, ledger=house.ledger)
        with pytest.raises(UsageError, match="running already"):
            await second.probe.run(asyncio.Event())


async def test_what_must_not_be_restarted_is_handed_over_and_a_person_may_start_it(tmp_path: Path) -> None:
    async with scripted(tmp_path, process("api")).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        house.holders["api"].fail(final=True)
        await house.until(lambda: house.phase("api") == Phase.FAILED)
        assert house.probe.state.resources["api"].used == {}
        await house.probe.tell(restart("c1"))
        await house.until(lambda: house.phase("api") == Phase.RUNNING)


async def test_the_ledger_being_away_for_a_while_loses_nothing(tmp_path: Path) -> None:
    house = scripted(tmp_path, process("api"))
    away = _Away(house.ledger)
    object.__setattr__(house.world, "ledger", away)
    async with house.running():
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        away.failures = 2
        house.holders["api"].fail()
        for _ in range(4):
            await house.pass_time(1)
        await house.until(lambda: house.phase("api") == Phase.RECOVERING)
        assert away.failures == 0


class _Away:
    """A ledger that cannot be written a few times."""

    def __init__(self, ledger: object) -> None:
        self._ledger = ledger
        self.failures = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    async def append(self, append: object) -> object:
        from recoup.errors import LedgerBusy

        if self.failures:
            self.failures -= 1
            raise LedgerBusy("no turn")
        return await self._ledger.append(append)  # type: ignore[attr-defined]


async def test_a_command_that_is_told_again_before_it_is_answered_is_carried_out_once(tmp_path: Path) -> None:
    async with scripted(tmp_path, process("api")).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        for _ in range(3):
            assert await house.probe.tell(restart("c1")) is None
        await house.until_told("api", "RecoverySucceeded", 1)
        await house.pass_time(1)
        assert house.holders["api"].done == ["start", "restart"]
        assert house.types("api").count("CommandHandled") == 1


async def test_a_flood_of_faults_leaves_room_for_a_command(tmp_path: Path) -> None:
    async with scripted(tmp_path, process("api")).running() as house:
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        assert await house.probe.tell(restart("c1")) is None
        for _ in range(FAULTS_MAX + 1):
            house.holders["api"].fail()
        await house.until_told("api", "CommandHandled", 1)
