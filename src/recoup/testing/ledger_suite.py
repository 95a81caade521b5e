"""What every ledger must do. Subclass `LedgerSuite` in a test module that has fixtures `open_ledger` and `pass_time`.

`open_ledger` gives an async function; each call of it opens the same storage once more, as another process would, and
the fixture closes them all. `pass_time` gives one that moves the clock which the ledger itself goes by, if it has one;
it stands still otherwise. The caller's own clock is what the test says.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from recoup.errors import Conflict, LeaseLost, LedgerError
from recoup.kernel.projection import rebuild
from recoup.kernel.workflow import rebuild_workflow, token_cost
from recoup.model import events as ev
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ids import Lease, ProcessIdentity, run_stream, workflow_stream
from recoup.model.instant import Instant
from recoup.model.mode import Mode, Refusal
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.model.run import WorkflowState
from recoup.model.storage import (
    EVERY_RUN,
    Append,
    Appended,
    Arrival,
    Control,
    ControlAck,
    Draft,
    Escalation,
    Head,
    Judging,
    Place,
    PolicyBody,
    Ruled,
    RunFilter,
    StreamAppend,
)
from recoup.model.workspace import Snapshot
from recoup.ports import Ledger
from recoup.redaction.redactor import SecretRedactor

Opener = Callable[[], Awaitable[Ledger]]
Passing = Callable[[float], Awaitable[None]]

NOTICED_MAX_S = 5.0
"""Within which whoever listens hears of what another has written."""

BOOT = "6f0c2f4e-0000-4000-8000-000000000001"
OTHER_BOOT = "6f0c2f4e-0000-4000-8000-000000000002"
START = Instant(1_750_000_000_000_000, 5_000_000, BOOT)
OWNER = ProcessIdentity("here", BOOT, 100, 1)
RIVAL = ProcessIdentity("here", BOOT, 200, 2)

seal = SecretRedactor().seal


def draft(payload: ev.Payload) -> Draft:
    return Draft(payload.TYPE, seal(payload))


def into(stream: str, *payloads: ev.Payload, expected_seq: int | None = None) -> StreamAppend:
    return StreamAppend(stream, tuple(draft(payload) for payload in payloads), expected_seq)


def facts(*parts: StreamAppend, at: Instant = START, lease: Lease | None = None) -> Append:
    return Append(at=at, streams=parts, lease=lease)


def submitted(workflow: str = "w") -> ev.RunSubmitted:
    return ev.RunSubmitted(
        workflow=workflow,
        plan_digest="p",
        plan=Plan(name=workflow, steps=()),
        plan_redacted=False,
        inputs={},
        policy_digest="q",
    )


def note(text: str = "noted") -> ev.Payload:
    """A fact that any run may hold at any time and that changes only its reason."""
    return ev.RunInterrupted(reason=text, epoch=1)


def result(outcome: str, attempts: int = 1) -> ev.WorkflowStepResult:
    tokens = token_cost(outcome, attempts, Policy())
    return ev.WorkflowStepResult(run_id="r", step_id="s", result=outcome, attempts=attempts, tokens=tokens)


def control(number: int, run_id: str = "r", action: str = "pause") -> Control:
    return Control(id=f"c{number}", run_id=run_id, action=action, reason="because", actor="op", at=START)


async def claimed(ledger: Ledger, run_id: str = "r", owner: ProcessIdentity = OWNER) -> Lease:
    lease = await ledger.claim(run_id, owner, 10.0, START)
    assert lease is not None
    return lease


async def refused(error: type[Exception], doing: Awaitable[object]) -> Exception:
    try:
        await doing
    except error as refusal:
        return refusal
    raise AssertionError(f"{error.__name__} was expected")


class EventRules:
    """Streams and sequences."""

    async def test_sequences_are_dense_in_each_stream(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        for _ in range(3):
            await ledger.append(facts(into("run:a", note(), note()), into("run:b", note())))
        assert [event.seq for event in await ledger.read("run:a")] == [1, 2, 3, 4, 5, 6]
        assert [event.seq for event in await ledger.read("run:b")] == [1, 2, 3]
        assert await ledger.head("run:a") == 6
        assert await ledger.head("run:absent") == 0
        assert await ledger.read("run:absent") == []

    async def test_an_event_is_read_as_it_was_written(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        payload = note("naïve \x00 \U0001f600 " + "x" * 100_000)
        appended = await ledger.append(facts(into("run:a", payload)))
        (event,) = await (await open_ledger()).read("run:a")
        assert (event.stream, event.seq, event.at, event.type) == ("run:a", 1, START, payload.TYPE)
        assert event.payload == payload
        assert event.raw == draft(payload).payload.data
        assert [(at.stream, at.seq, at.type) for at in appended.positions] == [("run:a", 1, payload.TYPE)]

    async def test_an_event_of_a_newer_version_is_kept(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        newer = Draft("task.run.teleported", seal({"to": "Mars"}))
        await ledger.append(Append(at=START, streams=(StreamAppend("run:a", (newer,)),)))
        (event,) = await ledger.read("run:a")
        assert isinstance(event.payload, ev.UnknownPayload)
        assert event.raw == b'{"to":"Mars"}'

    async def test_a_reader_goes_on_behind_its_cursor(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await ledger.append(facts(into("run:a", *(note(str(number)) for number in range(10)))))
        await ledger.append(facts(into("run:b", note())))
        assert [event.seq for event in await ledger.read("run:a", after=4, limit=3)] == [5, 6, 7]
        assert [event.seq for event in await ledger.read("run:a", after=8)] == [9, 10]
        assert await ledger.read("run:a", after=10) == []

    async def test_the_events_of_all_streams_are_read_in_the_order_in_which_they_came(
        self, open_ledger: Opener
    ) -> None:
        ledger, other = await open_ledger(), await open_ledger()
        assert await ledger.arrivals() == [] and await ledger.last_arrival() == 0
        for number in range(4):
            writer = (ledger, other)[number % 2]
            await writer.append(
                facts(into("run:a", note(f"a{number}")), into("workflow:w", result("passed")))
            )
            await writer.append(facts(into("run:b", note(f"b{number}"), note("and"))))
        came = await ledger.arrivals()
        order = [("run:a", 1), ("workflow:w", 1), ("run:b", 1), ("run:b", 2), ("run:a", 2), ("workflow:w", 2)]
        assert [(event.stream, event.seq) for event in came[:6]] == order
        assert len(came) == 16 and sorted({event.number for event in came}) == [e.number for e in came]
        for stream in ("run:a", "run:b", "workflow:w"):
            read = [(e.seq, e.at, e.type, e.raw) for e in await other.read(stream)]
            assert read == [(e.seq, e.at, e.type, e.payload.data) for e in came if e.stream == stream]
        assert await other.arrivals(came[4].number, 3) == came[5:8]
        assert await ledger.arrivals(came[-1].number) == []
        assert await other.last_arrival() == came[-1].number
        assert await other.arrivals_before(came[-1].number + 1, 500) == came[::-1]
        assert await ledger.arrivals_before(came[4].number, 3) == [came[3], came[2], came[1]]

    async def test_a_reader_of_all_streams_skips_nothing_while_others_write(
        self, open_ledger: Opener
    ) -> None:
        writers, reader = [await open_ledger() for _ in range(2)], await open_ledger()

        async def write(number: int) -> None:
            for _ in range(20):
                await writers[number % 2].append(facts(into(f"run:{number}", note(), note())))

        working = asyncio.gather(*(write(number) for number in range(5)))
        came: list[Arrival] = []
        while not working.done() or await reader.arrivals(came[-1].number if came else 0, 1):
            came += await reader.arrivals(came[-1].number if came else 0, 7)
            await asyncio.sleep(0)
        await working
        assert came == await reader.arrivals()
        assert sorted((e.stream, e.seq) for e in came) == [
            (f"run:{n}", s) for n in range(5) for s in range(1, 41)
        ]

    async def test_an_expected_sequence_must_be_met(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await ledger.append(facts(into("run:a", note(), expected_seq=0)))
        both = facts(into("run:b", note()), into("run:a", note(), expected_seq=0))
        await refused(Conflict, ledger.append(both))
        assert await ledger.head("run:a") == 1
        assert await ledger.head("run:b") == 0
        await ledger.append(facts(into("run:a", note(), expected_seq=1)))

    async def test_streams_are_found_by_prefix(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        for stream in ("run:a", "run:b", "workflow:a", "workflow:a%", "policy"):
            await ledger.append(facts(into(stream, note())))
        assert await ledger.streams("run:") == ["run:a", "run:b"]
        assert await ledger.streams("workflow:a%") == ["workflow:a%"]
        assert len(await ledger.streams()) == 5

    async def test_the_ends_of_streams_are_found_by_prefix(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        later = START.plus_s(5)
        await ledger.append(facts(into("run:a", note(), note())))
        await ledger.append(facts(into("run:b", note())))
        await ledger.append(facts(into("policy", note())))
        await ledger.append(facts(into("run:b", note(), note()), at=later))
        assert await ledger.heads("run:") == [Head("run:a", 2, START), Head("run:b", 3, later)]
        assert [head.stream for head in await ledger.heads()] == ["policy", "run:a", "run:b"]
        assert await ledger.heads("workflow:") == []

    async def test_only_redacted_text_is_stored(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        raw = Draft("task.run.interrupted", b'{"reason":"raw","epoch":1}')  # type: ignore[arg-type]
        await refused(
            AssertionError, ledger.append(Append(at=START, streams=(StreamAppend("run:a", (raw,)),)))
        )
        assert await ledger.head("run:a") == 0

    async def test_readers_skip_nothing_while_others_write(self, open_ledger: Opener) -> None:
        writers = [await open_ledger() for _ in range(2)]
        reader = await open_ledger()
        seen: list[int] = []

        async def write(ledger: Ledger) -> None:
            for _ in range(40):
                await ledger.append(facts(into("run:a", note(), note())))

        async def follow() -> None:
            while len(seen) < 160:
                seen.extend(event.seq for event in await reader.read("run:a", after=seen[-1] if seen else 0))
                await asyncio.sleep(0)

        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            group.create_task(follow())
            for ledger in writers:
                group.create_task(write(ledger))
        assert seen == list(range(1, 161))


class GroupRules:
    """Appends that wait are committed together and still stand alone."""

    async def test_appends_at_once_all_get_their_places(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        appends = [
            ledger.append(facts(into("run:a", note(str(n))), into(f"run:{n}", note()))) for n in range(50)
        ]
        done = await asyncio.gather(*appends)
        events = await ledger.read("run:a")
        assert [event.seq for event in events] == list(range(1, 51))
        for number, appended in enumerate(done):
            event = events[appended.positions[0].seq - 1]
            assert isinstance(event.payload, ev.RunInterrupted)
            assert event.payload.reason == str(number)

    async def test_a_stale_append_does_not_fail_its_neighbours(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        leases = [await claimed(ledger, f"r{number}") for number in range(20)]
        assert await ledger.claim("r7", RIVAL, 10.0, START, over_epoch=1)
        appends = [facts(into("run:all", note()), into(f"run:{x.run_id}", note()), lease=x) for x in leases]
        done = await asyncio.gather(*map(ledger.append, appends), return_exceptions=True)
        assert [number for number, one in enumerate(done) if isinstance(one, LeaseLost)] == [7]
        assert sum(isinstance(one, Appended) for one in done) == 19
        assert [event.seq for event in await ledger.read("run:all")] == list(range(1, 20))
        assert await ledger.head("run:r7") == 0

    async def test_a_cancelled_caller_does_not_harm_the_others(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        tasks = [asyncio.create_task(ledger.append(facts(into("run:a", note(str(n)))))) for n in range(30)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        events = await ledger.read("run:a")
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        for number, appended in enumerate(done):
            if isinstance(appended, Appended):
                payload = events[appended.positions[0].seq - 1].payload
                assert isinstance(payload, ev.RunInterrupted)
                assert payload.reason == str(number)
        assert sum(isinstance(one, Appended) for one in done) >= 20

    async def test_closing_commits_what_waits(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        tasks = [asyncio.create_task(ledger.append(facts(into("run:a", note())))) for _ in range(10)]
        await asyncio.sleep(0)
        await ledger.close()
        await asyncio.gather(*tasks)
        assert await (await open_ledger()).head("run:a") == 10
        await refused(LedgerError, ledger.append(facts(into("run:a", note()))))

    async def test_of_two_who_expect_the_same_sequence_one_gets_it(self, open_ledger: Opener) -> None:
        first, second = await open_ledger(), await open_ledger()
        for seq in range(15):
            one = facts(into("run:a", note(), expected_seq=seq))
            done = await asyncio.gather(first.append(one), second.append(one), return_exceptions=True)
            assert sorted(type(x).__name__ for x in done) == ["Appended", "Conflict"]
        assert await first.head("run:a") == 15


class LeaseRules:
    """One driver at a time, and no append by one that lost the run."""

    async def test_a_held_run_cannot_be_claimed(self, open_ledger: Opener, pass_time: Passing) -> None:
        ledger, other = await open_ledger(), await open_ledger()
        lease = await claimed(ledger)
        assert (lease.run_id, lease.owner, lease.epoch, lease.ttl_s) == ("r", OWNER, 1, 10.0)
        assert lease.deadline_boot_s == START.boot_us / 1e6 + 10
        await pass_time(9.9)
        assert await other.claim("r", RIVAL, 10.0, START.plus_s(9.9)) is None
        assert await ledger.claim("r", OWNER, 10.0, START.plus_s(9.9)) is None
        row = await other.lease("r")
        assert row is not None
        assert (row.run_id, row.epoch, row.owner, row.renewed_at, row.ttl_s) == ("r", 1, OWNER, START, 10.0)
        assert await other.lease("absent") is None

    async def test_an_expired_lease_can_be_claimed(self, open_ledger: Opener, pass_time: Passing) -> None:
        ledger = await open_ledger()
        await claimed(ledger)
        await pass_time(10)
        lease = await ledger.claim("r", RIVAL, 10.0, START.plus_s(10))
        assert lease is not None
        assert (lease.owner, lease.epoch) == (RIVAL, 2)

    async def test_renewing_puts_the_end_off(self, open_ledger: Opener, pass_time: Passing) -> None:
        ledger = await open_ledger()
        lease = await claimed(ledger)
        await pass_time(8)
        renewed = await ledger.renew(lease, START.plus_s(8))
        assert renewed.deadline_boot_s == START.boot_us / 1e6 + 18
        await pass_time(9)
        assert await ledger.claim("r", RIVAL, 10.0, START.plus_s(17)) is None
        await pass_time(1)
        assert await ledger.claim("r", RIVAL, 10.0, START.plus_s(18)) is not None

    async def test_a_lease_that_ran_out_is_not_renewed(self, open_ledger: Opener, pass_time: Passing) -> None:
        """Whoever counted the runs under a lease that lasts has not counted it: to renew it would make one too many."""
        ledger = await open_ledger()
        lease = await claimed(ledger)
        await pass_time(9.5)
        lease = await ledger.renew(lease, START.plus_s(9.5))
        await pass_time(10)
        error = await refused(LeaseLost, ledger.renew(lease, START.plus_s(19.5)))
        assert "was not renewed in time" in str(error)
        again = await ledger.claim("r", OWNER, 10.0, START.plus_s(19.5))
        assert again is not None
        assert (again.epoch, again.replaced) == (2, OWNER)
        await ledger.renew(again, START.plus_s(20))

    async def test_a_jump_of_the_wall_clock_does_not_end_a_lease(
        self, open_ledger: Opener, pass_time: Passing
    ) -> None:
        ledger = await open_ledger()
        await claimed(ledger)
        await pass_time(1)
        jumped = Instant(START.wall_us + 3_600_000_000, START.boot_us + 1_000_000, BOOT)
        assert await ledger.claim("r", RIVAL, 10.0, jumped) is None

    async def test_after_a_reboot_the_wall_clock_counts(
        self, open_ledger: Opener, pass_time: Passing
    ) -> None:
        ledger = await open_ledger()
        await claimed(ledger)
        soon = Instant(START.wall_us + 9_000_000, 1, OTHER_BOOT)
        later = Instant(START.wall_us + 10_000_000, 1, OTHER_BOOT)
        await pass_time(9)
        assert await ledger.claim("r", RIVAL, 10.0, soon) is None
        await pass_time(1)
        assert await ledger.claim("r", RIVAL, 10.0, later) is not None

    async def test_a_dead_owner_is_replaced_at_its_epoch_only(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await claimed(ledger)
        assert await ledger.claim("r", RIVAL, 10.0, START, over_epoch=0) is None
        lease = await ledger.claim("r", RIVAL, 10.0, START, over_epoch=1)
        assert lease is not None
        assert lease.epoch == 2
        assert await ledger.claim("r", OWNER, 10.0, START, over_epoch=1) is None

    async def test_epochs_only_grow(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        epochs = []
        for _ in range(3):
            lease = await claimed(ledger)
            epochs.append(lease.epoch)
            await ledger.release(lease)
        assert epochs == [1, 2, 3]

    async def test_a_stale_epoch_is_refused(self, open_ledger: Opener) -> None:
        ledger, other = await open_ledger(), await open_ledger()
        stale = await claimed(ledger)
        await ledger.append(facts(into("run:r", note()), lease=stale))
        current = await other.claim("r", RIVAL, 10.0, START, over_epoch=1)
        assert current is not None
        await refused(LeaseLost, ledger.append(facts(into("run:r", note()), lease=stale)))
        await refused(LeaseLost, ledger.renew(stale, START))
        await ledger.release(stale)
        await other.append(facts(into("run:r", note()), lease=current))
        await other.renew(current, START)
        assert await ledger.head("run:r") == 2

    async def test_a_released_lease_is_worth_nothing(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        lease = await claimed(ledger)
        await ledger.release(lease)
        await refused(LeaseLost, ledger.append(facts(into("run:r", note()), lease=lease)))
        await refused(LeaseLost, ledger.renew(lease, START))
        row = await ledger.lease("r")
        assert row is not None
        assert (row.owner, row.epoch) == (None, 1)
        assert await ledger.claim("r", RIVAL, 10.0, START) is not None

    async def test_an_append_can_give_the_lease_back(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        lease = await claimed(ledger)
        await ledger.append(Append(at=START, streams=(into("run:r", note()),), lease=lease, release=True))
        row = await ledger.lease("r")
        assert row is not None
        assert row.owner is None
        await refused(LeaseLost, ledger.append(facts(into("run:r", note()), lease=lease)))

    async def test_a_refused_append_keeps_the_lease(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        lease = await claimed(ledger)
        wrong = into("run:r", note(), expected_seq=5)
        append = Append(at=START, streams=(wrong,), lease=lease, release=True)
        await refused(Conflict, ledger.append(append))
        await ledger.append(facts(into("run:r", note()), lease=lease))

    async def test_of_many_who_claim_one_gets_it(self, open_ledger: Opener) -> None:
        ledgers = [await open_ledger() for _ in range(3)]
        owners = [ProcessIdentity("here", BOOT, 1000 + number, number) for number in range(12)]
        claims = [ledgers[n % 3].claim("r", owner, 10.0, START) for n, owner in enumerate(owners)]
        granted = [lease for lease in await asyncio.gather(*claims) if lease]
        assert [lease.epoch for lease in granted] == [1]


class BoxRules:
    """Controls, escalations, policies."""

    async def test_a_control_is_taken_once(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        assert await ledger.send_control(control(1))
        assert not await ledger.send_control(control(1, action="cancel"))
        assert await ledger.pending_controls("r") == [control(1)]
        assert await ledger.pending_controls("other") == []
        assert await ledger.control("c1") == control(1)
        assert await ledger.control("c2") is None

    async def test_controls_wait_in_the_order_in_which_they_came(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        for number in (3, 1, 2):
            await ledger.send_control(control(number))
        assert [one.id for one in await ledger.pending_controls("r")] == ["c3", "c1", "c2"]

    async def test_the_first_acknowledgement_of_a_control_counts(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        lease = await claimed(ledger)
        await ledger.send_control(control(1))
        for outcome, epoch in (("accepted", 1), ("refused", 2)):
            ack = ControlAck("c1", outcome, epoch)
            await ledger.append(Append(at=START, streams=(into("run:r", note()),), lease=lease, acks=(ack,)))
        assert await ledger.pending_controls("r") == []
        expected = msgspec.structs.replace(control(1), outcome="accepted", epoch=1)
        assert await ledger.control("c1") == expected
        assert not await ledger.send_control(control(1))

    async def test_a_tail_is_withheld_while_a_control_waits(self, open_ledger: Opener) -> None:
        ledger, operator = await open_ledger(), await open_ledger()
        lease = await claimed(ledger)
        both = Append(
            at=START, streams=(into("run:r", note("a")),), lease=lease, tail=(into("run:r", note("b")),)
        )
        first = await ledger.append(both)
        assert first.tail_appended
        assert [position.seq for position in first.positions] == [1, 2]
        await operator.send_control(control(1, run_id="another"))
        await operator.send_control(control(1, run_id="r"))
        await operator.send_control(control(2, run_id="r"))
        second = await ledger.append(both)
        assert not second.tail_appended
        assert [position.seq for position in second.positions] == [3]

    async def test_a_tail_follows_when_the_append_settles_the_last_control(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        lease = await claimed(ledger)
        for number in (1, 2):
            await ledger.send_control(control(number))
        for number, tail_appended in ((1, False), (2, True)):
            done = await ledger.append(
                Append(
                    at=START,
                    streams=(into("run:r", note()),),
                    lease=lease,
                    acks=(ControlAck(f"c{number}", "accepted", lease.epoch),),
                    tail=(into("run:r", note()),),
                )
            )
            assert done.tail_appended is tail_appended

    async def test_an_escalation_happens_once(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        escalations = [Escalation(f"e{n}", "run:r", "because", seal({"number": n})) for n in range(3)]
        for one in (*escalations, Escalation("e0", "run:r", "again", seal({}))):
            await ledger.append(Append(at=START, streams=(into("run:r", note()),), escalations=(one,)))
        found = [Escalation(one.id, one.stream, one.reason, one.body) for one in await ledger.inbox()]
        assert found == escalations
        assert [one.id for one in await ledger.inbox(limit=2)] == ["e0", "e1"]

    async def test_what_people_do_about_an_escalation_is_its_state(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        streams = {"a": "run:r", "b": "probe:p", "c": "run:r2"}
        for name, stream in streams.items():
            one = Escalation(name, stream, "because", seal({"of": name}))
            await ledger.append(Append(at=START, streams=(into(stream, note()),), escalations=(one,)))
        about = {"by": "ada", "reason": "mine"}
        acknowledged = ev.EscalationAcknowledged(escalation_id="a", **about)
        assigned = ev.EscalationAssigned(escalation_id="b", assignee="bob", **about)
        await ledger.append(facts(into("escalation:a", acknowledged), into("escalation:b", assigned)))
        rows = await ledger.inbox()
        assert [(one.id, one.stream, one.reason) for one in rows] == [
            (name, stream, "because") for name, stream in streams.items()
        ]
        assert [(one.state, one.assignee) for one in rows] == [
            ("acknowledged", None),
            ("assigned", "bob"),
            ("open", None),
        ]
        assert [one.raised_at_us for one in rows] == [START.wall_us] * 3
        assert [one.id for one in await ledger.inbox(state="open")] == ["c"]
        assert [one.id for one in await ledger.inbox(of_runs=True, limit=1)] == ["a"]
        assert [one.id for one in await ledger.inbox(of_runs=True, after=rows[0].number)] == ["c"]
        assert [one.id for one in await ledger.inbox(state="assigned", of_runs=False)] == ["b"]
        assert await ledger.escalation("b") == rows[1]
        assert await ledger.escalation("d") is None

    async def test_a_run_that_goes_on_ends_its_escalations_whatever_came_first(
        self, open_ledger: Opener
    ) -> None:
        ledger = await open_ledger()
        for name in ("a", "b", "c"):
            one = Escalation(name, f"run:{name}", "because", seal({}))
            await ledger.append(Append(at=START, streams=(into(f"run:{name}", note()),), escalations=(one,)))
        about = {"by": "ada", "reason": "mine"}
        await ledger.append(
            facts(into("escalation:a", ev.EscalationAcknowledged(escalation_id="a", **about)))
        )
        await ledger.append(facts(into("run:a", ev.RunWaiting(reason="settled"))))
        await ledger.append(facts(into("run:b", ev.RunCancelled(reason="enough", actor="ada"))))
        await ledger.append(
            facts(into("escalation:b", ev.EscalationAcknowledged(escalation_id="b", **about)))
        )
        assert [(one.id, one.state) for one in await ledger.inbox()] == [
            *(("a", "resolved"), ("b", "resolved"), ("c", "open")),
        ]

    async def test_a_policy_is_stored_once_by_its_digest(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        body = PolicyBody("d1", seal({"retry_tokens": 100}))
        for one in (body, PolicyBody("d1", seal({"retry_tokens": 1}))):
            await ledger.append(Append(at=START, streams=(), policies=(one,)))
        assert await ledger.policy_body("d1") == body.body.data
        assert await ledger.policy_body("d2") is None

    async def test_a_refused_append_leaves_its_companions_out(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await ledger.send_control(control(1))
        append = Append(
            at=START,
            streams=(into("run:r", note(), expected_seq=9),),
            acks=(ControlAck("c1", "accepted", 1),),
            policies=(PolicyBody("d1", seal({})),),
            escalations=(Escalation("e1", "run:r", "because", seal({})),),
        )
        await refused(Conflict, ledger.append(append))
        assert [one.id for one in await ledger.pending_controls("r")] == ["c1"]
        assert await ledger.policy_body("d1") is None
        assert await ledger.inbox() == []

    async def test_the_change_marker_moves_when_another_writes(self, open_ledger: Opener) -> None:
        ledger, other = await open_ledger(), await open_ledger()
        before = await ledger.change_marker()
        assert await ledger.change_marker() == before
        await other.send_control(control(1))
        async with asyncio.timeout(NOTICED_MAX_S):
            while await ledger.change_marker() == before:  # noqa: ASYNC110 - it can only be asked
                await asyncio.sleep(0.01)
        async with asyncio.timeout(NOTICED_MAX_S):
            while await self._moves(ledger):
                pass

    async def _moves(self, ledger: Ledger) -> bool:
        """Whether it changes although nobody writes."""
        before = await ledger.change_marker()
        await asyncio.sleep(0.1)
        return await ledger.change_marker() != before


class FoldRules:
    """Cached rows say what the events say."""

    async def test_runs_are_listed_newest_first(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        for number, workflow in enumerate(("w", "w", "v")):
            at = START.plus_s(number)
            await ledger.append(facts(into(f"run:r{number}", submitted(workflow)), at=at))
        ended = ev.RunSucceeded(known_good_prefix_length=0, reason="done")
        await ledger.append(facts(into("run:r0", ended), at=START.plus_s(60)))
        assert await listed(ledger) == ["r2", "r1", "r0"]
        assert await listed(ledger, limit=1) == ["r2"]
        assert await listed(ledger, RunFilter(workflow="w")) == ["r1", "r0"]
        behind = (START.plus_s(2).wall_us, "r2")
        assert await listed(ledger, before=behind, limit=1) == ["r1"]
        assert await listed(ledger, before=(behind[0], "r3")) == ["r2", "r1", "r0"]
        assert await listed(ledger, RunFilter(workflow="w"), before=behind) == ["r1", "r0"]
        assert await listed(ledger, RunFilter(statuses=("queued",)), before=behind) == ["r1"]
        done = RunFilter(workflow="w", statuses=("succeeded",))
        assert await listed(ledger, done, before=(START.wall_us, "r0")) == []
        (row,) = (await ledger.runs(done)).rows
        assert (row.run_id, row.seq, row.reason, row.delivery) == ("r0", 2, "done", 0)
        assert row.updated_at_us == START.wall_us + 60_000_000

    async def test_runs_are_found_by_the_beginning_of_their_id(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        for run_id in ("ab", "abc", "abd", "abe", "a_c", "b"):
            await ledger.append(facts(into(f"run:{run_id}", submitted())))
        assert await ledger.find_runs("ab") == ["ab", "abc", "abd"]
        assert await ledger.find_runs("a_") == ["a_c"]
        assert await ledger.find_runs("c") == []

    async def test_retry_tokens_are_shared_by_all_writers(self, open_ledger: Opener) -> None:
        first, second = await open_ledger(), await open_ledger()
        assert (await first.workflow_state("w")).tokens_spent == 0
        for number in range(40):
            ledger = first if number % 3 else second
            await ledger.append(facts(into("workflow:w", result("attempt_failed"), result("failed"))))
            assert (await second.workflow_state("w")).tokens_spent == number + 1
        await first.append(facts(into("workflow:w", result("recovered", attempts=11), result("passed"))))
        for ledger in (first, second):
            state = await ledger.workflow_state("w")
            assert abs(state.tokens_spent - 29.9) < 1e-9
            assert state.seq == 82

    async def test_cached_rows_equal_a_rebuild_from_the_events(self, open_ledger: Opener) -> None:
        ledgers = [await open_ledger() for _ in range(2)]
        for seed in range(3):
            chance = random.Random(seed)
            for append in random_history(chance, 60):
                await chance.choice(ledgers).append(append)
        for ledger in ledgers:
            await assert_cached_rows_equal_a_rebuild(ledger)


class JudgeRules:
    """What is decided inside the transaction, from the state of the workflow."""

    async def test_a_judge_sees_what_is_appended_with_it_by_whoever(self, open_ledger: Opener) -> None:
        ledgers = [await open_ledger(), await open_ledger()]
        seen: list[tuple[int, bool]] = []

        def look(state: WorkflowState, begins: bool, _at: Instant) -> Ruled:
            # A transaction may be performed again, but only one of them is kept.
            seen[number:] = [(len(state.health.failures), begins)]
            return Ruled()

        for number in range(40):
            told = (into("workflow:w", result("failed")),)
            await ledgers[number % 2].append(Append(at=START, streams=told, judging=Judging("w", look)))
        assert seen == [(number + 1, False) for number in range(40)]

    async def test_what_a_judge_says_stands_between_the_streams_and_the_tail(
        self, open_ledger: Opener
    ) -> None:
        ledger = await open_ledger()
        lease = await claimed(ledger)
        change = ev.WorkflowModeChanged(mode=Mode.DEGRADED, previous=Mode.RUNNING, reason="so")
        append = Append(
            at=START,
            streams=(into("workflow:w", result("failed")),),
            lease=lease,
            tail=(into("workflow:w", result("passed")),),
            judging=Judging("w", lambda _state, begins, _at: Ruled((draft(change),) if begins else ())),
        )
        appended = await ledger.append(append)
        assert appended.tail_appended
        assert [at.type for at in appended.positions] == [
            event.type for event in await ledger.read("workflow:w")
        ]
        assert [at.seq for at in appended.positions] == [1, 2, 3]
        assert appended.positions[1].type == change.TYPE
        state = await (await open_ledger()).workflow_state("w")
        assert (state.seq, state.health.mode) == (3, Mode.DEGRADED)
        await assert_cached_rows_equal_a_rebuild(ledger)

    async def test_a_refusal_withholds_the_tail_and_nothing_else(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        lease = await claimed(ledger)
        refusal = Refusal(Mode.PAUSED, "not now", 5.0)
        append = Append(
            at=START,
            streams=(into("run:r", note("kept")),),
            lease=lease,
            tail=(into("run:r", note("withheld")),),
            judging=Judging("w", lambda *_: Ruled((draft(ev.WorkflowBootSeen(boot_id=BOOT)),), refusal)),
        )
        appended = await ledger.append(append)
        assert (appended.tail_appended, appended.refusal) == (False, refusal)
        assert await ledger.head("run:r") == 1
        assert await ledger.head("workflow:w") == 1

    async def test_a_judge_is_told_that_nothing_begins_while_a_control_waits(
        self, open_ledger: Opener
    ) -> None:
        ledger = await open_ledger()
        lease = await claimed(ledger)
        await ledger.send_control(control(1))
        told: list[bool] = []

        def look(_state: WorkflowState, begins: bool, _at: Instant) -> Ruled:
            told.append(begins)
            return Ruled()

        append = Append(
            at=START, streams=(), lease=lease, tail=(into("run:r", note()),), judging=Judging("w", look)
        )
        assert not (await ledger.append(append)).tail_appended
        assert told == [False]

    async def test_of_many_who_want_the_only_permit_one_gets_it(self, open_ledger: Opener) -> None:
        ledgers = [await open_ledger() for _ in range(3)]

        def judge(run_id: str) -> Callable[[WorkflowState, bool, Instant], Ruled]:
            def one_permit(state: WorkflowState, _begins: bool, _at: Instant) -> Ruled:
                if state.health.permits:
                    return Ruled(refusal=Refusal(Mode.QUARANTINED, state.health.permits[0].run_id))
                return Ruled((draft(ev.WorkflowProbePermitted(run_id=run_id)),))

            return one_permit

        async def wants(number: int) -> Appended:
            run_id, ledger = f"r{number}", ledgers[number % 3]
            lease = await claimed(ledger, run_id)
            tail = (into(run_stream(run_id), note()),)
            return await ledger.append(
                Append(at=START, streams=(), lease=lease, tail=tail, judging=Judging("w", judge(run_id)))
            )

        answers = await asyncio.gather(*[wants(number) for number in range(12)])
        assert sum(answer.tail_appended for answer in answers) == 1
        assert len((await ledgers[0].workflow_state("w")).health.permits) == 1


class FamilyRules:
    """Linked runs, and what must be done once among them."""

    async def test_a_family_is_all_that_go_back_to_the_same_run(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await linked(ledger, ("old", None), ("b", "old"), ("c", "b"), ("a", "old"), ("alone", None))
        for run_id in ("old", "a", "b", "c"):
            assert await ledger.family(run_id) == ["old", "a", "b", "c"]
        assert await ledger.family("alone") == ["alone"]
        assert await (await open_ledger()).family("unknown") == ["unknown"]

    async def test_one_run_of_a_family_begins_what_must_be_done_once(self, open_ledger: Opener) -> None:
        first, second = await open_ledger(), await open_ledger()
        await linked(first, ("old", None), ("a", "old"), ("b", "a"), ("other", None))
        assert await begins(first, "a", once())
        for rival in ("b", "old"):
            appended = await second.append(await beginning(second, rival, once()))
            assert (appended.tail_appended, appended.claimed_by) == (False, "a")
            assert await second.head(run_stream(rival)) == 1
        assert await begins(second, "b", once(step_id="t"))
        assert await begins(second, "old", once(digest="other arguments"))
        assert await begins(second, "other", once())

    async def test_of_linked_runs_that_begin_it_at_the_same_time_one_does(self, open_ledger: Opener) -> None:
        ledgers = [await open_ledger() for _ in range(4)]
        runs = [f"r{number}" for number in range(12)]
        await linked(ledgers[0], ("old", None), *((run_id, "old") for run_id in runs))
        appends = [await beginning(ledgers[0], run_id, once()) for run_id in runs]
        told = await asyncio.gather(
            *(ledgers[number % 4].append(append) for number, append in enumerate(appends))
        )
        (winner,) = [run_id for run_id, one in zip(runs, told, strict=True) if one.tail_appended]
        assert {one.claimed_by for one in told if not one.tail_appended} == {winner}

    async def test_a_claim_withholds_the_tail_alone(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await linked(ledger, ("a", None), ("b", "a"))
        await begins(ledger, "a", once())
        append = await beginning(ledger, "b", once())
        append = msgspec.structs.replace(append, streams=(into("run:b", note()),))
        appended = await ledger.append(append)
        assert (appended.claimed_by, [at.seq for at in appended.positions]) == ("a", [2])
        assert [event.type for event in await ledger.read("run:b")][1:] == [ev.RunInterrupted.TYPE]

    async def test_a_start_outside_the_tail_is_refused_with_all_else(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await linked(ledger, ("a", None), ("b", "a"))
        await begins(ledger, "a", once())
        await refused(Conflict, ledger.append(facts(into("run:b", note(), once()), into("run:c", note()))))
        assert (await ledger.head("run:b"), await ledger.head("run:c")) == (1, 0)

    async def test_a_run_may_begin_again_what_is_its_own(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await linked(ledger, ("a", None), ("b", "a"))
        for _ in range(2):
            assert await begins(ledger, "a", once())
        assert not await begins(ledger, "b", once())

    async def test_only_what_was_certainly_not_done_is_given_back(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        ends = {
            "known": (failing(), True),
            "unknown": (failing(outcome_known=False), False),
            "done": (finishing(), False),
            "useless": (failing(kind=FailureKind.OUTPUT_INVALID), False),
            "not_begun": (failing(outcome_known=True, not_begun=True), True),
            "rescued": (failing(phase="rescue"), True),
            "cut_off": (failing(phase="rescue", not_begun=True), False),
            "rebuilt": (failing(phase="rebuild"), False),
            "other": (failing(step_id="t"), False),
        }
        for name, (end, free) in ends.items():
            await linked(ledger, (name, None), (f"{name}-2", name))
            assert await begins(ledger, name, once())
            await ledger.append(facts(into(run_stream(name), end)))
            assert await begins(ledger, f"{name}-2", once()) is free, name

    async def test_an_attempt_that_was_not_begun_gives_back_only_its_own_claim(
        self, open_ledger: Opener
    ) -> None:
        ledger = await open_ledger()
        await linked(ledger, ("a", None), ("b", "a"))
        await begins(ledger, "a", once())
        useless = failing(kind=FailureKind.OUTPUT_INVALID)
        again = failing(attempt=2, not_begun=True)
        await ledger.append(facts(into("run:a", useless, once(attempt=2), again)))
        assert not await begins(ledger, "b", once())

    async def test_what_was_settled_as_not_done_is_given_back(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await linked(ledger, ("a", None), ("b", "a"))
        await begins(ledger, "a", once())
        for said, outcome, free in (
            ("done", "accepted", False),
            ("not-done", "refused", False),
            ("not-done", "accepted", True),
        ):
            settled = ev.ControlHandled(
                command_id="c",
                action="settle",
                outcome=outcome,
                reason="looked",
                actor="op",
                epoch=1,
                step_id="s",
                argument=said,
            )
            await ledger.append(facts(into("run:a", failing(outcome_known=False), settled)))
            assert await begins(ledger, "b", once()) is free


async def linked(ledger: Ledger, *runs: tuple[str, str | None]) -> None:
    """Each with the run that it reuses."""
    for run_id, parent in runs:
        fact = msgspec.structs.replace(submitted(), reuse_from=parent, parent_run_id=parent)
        await ledger.append(facts(into(run_stream(run_id), fact)))


async def beginning(ledger: Ledger, run_id: str, start: ev.AttemptStarted) -> Append:
    lease = await ledger.claim(run_id, OWNER, 10.0, START) or Lease(run_id, OWNER, 1, 10.0, 0)
    return Append(at=START, streams=(), lease=lease, tail=(into(run_stream(run_id), start),))


async def begins(ledger: Ledger, run_id: str, start: ev.AttemptStarted) -> bool:
    return (await ledger.append(await beginning(ledger, run_id, start))).tail_appended


def once(step_id: str = "s", digest: str = "d", attempt: int = 1) -> ev.AttemptStarted:
    """The start of an attempt that must not be repeated."""
    return ev.AttemptStarted(
        step_id=step_id,
        step_index=0,
        attempt=attempt,
        delivery=1,
        kind="run",
        args_digest=digest,
        pre_state=None,
        workspace=None,
        inline=False,
        once=True,
    )


def finishing(step_id: str = "s") -> ev.AttemptFinished:
    return ev.AttemptFinished(step_id=step_id, step_index=0, attempt=1, verdict="passed", duration_ms=3)


def failing(
    step_id: str = "s",
    attempt: int = 1,
    kind: FailureKind = FailureKind.EXIT_NONZERO,
    *,
    outcome_known: bool = True,
    not_begun: bool = False,
    phase: str = "main",
) -> ev.AttemptFailed:
    return ev.AttemptFailed(
        step_id=step_id,
        step_index=0,
        attempt=attempt,
        failure_kind=kind,
        facts=Facts(kind=kind),
        summary="it broke",
        outcome_known=outcome_known,
        not_begun=not_begun,
        phase=phase,
    )


def healing(step_index: int = 0, attempt: int = 1) -> ev.TargetHealed:
    return ev.TargetHealed(
        step_id=f"s{step_index}",
        step_index=step_index,
        attempt=attempt,
        run_id="r",
        target="the button",
        verified=True,
        confidence=0.9,
        margin=0.4,
        found_by="semantic",
    )


class LedgerSuite(EventRules, GroupRules, LeaseRules, BoxRules, FoldRules, JudgeRules, FamilyRules):
    """All of it."""


async def listed(
    ledger: Ledger, wanted: RunFilter = EVERY_RUN, limit: int = 100, before: Place | None = None
) -> list[str]:
    return [row.run_id for row in (await ledger.runs(wanted, limit=limit, before=before)).rows]


async def assert_cached_rows_equal_a_rebuild(ledger: Ledger) -> None:
    events = [
        event for stream in await ledger.streams() for event in await ledger.read(stream, limit=1_000_000)
    ]
    wanted = rebuild(events)
    runs = sorted((await ledger.runs(limit=10_000)).rows, key=lambda row: row.run_id)
    assert tuple(runs) == wanted.runs
    assert tuple([row for run in runs for row in await ledger.attempts(run.run_id)]) == wanted.attempts
    assert tuple([row for run in runs for row in await ledger.checkpoints(run.run_id)]) == wanted.checkpoints
    for stream in await ledger.streams(workflow_stream("")):
        facts = [(event.at, event.payload) for event in events if event.stream == stream]
        workflow = stream.removeprefix(workflow_stream(""))
        assert await ledger.workflow_state(workflow) == rebuild_workflow(facts)


def random_history(chance: random.Random, length: int) -> Iterable[Append]:
    """Appends to a few runs and workflows. What no driver would write occurs too: folds must not care."""
    runs = [f"run-{number}" for number in range(4)]
    for second, run_id in enumerate(runs):
        yield facts(into(run_stream(run_id), submitted(f"w{second % 2}")), at=START.plus_s(second))
    for second in range(length):
        payloads = [_random_payload(chance) for _ in range(chance.randint(1, 3))]
        results = [
            result(chance.choice(("attempt_failed", "passed", "recovered", "failed")), chance.randint(1, 4))
            for _ in range(chance.randint(0, 5))
        ]
        parts = [into(run_stream(chance.choice(runs)), *payloads), into(f"workflow:w{second % 2}", *results)]
        yield facts(*parts, at=START.plus_s(10 + second))


def _random_payload(chance: random.Random) -> ev.Payload:
    return chance.choice((_random_run_payload, _random_step_payload, _random_step_payload))(chance)


def _random_run_payload(chance: random.Random) -> ev.Payload:
    why, delivery = f"why {chance.randint(1, 9)}", chance.randint(1, 3)
    cls = chance.choice((None, FailureClass.TRANSIENT_RUNTIME, FailureClass.UNKNOWN))
    return chance.choice(
        (
            ev.RunStarted(delivery=delivery, epoch=1, owner=OWNER, policy_digest="q", worker="box-1"),
            ev.RunResumed(delivery=delivery, epoch=2, owner=RIVAL, reason=why, worker="box-2"),
            ev.RunWaiting(reason=why),
            ev.RunBlocked(reason=why),
            ev.RunInterrupted(reason=why, epoch=1),
            ev.RunSucceeded(known_good_prefix_length=1, reason=why),
            ev.RunCancelled(reason=why, actor="op"),
            ev.Escalated(escalation_id="e", reason=why, hint="", failure_class=cls),
            ev.RunFailed(
                reason=why,
                failure_class=cls,
                failure_kind=None,
                retryable=chance.random() < 0.5,
                delivery=delivery,
            ),
            ev.RunDeadLettered(reason=why, failure_class=cls, failure_kind=None, delivery=delivery),
            ev.RunTakenOver(epoch=2, previous_epoch=1, previous_owner=OWNER, reason=why),
        )
    )


def _random_step_payload(chance: random.Random) -> ev.Payload:
    index = chance.randint(0, 3)
    step_id, attempt = f"s{index}", chance.randint(1, 3)
    kind, cls = chance.choice(list(FailureKind)), chance.choice(list(FailureClass))
    diff_hash = chance.choice((None, "d1", "d2"))
    return chance.choice(
        (
            ev.AttemptStarted(
                step_id=step_id,
                step_index=index,
                attempt=attempt,
                strategy=chance.choice((None, "soft_reset")),
                delivery=chance.randint(1, 3),
                kind="run",
                args_digest="a",
                pre_state=None,
                workspace=1,
                inline=False,
                phase=chance.choice(("main", "main", "rescue", "always", "rebuild")),
            ),
            ev.AttemptLaunched(step_id=step_id, step_index=index, attempt=attempt, keeper=OWNER),
            ev.AttemptFinished(
                step_id=step_id,
                step_index=index,
                attempt=attempt,
                diff_hash=diff_hash,
                verdict=chance.choice(("passed", "unverified")),
                duration_ms=3,
            ),
            ev.AttemptFailed(
                step_id=step_id,
                step_index=index,
                attempt=attempt,
                diff_hash=diff_hash,
                failure_class=cls,
                failure_kind=kind,
                failure_signature="sig",
                facts=Facts(kind=kind, exit_code=1),
                summary="it broke",
                outcome_known=True,
            ),
            ev.CheckpointStored(
                step_id=step_id,
                step_index=index,
                attempt=attempt,
                snapshot=Snapshot(tree=f"t{attempt}", manifest="m"),
                workspace=1,
            ),
            ev.StepInvalidated(step_id=step_id, step_index=index, attempt=None, reason="changed"),
            ev.SelfHealTriggered(step_id=step_id, step_index=index, attempt=attempt, delay_ms=1),
            healing(index, attempt),
        )
    )
