"""What every ledger must do for workers. `LedgerSuite`'s fixtures, in a class of its own."""

from __future__ import annotations

import asyncio

import msgspec

from recoup.kernel.backoff import delivery_backoff_s
from recoup.kernel.projection import rebuild
from recoup.model import events as ev
from recoup.model.ids import ProcessIdentity, run_stream
from recoup.model.storage import Crowd, Wanting, WorkerRow
from recoup.ports import Ledger
from recoup.testing.ledger_suite import (
    BOOT,
    OWNER,
    RIVAL,
    START,
    Opener,
    Passing,
    claimed,
    facts,
    into,
    submitted,
)


async def queued(ledger: Ledger, run_id: str, workflow: str = "w", queue: str = "q", **more: object) -> None:
    fact = msgspec.structs.replace(submitted(workflow), queue=queue, **more)
    await ledger.append(facts(into(run_stream(run_id), fact)))


async def tells(ledger: Ledger, run_id: str, *payloads: ev.Payload) -> None:
    await ledger.append(facts(into(run_stream(run_id), *payloads)))


def begun(delivery: int = 1) -> ev.RunStarted:
    return ev.RunStarted(delivery=delivery, epoch=1, owner=OWNER, policy_digest="q")


def gave_up(*, retryable: bool, delivery: int = 1) -> ev.RunFailed:
    return ev.RunFailed(
        reason="no", failure_class=None, failure_kind=None, retryable=retryable, delivery=delivery
    )


async def wanting(ledger: Ledger) -> list[str]:
    return [run.run_id for run in await ledger.wanting()]


def worker(worker_id: str, **more: object) -> WorkerRow:
    row = WorkerRow(
        worker_id=worker_id,
        identity=OWNER,
        queues=("q",),
        capabilities=("agent",),
        concurrency=4,
        version="1",
        started_at=START,
    )
    return msgspec.structs.replace(row, **more)


class WorkerSuite:
    """Runs that want a driver, crowds, and who is there."""

    async def test_a_run_of_a_queue_wants_a_driver_and_one_of_a_person_does_not(
        self, open_ledger: Opener
    ) -> None:
        ledger = await open_ledger()
        await ledger.append(facts(into(run_stream("mine"), submitted())))
        await queued(ledger, "a", priority=7, needs=("agent", "gpu"), not_before_us=START.wall_us + 5)
        assert await ledger.wanting() == [
            Wanting("a", "w", "q", 7, ("agent", "gpu"), START.wall_us + 5, START.wall_us)
        ]

    async def test_what_ended_or_waits_for_a_person_wants_none(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        ends: dict[str, tuple[ev.Payload, ...]] = {
            "succeeded": (ev.RunSucceeded(reason="done", known_good_prefix_length=0),),
            "failed": (gave_up(retryable=False),),
            "cancelled": (ev.RunCancelled(reason="no", actor="op"),),
            "gate": (ev.RunWaiting(reason="may it?", waiting_for="approval"),),
            "pause": (ev.RunWaiting(reason="paused", waiting_for="operator"),),
            "escalated": (ev.Escalated(escalation_id="e", reason="look", hint="look"),),
        }
        goes_on: dict[str, tuple[ev.Payload, ...]] = {
            "again": (gave_up(retryable=True),),
            "approved": (*ends["gate"], ev.RunWaiting(reason="approved", waiting_for="driver")),
            "blocked": (ev.RunBlocked(reason="quarantined"),),
            "begun": (),
        }
        for name, told in (ends | goes_on).items():
            await queued(ledger, name)
            await tells(ledger, name, begun(), *told)
        assert await wanting(ledger) == sorted(goes_on)

    async def test_a_failed_delivery_is_due_after_its_backoff(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await queued(ledger, "a")
        await tells(ledger, "a", begun(), gave_up(retryable=True, delivery=2))
        (run,) = await ledger.wanting()
        assert run.due_us == START.wall_us + delivery_backoff_s(2) * 1_000_000
        await tells(ledger, "a", begun(3))
        assert (await ledger.wanting())[0].due_us == 0

    async def test_pages_go_on_behind_the_last_id(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        for number in range(5):
            await queued(ledger, f"r{number}")
        first = await ledger.wanting(limit=2)
        rest = await ledger.wanting(first[-1].run_id, 10)
        assert [run.run_id for run in first + rest] == [f"r{number}" for number in range(5)]

    async def test_what_somebody_holds_is_held_and_wants_nobody_else(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        for run_id in ("a", "b"):
            await queued(ledger, run_id)
        lease = await claimed(ledger, "a")
        assert await wanting(ledger) == ["b"]
        (held,) = await ledger.held(START)
        assert (held.run.run_id, held.lease.owner, held.lease.epoch) == ("a", OWNER, lease.epoch)
        assert 8 < held.left_s <= 10
        await ledger.release(lease)
        assert await ledger.held(START) == []
        assert await wanting(ledger) == ["a", "b"]

    async def test_a_lease_that_ran_out_has_nothing_left(
        self, open_ledger: Opener, pass_time: Passing
    ) -> None:
        ledger = await open_ledger()
        await queued(ledger, "a")
        await claimed(ledger, "a")
        await pass_time(11)
        (held,) = await ledger.held(START.plus_s(11))
        assert held.left_s == 0

    async def test_what_is_over_is_not_held(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await queued(ledger, "a")
        await claimed(ledger, "a")
        await tells(ledger, "a", begun(), ev.RunSucceeded(reason="done", known_good_prefix_length=0))
        assert await ledger.held(START) == []

    async def test_a_crowd_is_not_exceeded(self, open_ledger: Opener, pass_time: Passing) -> None:
        ledger = await open_ledger()
        for run_id, workflow, queue in (("a", "w", "q"), ("b", "w", "q"), ("c", "v", "q"), ("d", "w", "p")):
            await queued(ledger, run_id, workflow, queue)
        one_w, two_q = (Crowd("workflow", "w", 1),), (Crowd("queue", "q", 2),)
        first = await ledger.claim("a", OWNER, 10, START, crowds=one_w)
        assert first is not None
        assert await ledger.claim("b", RIVAL, 10, START, crowds=one_w) is None
        assert (await ledger.lease("b")) is None, "a refused claim leaves nothing"
        assert await ledger.claim("c", RIVAL, 10, START, crowds=two_q) is not None
        assert await ledger.claim("b", RIVAL, 10, START, crowds=two_q) is None
        assert await ledger.claim("b", RIVAL, 10, START, crowds=(Crowd("queue", "q", 3),)) is not None
        assert await ledger.claim("d", RIVAL, 10, START, crowds=one_w) is None
        await pass_time(11)
        assert await ledger.claim("d", RIVAL, 10, START.plus_s(11), crowds=one_w) is not None

    async def test_a_run_is_no_crowd_for_itself(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await queued(ledger, "a")
        lease = await ledger.claim("a", OWNER, 10, START, crowds=(Crowd("workflow", "w", 1),))
        assert lease is not None
        again = await ledger.claim("a", RIVAL, 10, START, lease.epoch, (Crowd("workflow", "w", 1),))
        assert again is not None and again.epoch == lease.epoch + 1

    async def test_a_crowd_is_not_exceeded_by_claims_at_the_same_time(self, open_ledger: Opener) -> None:
        ledgers = [await open_ledger() for _ in range(3)]
        for number in range(9):
            await queued(ledgers[0], f"r{number}")
        crowd = (Crowd("workflow", "w", 2),)
        claims = [
            ledgers[number % 3].claim(f"r{number}", OWNER, 10, START, None, crowd) for number in range(9)
        ]
        assert sum(lease is not None for lease in await asyncio.gather(*claims)) == 2

    async def test_one_of_many_gets_a_run(self, open_ledger: Opener) -> None:
        ledgers = [await open_ledger() for _ in range(3)]
        await queued(ledgers[0], "a")
        owners = [ProcessIdentity("here", BOOT, 100 + number, 1) for number in range(6)]
        claims = [ledgers[n % 3].claim("a", owner, 10, START) for n, owner in enumerate(owners)]
        assert sum(lease is not None for lease in await asyncio.gather(*claims)) == 1

    async def test_workers_are_seen_as_they_said_last(self, open_ledger: Opener, pass_time: Passing) -> None:
        ledger, other = await open_ledger(), await open_ledger()
        await ledger.keep_worker(worker("b"), START)
        await ledger.keep_worker(worker("a"), START)
        await pass_time(3)
        await ledger.keep_worker(worker("b", runs=("r1",), draining=True), START.plus_s(3))
        seen = await other.workers(START.plus_s(3))
        assert [one.worker for one in seen] == [worker("a"), worker("b", runs=("r1",), draining=True)]
        assert seen[0].silent_s > 2.5
        assert seen[0].silent_s - seen[1].silent_s > 2.5
        await ledger.forget_worker("a")
        assert [one.worker.worker_id for one in await other.workers(START.plus_s(3))] == ["b"]

    async def test_a_worker_that_was_silent_for_a_day_is_forgotten(
        self, open_ledger: Opener, pass_time: Passing
    ) -> None:
        ledger = await open_ledger()
        await ledger.keep_worker(worker("a"), START)
        await pass_time(90_000)
        later = START.plus_s(90_000)
        await ledger.keep_worker(worker("b", started_at=later), later)
        assert [one.worker.worker_id for one in await ledger.workers(later)] == ["b"]

    async def test_what_wants_a_driver_follows_from_the_events(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await queued(ledger, "a")
        await queued(ledger, "b", priority=3)
        await tells(ledger, "b", begun(), gave_up(retryable=True, delivery=1))
        await queued(ledger, "c")
        await tells(ledger, "c", begun(), ev.RunSucceeded(reason="done", known_good_prefix_length=0))
        events = [event for run_id in "abc" for event in await ledger.read(run_stream(run_id))]
        assert tuple(await ledger.wanting()) == rebuild(events).wanting
