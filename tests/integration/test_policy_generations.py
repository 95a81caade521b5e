"""A policy file that is changed while runs go on: one policy for all who share the ledger, never a bad one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from recoup.documents.policy_watch import WatchedPolicyFile
from recoup.engine.claim import Claimed, claim
from recoup.engine.generations import Generations
from recoup.engine.recorder import Recorder
from recoup.engine.world import Job
from recoup.errors import LedgerBusy, LedgerError
from recoup.evidence.run_folder import RunFolder
from recoup.evidence.vault import NoSecrets
from recoup.ledger.sqlite import SqliteLedger
from recoup.model import events as ev
from recoup.model.ids import POLICY_STREAM
from recoup.model.policy import Policy
from recoup.model.storage import Append, Appended, Draft, PolicyBody, StreamAppend
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import ScriptedRuntime, exits

RESET = "error: connection reset by peer"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    one = House(tmp_path)
    yield one
    await one.ledger.close()


class Written:
    """A policy file, and one process that follows it."""

    def __init__(self, house: House, name: str = "policy.yaml", text: str = "{}") -> None:
        self.house = house
        self.path = house.root / name
        self.stamp = 1_000_000_000
        self.write(text)
        self.restart()

    def restart(self) -> None:
        source = WatchedPolicyFile(self.path, "host")
        self.generations = Generations(self.house.ledger, self.house.redactor, self.house.clock, source)

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self.stamp += 1_000_000_000
        os.utime(self.path, ns=(self.stamp, self.stamp))

    async def attempts(self) -> int:
        """After two looks: what was just written is left alone for one."""
        await self.generations.current()
        policy = await self.generations.current()
        assert policy is not None
        return policy.step_max_attempts


async def told(house: House) -> list[ev.Payload]:
    return [event.payload for event in await house.ledger.read(POLICY_STREAM)]


async def test_a_changed_file_is_one_generation_that_everybody_follows(house: House) -> None:
    mine = Written(house, text="step_max_attempts: 4")
    assert (await mine.generations.begin()).step_max_attempts == 4
    follower = Generations(house.ledger, house.redactor, house.clock)
    assert (await follower.begin()).step_max_attempts == 4
    mine.write("step_max_attempts: 5")
    assert await mine.attempts() == 5
    assert await mine.attempts() == 5
    followed = await follower.current()
    assert followed is not None and followed.step_max_attempts == 5
    assert [type(one) for one in await told(house)] == [ev.PolicyGeneration] * 2


async def test_what_is_being_written_is_left_alone_until_it_is_quiet(house: House) -> None:
    mine = Written(house, text="step_max_attempts: 4")
    await mine.generations.begin()
    mine.stamp = time.time_ns() + 3_600_000_000_000
    mine.write("step_max_attempts: 9\nretry_tokens: 2")
    assert (await mine.generations.current() or Policy()).step_max_attempts == 4
    mine.write("step_max_attempts: 9\nretry_tokens: 200")
    assert (await mine.generations.current() or Policy()).step_max_attempts == 4
    newest = await mine.generations.current()
    assert newest is not None and (newest.step_max_attempts, newest.retry_tokens) == (9, 200)
    assert len(await told(house)) == 2


async def test_two_processes_with_different_files_do_not_flap(house: House) -> None:
    one = Written(house, "one.yaml", "step_max_attempts: 4")
    two = Written(house, "two.yaml", "step_max_attempts: 6")
    for _ in range(5):
        for mine in (one, two):
            mine.restart()
            await mine.generations.begin()
            assert await mine.attempts() in (4, 6)
    assert len(await told(house)) == 2
    assert await one.attempts() == await two.attempts() == 6
    one.write("step_max_attempts: 7")
    assert await one.attempts() == await two.attempts() == 7


@pytest.mark.parametrize(
    "broken",
    [
        "step_max_attempts: [",
        "step_max_attempts: -1",
        "workflow_fail_window_s: 0",
        "{min_confidence_normal: 0.9, min_confidence_degraded: 0.8}",
        "",
        "step_max_atempts: 3",
    ],
)
async def test_a_file_that_cannot_be_used_leaves_the_last_good_one_and_one_warning(
    house: House, broken: str
) -> None:
    mine = Written(house, text="step_max_attempts: 4")
    await mine.generations.begin()
    mine.write(broken)
    for _ in range(3):
        assert await mine.attempts() == 4
        mine.restart()
        assert (await mine.generations.begin()).step_max_attempts == 4
    _, refused = await told(house)
    assert isinstance(refused, ev.PolicyRefused)
    assert str(mine.path) in refused.source
    assert refused.reason
    mine.write("step_max_attempts: 8")
    assert await mine.attempts() == 8


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
async def test_what_is_no_plain_file_is_refused_once_and_nobody_waits_for_it(
    house: House, make: Callable[[Path], None]
) -> None:
    mine = Written(house, text="step_max_attempts: 4")
    await mine.generations.begin()
    mine.path.unlink()
    make(mine.path)
    for _ in range(2):
        assert await mine.attempts() == 4
        mine.restart()
        assert (await mine.generations.begin()).step_max_attempts == 4
    _, refused = await told(house)
    assert isinstance(refused, ev.PolicyRefused)


async def test_a_change_that_keeps_size_and_time_is_seen(house: House) -> None:
    """As tools leave it that set the time of what they unpack or synchronise."""
    mine = Written(house, text="step_max_attempts: 4")
    assert await mine.attempts() == 4
    mine.stamp -= 1_000_000_000
    mine.write("step_max_attempts: 5")
    assert await mine.attempts() == 5


async def test_who_only_looks_tells_nothing(house: House) -> None:
    one = Written(house, "one.yaml", "step_max_attempts: 4")
    assert await one.generations.seen() == (Policy(step_max_attempts=4), f"{one.path}@host")
    assert await told(house) == []
    await one.generations.begin()
    two = Written(house, "two.yaml", "step_max_attempts: 6")
    await two.generations.begin()
    assert await one.generations.seen() == (Policy(step_max_attempts=6), f"{two.path}@host")
    one.write("step_max_attempts: [")
    assert (await one.generations.seen())[0].step_max_attempts == 6
    assert len(await told(house)) == 2


async def test_where_nobody_has_said_anything_the_defaults_are_seen(house: House) -> None:
    assert await Generations(house.ledger, house.redactor, house.clock).seen() == (Policy(), None)


async def test_a_file_that_vanishes_changes_nothing(house: House) -> None:
    mine = Written(house, text="step_max_attempts: 4")
    await mine.generations.begin()
    mine.path.unlink()
    assert await mine.attempts() == 4
    assert len(await told(house)) == 1


async def test_a_run_follows_at_its_next_step_and_its_decisions_name_the_policy(house: House) -> None:
    mine = Written(house, text="step_max_attempts: 1")
    await mine.generations.begin()
    house.world = msgspec.structs.replace(house.world, generations=mine.generations)
    failing = exits(1, RESET)
    house.world.runtimes["run"] = ScriptedRuntime({"a": [failing] * 5})  # type: ignore[index]
    state = await house.run(plan_of("a"))
    assert state.steps[0].spent.attempts == 1, "the run was submitted with three, the generation says one"
    first = [e.payload for e in house.seen if isinstance(e.payload, ev.AttemptFailed)][-1]
    mine.write("step_max_attempts: 2\nbackoff_ms: 0")
    await mine.attempts()
    house.world.runtimes["run"] = ScriptedRuntime({"a": [failing, exits(1, RESET + " again")] * 5})  # type: ignore[index]
    state = await house.run(plan_of("a"), "run-2")
    assert state.steps[0].spent.attempts == 2
    second = [e.payload for e in house.seen if isinstance(e.payload, ev.AttemptFailed)][-1]
    assert first.policy_digest != second.policy_digest
    digests = [one.policy_digest for one in await told(house) if isinstance(one, ev.PolicyGeneration)]
    for digest in digests:
        assert await house.ledger.policy_body(digest) is not None


class BusyLedger(SqliteLedger):
    """Has no turn for what this process would say about policies, so many times."""

    refusals = 0

    async def append(self, append: Append) -> Appended:
        if self.refusals and any(part.stream == POLICY_STREAM for part in append.streams):
            self.refusals -= 1
            raise LedgerBusy("no turn")
        return await super().append(append)


async def test_a_change_that_could_not_be_told_at_once_is_told_later_and_costs_no_attempt(
    house: House,
) -> None:
    mine = Written(house, text="step_max_attempts: 4")
    ledger = BusyLedger(house.root / "ledger.db")
    generations = Generations(ledger, house.redactor, house.clock, WatchedPolicyFile(mine.path, "host"))
    await generations.begin()
    mine.write("step_max_attempts: 5")
    ledger.refusals = 1
    house.world = msgspec.structs.replace(house.world, generations=generations)
    state = await house.run(plan_of("a"))
    assert (state.status, state.steps[0].spent.attempts) == ("succeeded", 1)
    newest = await generations.current()
    assert newest is not None and newest.step_max_attempts == 5
    assert len(await told(house)) == 2
    await ledger.close()


async def test_a_policy_of_a_newer_version_is_not_followed_and_nobody_begins_without_it(house: House) -> None:
    mine = Written(house, text="step_max_attempts: 4")
    assert (await mine.generations.begin()).step_max_attempts == 4
    fact = ev.PolicyGeneration(policy_digest="newer", source="elsewhere")
    await house.ledger.append(
        Append(
            at=house.clock.now(),
            streams=(StreamAppend(POLICY_STREAM, (Draft(fact.TYPE, house.redactor.seal(fact)),)),),
            policies=(PolicyBody("newer", house.redactor.seal({"key_of_tomorrow": 1})),),
        )
    )
    assert await mine.attempts() == 4
    with pytest.raises(LedgerError, match="newer version"):
        await Generations(house.ledger, house.redactor, house.clock).begin()


async def test_two_processes_that_see_the_same_change_at_once_say_it_once(
    house: House, tmp_path: Path
) -> None:
    mine = Written(house, text="step_max_attempts: 4")
    await mine.generations.begin()
    other = House(tmp_path, name="other")
    theirs = Generations(other.ledger, other.redactor, other.clock, WatchedPolicyFile(mine.path, "host"))
    mine.write("step_max_attempts: 5")
    for _ in range(2):
        await mine.generations.current()
        await theirs.current()
    assert len(await told(house)) == 2
    await other.ledger.close()


class LateLedger(SqliteLedger):
    """Gives the bodies of policies when it is told to, or not at all."""

    down = False
    gate: asyncio.Event | None = None
    asked: asyncio.Event

    async def policy_body(self, digest: str) -> bytes | None:
        if self.down:
            raise LedgerError("the database is away", hint="Wait.")
        gate, self.gate = self.gate, None
        if gate is not None:
            self.asked.set()
            await gate.wait()
        return await super().policy_body(digest)


async def test_a_policy_whose_body_could_not_be_read_at_once_is_followed_all_the_same(house: House) -> None:
    mine, ledger = Written(house, text="step_max_attempts: 4"), LateLedger(house.root / "ledger.db")
    follower = Generations(ledger, house.redactor, house.clock)
    await mine.generations.begin()
    ledger.down = True
    with pytest.raises(LedgerError, match="away"):
        await follower.current()
    ledger.down = False
    assert (await follower.begin()).step_max_attempts == 4
    await ledger.close()


async def test_a_run_that_is_told_late_of_an_older_policy_does_not_bring_it_back(house: House) -> None:
    mine, ledger = Written(house, text="step_max_attempts: 4"), LateLedger(house.root / "ledger.db")
    follower = Generations(ledger, house.redactor, house.clock)
    await mine.generations.begin()
    gate = asyncio.Event()
    ledger.asked, ledger.gate = asyncio.Event(), gate
    slow = asyncio.create_task(follower.current())
    await ledger.asked.wait()
    mine.write("step_max_attempts: 5")
    assert await mine.attempts() == 5
    assert (await follower.begin()).step_max_attempts == 5
    gate.set()
    await slow
    assert (await follower.begin()).step_max_attempts == 5
    await ledger.close()


class SlowLedger(SqliteLedger):
    """Holds the next append until it is let go."""

    gate: asyncio.Event | None = None
    asked: asyncio.Event

    async def append(self, append: Append) -> Appended:
        gate, self.gate = self.gate, None
        if gate is not None:
            self.asked.set()
            await gate.wait()
        return await super().append(append)


async def test_a_policy_that_is_named_while_something_else_is_recorded_is_stored_with_the_next_fact(
    tmp_path: Path,
) -> None:
    ledger = SlowLedger(tmp_path / "ledger.db")
    house = House(tmp_path, ledger=ledger)
    await house.submit(plan_of("a"))
    taken = await claim(house.world, "run-1")
    assert isinstance(taken, Claimed)
    job = Job(
        "run-1", plan_of("a"), house.policy, RunFolder(tmp_path / "runs"), house.redactor, NoSecrets(), None
    )
    recorder = Recorder(house.world, job, await house.state("run-1"), taken.lease)
    gate = asyncio.Event()
    ledger.asked, ledger.gate = asyncio.Event(), gate
    first = asyncio.create_task(recorder.record(ev.RunInterrupted(reason="one", epoch=taken.lease.epoch)))
    await ledger.asked.wait()
    digest = recorder.digest_of(Policy(step_max_attempts=7))
    gate.set()
    await first
    await recorder.record(ev.RunInterrupted(reason="two", epoch=taken.lease.epoch))
    assert await ledger.policy_body(digest) is not None
    await ledger.close()
