"""What every ledger must answer about many runs: lists by filters, counts, histories. `LedgerSuite`'s fixtures."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from recoup.kernel.history import history_of
from recoup.kernel.listing import meets
from recoup.kernel.projection import rebuild
from recoup.model import events as ev
from recoup.model.failure import FailureClass
from recoup.model.ids import run_stream
from recoup.model.run import RunStatus
from recoup.model.storage import Place, RunCount, RunFilter, RunRow, Span
from recoup.ports import Ledger
from recoup.testing.ledger_suite import (
    OWNER,
    START,
    Opener,
    assert_cached_rows_equal_a_rebuild,
    facts,
    failing,
    finishing,
    healing,
    into,
    once,
    submitted,
)

RUNS = 60
SECOND_US = 1_000_000
WORKFLOWS, WORKERS = ("w0", "w1"), ("box-1", "box-2")
CLASSES = (FailureClass.UNKNOWN, FailureClass.TRANSIENT_RUNTIME)


class ListSuite:
    async def test_every_filter_lists_and_counts_what_it_means(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await many(ledger, random.Random(7))
        every = await walked(ledger, RunFilter(), 500)
        assert [row.place for row in every] == sorted((row.place for row in every), reverse=True)
        assert len(every) == RUNS
        for wanted in filters():
            meant = [row for row in every if meets(wanted, row)]
            assert await walked(ledger, wanted, 7) == meant, wanted
            assert await ledger.count_runs(wanted) == RunCount(len(meant), capped=False), wanted
        assert await ledger.tallies() == Counter(row.status for row in every)

    async def test_a_count_ends_at_its_cap(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await ledger.append(facts(*(into(f"run:r{number}", submitted()) for number in range(5))))
        assert await ledger.count_runs(cap=5) == RunCount(5, capped=False)
        assert await ledger.count_runs(cap=4) == RunCount(4, capped=True)
        both = RunFilter(statuses=("queued", "running"), text="R")
        assert await ledger.count_runs(both, cap=4) == RunCount(4, capped=True)

    async def test_a_run_tells_who_drove_it_and_what_went_wrong_last(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        await ledger.append(facts(into("run:r", submitted(), drives("box-1"), fails(retryable=True))))
        (row,) = (await ledger.runs()).rows
        assert (row.failure_class, row.worker, row.ended_at_us) == ("unknown", "box-1", None)
        await ledger.append(facts(into("run:r", drives("box-2"))))
        (row,) = (await ledger.runs(RunFilter(worker="box-2"))).rows
        assert (row.failure_class, row.worker) == (None, "box-2")
        await ledger.append(facts(into("run:r", fails()), at=START.plus_s(3)))
        (row,) = (await ledger.runs(RunFilter(failure_class="unknown"))).rows
        assert row.ended_at_us == START.plus_s(3).wall_us
        assert (await ledger.runs(RunFilter(worker="box-1"))).rows == ()

    async def test_a_history_counts_what_the_rows_say(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        chance = random.Random(5)
        for number in range(12):
            await tried(ledger, chance, f"r{number}", chance.choice(WORKFLOWS))
        streams = await ledger.streams("run:")
        cached = rebuild([event for stream in streams for event in await ledger.read(stream)])
        begin_us = START.wall_us
        for since_s, until_s, bucket_s in ((0, 300, 300), (0, 150, 7), (40, 90, 1), (5_000, 6_000, 100)):
            span = Span(begin_us + since_s * SECOND_US, begin_us + until_s * SECOND_US, bucket_s * SECOND_US)
            for workflow in (None, "w0", "w1", "none"):
                told = await ledger.history(span, workflow)
                assert told == history_of(span, cached, workflow), (span, workflow)
        whole = (await ledger.history(Span(begin_us, begin_us + 300 * SECOND_US, 300 * SECOND_US))).buckets[0]
        assert whole.heals > 0 and whole.recoveries > 0 and sum(whole.ended.values()) > 0
        await assert_cached_rows_equal_a_rebuild(ledger)

    async def test_heals_and_recoveries_are_counted_while_their_run_goes_on(
        self, open_ledger: Opener
    ) -> None:
        ledger = await open_ledger()
        await ledger.append(facts(into("run:r", submitted(), drives("box-1"), once())))
        await ledger.append(facts(into("run:r", failing()), at=START.plus_s(10)))
        await ledger.append(facts(into("run:r", once(attempt=2)), at=START.plus_s(11)))
        passed = ev.AttemptFinished(step_id="s", step_index=0, attempt=2, verdict="passed", duration_ms=3)
        await ledger.append(facts(into("run:r", passed, healing(attempt=2)), at=START.plus_s(14)))
        span = Span(START.wall_us, START.wall_us + 20 * SECOND_US, 5 * SECOND_US)
        told = await (await open_ledger()).history(span)
        assert [(one.recoveries, one.heals) for one in told.buckets] == [(0, 0), (0, 0), (1, 1), (0, 0)]
        assert (told.buckets[2].recovery_p50_s, told.buckets[2].recovery_p95_s) == (4.0, 4.0)
        assert told.whole_since_us == span.since_us

    async def test_a_step_that_is_only_done_again_has_not_recovered(self, open_ledger: Opener) -> None:
        ledger = await open_ledger()
        beside = [begun_in(2, "always"), finished(2, "always")]
        await ledger.append(
            facts(into("run:a", submitted(), once(), finishing(), once(attempt=2), finished(2)))
        )
        await ledger.append(facts(into("run:b", submitted(), once(), failing(), *beside, fails())))
        span = Span(START.wall_us, START.wall_us + SECOND_US, SECOND_US)
        assert (await ledger.history(span)).buckets[0].recoveries == 0


async def tried(ledger: Ledger, chance: random.Random, run_id: str, workflow: str) -> None:
    """A run whose steps fail, recover, are healed and done again, within two minutes; it ends or does not."""
    stream, now = run_stream(run_id), START
    await ledger.append(facts(into(stream, submitted(workflow)), at=now))
    for attempt in range(1, 6):
        phase = chance.choice(("main", "main", "main", "rescue", "always", "rebuild"))
        ends = (failing(attempt=attempt, phase=phase), finished(attempt, phase))
        healed = (healing(attempt=attempt),) if chance.random() < 0.3 else ()
        for told in ((begun_in(attempt, phase),), (chance.choice(ends), *healed)):
            now = now.plus_s(chance.uniform(0, 12))
            await ledger.append(facts(into(stream, *told), at=now))
    done = ev.RunSucceeded(known_good_prefix_length=1, reason="done")
    for end in chance.choice(((), (done,), (fails(),), (fails(retryable=True),))):
        await ledger.append(facts(into(stream, end), at=now))


async def many(ledger: Ledger, chance: random.Random) -> None:
    """Runs of all kinds; some were submitted at the same time."""
    for number in range(RUNS):
        told: list[ev.Payload] = [submitted(chance.choice(WORKFLOWS))]
        if chance.random() < 0.8:
            told.append(drives(chance.choice((*WORKERS, None))))
        ends: Sequence[ev.Payload | None] = (
            None,
            ev.RunSucceeded(known_good_prefix_length=0, reason="Done at last"),
            ev.RunWaiting(reason="gate ÄÖ"),
            fails(chance.choice(CLASSES)),
            fails(chance.choice(CLASSES), retryable=True),
            ev.RunDeadLettered(
                reason="no", failure_class=chance.choice(CLASSES), failure_kind=None, delivery=3
            ),
            ev.Escalated(escalation_id=f"e{number}", reason="decide", hint="", failure_class=CLASSES[0]),
        )
        end = chance.choice(ends)
        told += [] if end is None else [end]
        at = START.plus_s(chance.randrange(RUNS // 2))
        await ledger.append(facts(into(run_stream(f"Run-{number:02}"), *told), at=at))


def filters() -> Iterator[RunFilter]:
    """Each thing alone, and many of them together."""
    times = (START.plus_s(10).wall_us, START.plus_s(20).wall_us)
    chance = random.Random(3)
    said: dict[str, tuple[object, ...]] = {
        "workflow": (*WORKFLOWS, "none"),
        "statuses": (("succeeded",), ("failed", "escalated", "failed"), tuple(RunStatus), ("running",)),
        "failure_class": ("unknown", "cooldown"),
        "worker": WORKERS,
        "since_us": times,
        "until_us": times,
        "text": ("RUN-1", "done AT", "W1", "gate ÄÖ", "gate äö", "%", "_"),
    }
    assert tuple(said) == RunFilter.__struct_fields__, "give every filter values to be tried with"
    for name, values in said.items():
        yield from (RunFilter(**{name: value}) for value in values)  # type: ignore[arg-type]
    for _ in range(150):
        names = chance.sample(sorted(said), chance.randint(2, 5))
        yield RunFilter(**{name: chance.choice(said[name]) for name in names})  # type: ignore[arg-type]


async def walked(ledger: Ledger, wanted: RunFilter, limit: int) -> list[RunRow]:
    """Page after page."""
    found: list[RunRow] = []
    before: Place | None = None
    while True:
        page = await ledger.runs(wanted, limit=limit, before=before)
        found += page.rows
        if page.behind is None:
            return found
        before = page.behind


def drives(worker: str | None) -> ev.RunStarted:
    return ev.RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest="q", worker=worker)


def fails(cls: FailureClass = FailureClass.UNKNOWN, *, retryable: bool = False) -> ev.RunFailed:
    return ev.RunFailed(
        reason="it broke", failure_class=cls, failure_kind=None, retryable=retryable, delivery=1
    )


def begun_in(attempt: int, phase: str) -> ev.AttemptStarted:
    return ev.AttemptStarted(
        step_id="s",
        step_index=0,
        attempt=attempt,
        delivery=1,
        kind="run",
        args_digest="d",
        pre_state=None,
        workspace=None,
        inline=False,
        phase=phase,
    )


def finished(attempt: int, phase: str = "main") -> ev.AttemptFinished:
    return ev.AttemptFinished(
        step_id="s", step_index=0, attempt=attempt, verdict="passed", duration_ms=3, phase=phase
    )
