"""What every ledger must do when runs are forgotten. `LedgerSuite`'s fixtures, in a class of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from recoup.errors import Conflict, LeaseLost
from recoup.model import events as ev
from recoup.model.ids import LEDGER_STREAM, key_stream, run_stream
from recoup.model.instant import Instant
from recoup.model.storage import Append, Control, Escalation, StreamAppend
from recoup.model.workspace import Snapshot
from recoup.ports import Ledger
from recoup.testing.ledger_suite import (
    OWNER,
    RIVAL,
    START,
    Opener,
    Passing,
    assert_cached_rows_equal_a_rebuild,
    begins,
    claimed,
    control,
    draft,
    facts,
    failing,
    finishing,
    into,
    linked,
    note,
    once,
    refused,
    result,
    seal,
    submitted,
)
from recoup.testing.worker_suite import begun, gave_up

LATER = START.plus_s(86_400)
DONE = ev.RunSucceeded(reason="done", known_good_prefix_length=1)
PRUNED = draft(ev.LedgerPruned(before_us=LATER.wall_us))


async def over(ledger: Ledger, *run_ids: str, at: Instant = START, end: ev.Payload = DONE) -> None:
    """Submitted, driven, ended and given back."""
    for run_id in run_ids:
        await ledger.append(facts(into(run_stream(run_id), submitted()), at=at))
        lease = await ledger.claim(run_id, OWNER, 10.0, at)
        assert lease is not None
        steps = (once(digest=run_id), finishing())
        await ledger.append(facts(into(run_stream(run_id), begun(), *steps, end), at=at, lease=lease))
        await ledger.release(lease)


async def ended(ledger: Ledger, before: Instant = LATER) -> list[str]:
    return [run.run_id for run in await ledger.ended(before.wall_us)]


async def forget(ledger: Ledger, *run_ids: str, before: Instant = LATER) -> list[str]:
    return await ledger.forget(run_ids, before.wall_us, LATER, PRUNED)


async def under_key(ledger: Ledger, run_id: str, key: str = "k", end: ev.Payload = DONE) -> None:
    taken = into(key_stream(key), ev.SubmissionKeyTaken(run_id=run_id), expected_seq=0)
    await ledger.append(facts(into(run_stream(run_id), submitted(), expected_seq=0), taken))
    await ledger.append(facts(into(run_stream(run_id), begun(), end)))


async def is_known(ledger: Ledger, run_id: str) -> bool:
    return bool(await ledger.head(run_stream(run_id)))


class PruneSuite:
    """Runs that ended long ago, and what must stay."""

    async def test_a_run_is_forgotten_with_all_that_belongs_to_it(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await over(ledger, "old", "other")
        stored = ev.CheckpointStored(
            step_id="s", step_index=0, attempt=1, snapshot=Snapshot(tree="t", manifest="m"), workspace=1
        )
        await ledger.append(facts(into("run:old", stored), into("workflow:w", result("passed"))))
        escalation = Escalation("e", "run:old", "look", seal({"x": 1}))
        await ledger.append(
            Append(at=START, streams=(StreamAppend("policy", (draft(note()),)),), escalations=(escalation,))
        )
        said = ev.EscalationResolved(escalation_id="e", by="ada", reason="done")
        await ledger.append(facts(into("escalation:e", said)))
        await ledger.send_control(control(1, "old"))
        before = await ledger.workflow_state("w")
        assert await forget(ledger, "old") == ["old"]
        assert await ledger.read("run:old") == []
        assert await ledger.streams() == [LEDGER_STREAM, "policy", "run:other", "workflow:w"]
        assert [row.run_id for row in (await ledger.runs()).rows] == ["other"]
        assert await ledger.find_runs("old") == []
        assert await ledger.attempts("old") == []
        assert await ledger.checkpoints("old") == []
        assert await ledger.lease("old") is None
        assert await ledger.control("c1") is None
        assert await ledger.inbox() == []
        assert await ledger.workflow_state("w") == before
        assert len(await ledger.attempts("other")) == 1
        await assert_cached_rows_equal_a_rebuild(ledger)
        await assert_cached_rows_equal_a_rebuild(await open_ledger())

    async def test_what_is_not_over_is_kept(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        ends: dict[str, ev.Payload] = {
            "succeeded": DONE,
            "failed": gave_up(retryable=False),
            "cancelled": ev.RunCancelled(reason="no", actor="op"),
            "dead": ev.RunDeadLettered(reason="no", failure_class=None, failure_kind=None, delivery=3),
        }
        kept: dict[str, ev.Payload] = {
            "again": gave_up(retryable=True),
            "gate": ev.RunWaiting(reason="may it?", waiting_for="approval"),
            "blocked": ev.RunBlocked(reason="quarantined"),
            "escalated": ev.Escalated(escalation_id="e", reason="look", hint="look"),
            "running": note(),
        }
        for run_id, end in (ends | kept).items():
            await over(ledger, run_id, end=end)
        await ledger.append(facts(into("run:queued", submitted())))
        assert await ended(ledger) == sorted(ends)
        everything = [*ends, *kept, "queued"]
        assert sorted(await forget(ledger, *everything)) == sorted(ends)
        assert sorted(row.run_id for row in (await ledger.runs()).rows) == sorted([*kept, "queued"])
        await assert_cached_rows_equal_a_rebuild(ledger)

    async def test_the_last_event_says_how_old_a_run_is(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await over(ledger, "old")
        await over(ledger, "young", at=LATER)
        await over(ledger, "touched")
        await ledger.append(facts(into("run:touched", note()), at=LATER))
        assert await ended(ledger) == ["old"]
        assert await forget(ledger, "old", "young", "touched") == ["old"]
        assert await ended(ledger, LATER.plus_s(1)) == ["touched", "young"]

    async def test_what_is_held_is_kept_until_the_lease_runs_out(
        self, open_ledger: Opener, pass_time: Passing
    ) -> None:
        ledger = await open_ledger()
        await over(ledger, "r")
        assert await ledger.claim("r", RIVAL, 10.0, LATER) is not None
        assert await ended(ledger) == []
        assert await forget(ledger, "r") == []
        await pass_time(11)
        assert await forget(ledger, "r", before=LATER.plus_s(11)) == ["r"]

    async def test_a_family_goes_as_a_whole_or_stays(self, open_ledger: Opener, pass_time: Passing) -> None:
        ledger = await open_ledger()
        await linked(ledger, ("a", None), ("b", "a"), ("c", "b"))
        assert await begins(ledger, "a", once())
        for run_id in ("a", "b"):
            await ledger.append(facts(into(run_stream(run_id), begun(), DONE)))
        await pass_time(60)
        assert await forget(ledger, "a", "b") == [], "c may still run"
        assert not await begins(ledger, "c", once()), "what a has begun is known"
        await ledger.append(facts(into("run:c", DONE)))
        await pass_time(60)
        assert await forget(ledger, "b") == ["b"]
        assert [await is_known(ledger, run_id) for run_id in "abc"] == [False] * 3
        assert await ledger.family("c") == ["c"]
        await linked(ledger, ("a", None), ("d", "a"))
        assert await begins(ledger, "d", once()), "nothing is left of what was claimed"

    async def test_the_members_of_a_family_are_due_together(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await linked(ledger, ("a", None), ("b", "a"), ("c", "a"), ("d", None))
        for run_id in ("a", "b", "d"):
            await ledger.append(facts(into(run_stream(run_id), DONE)))
        assert await ended(ledger) == ["d"]
        await ledger.append(facts(into("run:c", DONE), at=LATER))
        assert await ended(ledger) == ["d"], "one of them is young"
        assert await ended(ledger, LATER.plus_s(1)) == ["a", "b", "c", "d"]

    async def test_pages_go_on_behind_the_last_id(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        for number in range(7):
            await linked(ledger, (f"r{number}", None), (f"s{number}", f"r{number}"))
            done = [f"r{number}", f"s{number}"] if number % 3 else [f"r{number}"]
            for run_id in done:
                await ledger.append(facts(into(run_stream(run_id), DONE)))
        found: list[str] = []
        while page := await ledger.ended(LATER.wall_us, found[-1] if found else "", 2):
            assert len(page) <= 2
            found += [run.run_id for run in page]
        assert found == [f"{letter}{number}" for letter in "rs" for number in (1, 2, 4, 5)]
        assert [run.events for run in await ledger.ended(LATER.wall_us, limit=1)] == [2]

    async def test_a_key_of_a_forgotten_run_may_be_used_again(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await under_key(ledger, "a")
        await under_key(ledger, "b", "other")
        await refused(Conflict, under_key(ledger, "c"))
        await forget(ledger, "a")
        await under_key(ledger, "c")
        assert [event.payload for event in await ledger.read(key_stream("k"))] == [
            ev.SubmissionKeyTaken(run_id="c")
        ]
        assert await ledger.head(key_stream("other")) == 1

    async def test_the_event_behind_a_first_event_may_be_anybodys(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await ledger.append(
            facts(into("run:a", submitted()), into(key_stream("b"), ev.SubmissionKeyTaken(run_id="b")))
        )
        await ledger.append(facts(into("run:a", DONE)))
        assert await forget(ledger, "a") == ["a"]
        assert await ledger.head(key_stream("b")) == 1

    async def test_nobody_goes_on_from_a_forgotten_run(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await over(ledger, "a")
        await forget(ledger, "a")
        await refused(Conflict, linked(ledger, ("b", "a")))
        assert not await is_known(ledger, "b")
        assert await ledger.find_runs("b") == []

    async def test_no_number_is_given_twice_and_what_remains_keeps_its_own(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await over(ledger, "a", "b")
        before = await ledger.arrivals()
        assert await forget(ledger, "b") == ["b"]
        between = await ledger.arrivals()
        assert [one for one in between if one.type != "ledger.pruned"] == [
            one for one in before if one.stream != "run:b"
        ]
        assert await forget(ledger, "a") == ["a"]
        assert [one.type for one in await ledger.arrivals(before[-1].number)] == ["ledger.pruned"] * 2
        await (await open_ledger()).append(facts(into("run:c", submitted())))
        seen = [*before, *between, *await ledger.arrivals()]
        by_number = {one.number: (one.stream, one.seq) for one in seen}
        assert all(by_number[one.number] == (one.stream, one.seq) for one in seen)
        assert [one.stream for one in await ledger.arrivals()] == [LEDGER_STREAM, LEDGER_STREAM, "run:c"]

    async def test_to_forget_again_changes_nothing(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await over(ledger, "a")
        for _ in range(3):
            assert await forget(ledger, "a", "never") == ["a", "never"]
        assert await ledger.head(LEDGER_STREAM) == 1, "nothing was noted where nothing was done"

    async def test_a_driver_that_was_lost_learns_that_its_run_is_gone(self, open_ledger: Opener) -> None:
        ledger, other = await open_ledger(), await open_ledger()
        await ledger.append(facts(into("run:r", submitted())))
        lease = await claimed(ledger)
        await ledger.append(facts(into("run:r", begun()), lease=lease))
        rival = await other.claim("r", RIVAL, 10.0, START, lease.epoch)
        assert rival is not None
        await other.append(facts(into("run:r", DONE), lease=rival))
        await other.release(rival)
        assert await forget(other, "r") == ["r"]
        await refused(LeaseLost, ledger.append(facts(into("run:r", note()), lease=lease)))
        await refused(LeaseLost, ledger.renew(lease, LATER))
        assert not await is_known(ledger, "r")

    async def test_a_process_that_remembers_a_run_writes_nothing_into_its_old_place(
        self, open_ledger: Opener
    ) -> None:
        ledger, other = await open_ledger(), await open_ledger()
        await over(ledger, "r")
        await ledger.append(facts(into("run:r", note())))
        await forget(other, "r")
        (position,) = (await ledger.append(facts(into("run:r", note())))).positions
        assert position.seq == 1
        assert [event.seq for event in await other.read("run:r")] == [1]

    async def test_the_others_go_on_while_runs_are_forgotten(self, open_ledger: Opener) -> None:
        ledgers = [await open_ledger() for _ in range(3)]
        names = [f"old{number:02}" for number in range(30)]
        await over(ledgers[0], *names)
        await linked(ledgers[0], *((f"new{number:02}", f"old{number:02}") for number in range(0, 30, 3)))
        gone: list[str] = []

        async def prunes(ledger: Ledger, run_ids: Sequence[str]) -> None:
            for place in range(0, len(run_ids), 4):
                gone.extend(await forget(ledger, *run_ids[place : place + 4]))

        async def appends(ledger: Ledger, run_id: str) -> None:
            await ledger.append(facts(into(run_stream(run_id), submitted())))
            lease = await claimed(ledger, run_id)
            for _ in range(20):
                parts = (into(run_stream(run_id), note()), into("workflow:w", result("passed")))
                await ledger.append(facts(*parts, lease=lease))
            await ledger.release(lease)

        async def reuses(ledger: Ledger, parent: str) -> bool:
            try:
                await linked(ledger, (f"heir-{parent}", parent))
            except Conflict:
                return False
            return True

        async def claims(ledger: Ledger, run_id: str) -> None:
            lease = await ledger.claim(run_id, RIVAL, 10.0, LATER)
            if lease is not None:
                await ledger.release(lease)

        heirs = [reuses(ledgers[2], name) for name in names[1::3]]
        driving = [appends(ledgers[1], "live1"), appends(ledgers[2], "live2")]
        pruning = [prunes(ledgers[0], names), prunes(ledgers[1], names[::-1])]
        _, reused, *_ = await asyncio.gather(
            asyncio.gather(*driving),
            asyncio.gather(*heirs),
            asyncio.gather(*pruning),
            asyncio.gather(*(claims(ledgers[2], name) for name in names[2::3])),
        )
        for run_id in ("live1", "live2"):
            assert await ledgers[0].head(run_stream(run_id)) == 21
        known = {name for name in names if await is_known(ledgers[0], name)}
        assert known == set(names) - set(gone)
        assert set(names[0::3]) <= known, "their heirs may still run"
        for parent, accepted in zip(names[1::3], reused, strict=True):
            assert accepted == (parent in known), "either there is an heir, or the run is gone"
        await assert_cached_rows_equal_a_rebuild(ledgers[0])

    async def test_what_waits_in_the_inbox_of_a_forgotten_run_is_not_found_by_others(
        self, open_ledger: Opener
    ) -> None:
        ledger = await open_ledger()
        await over(ledger, "a", "b")
        for number, run_id in enumerate(("a", "b")):
            await ledger.send_control(control(number, run_id))
        await forget(ledger, "a")
        assert await ledger.pending_controls("a") == []
        waiting: list[Control] = await ledger.pending_controls("b")
        assert [one.id for one in waiting] == ["c1"]

    async def test_a_failure_in_the_family_counts_like_any_other_end(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await linked(ledger, ("a", None), ("b", "a"))
        await ledger.append(facts(into("run:a", begun(), failing(), gave_up(retryable=False))))
        await ledger.append(facts(into("run:b", begun(), DONE)))
        assert sorted(await forget(ledger, "a", "b")) == ["a", "b"]
