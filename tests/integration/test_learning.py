"""What runs learn from heals that proved right, and what later runs do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.integration.test_browsing import (
    CLICK,
    CONFIRM,
    GO,
    PLAN,
    TOTAL,
    browser,
    facts,
    make_degraded,
    site,
)

from recoup.kernel.healing import target_digest
from recoup.kernel.memory import identity
from recoup.model import events as ev
from recoup.model.ids import run_stream, targets_stream
from recoup.model.plan import BrowserAction, Repeat
from recoup.model.run import RunStatus
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.model.target import Heal
from recoup.testing.browser import Guess, ScriptedBrowser
from recoup.testing.house import House, plan_of

LEARNED = targets_stream("workflow")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    pages = ScriptedBrowser(site(CONFIRM, TOTAL), {"Approve": Guess("Confirm", 0.92)})
    one = House(tmp_path, browser=pages)
    yield one
    await one.ledger.close()


async def found_by(house: House, run_id: str) -> str:
    (healed,) = await facts(house, ev.TargetHealed, run_stream(run_id))
    return str(healed.found_by)


async def test_what_proved_right_twice_is_found_in_memory_the_third_time(house: House) -> None:
    for run_id in ("run-1", "run-2", "run-3", "run-4"):
        assert (await house.run(PLAN, run_id)).status is RunStatus.SUCCEEDED
    ways = [await found_by(house, run_id) for run_id in ("run-1", "run-2", "run-3", "run-4")]
    assert ways == ["model", "model", "memory", "memory"]
    (lesson,) = await facts(house, ev.TargetLearned, LEARNED)
    assert (lesson.element, lesson.origin, lesson.step_id) == (CONFIRM, "model", "approve")
    assert lesson.identity == identity(CONFIRM)


async def test_nothing_is_learned_from_what_was_not_sure_or_not_proven(house: House) -> None:
    browser(house).guesses = {"Approve": Guess("Confirm", 0.89)}
    await house.run(PLAN)
    browser(house).guesses = {"Approve": Guess("Confirm", 0.95)}
    bare = msgspec.structs.replace(CLICK, expect=())
    assert (await house.run(plan_of(GO, bare), "run-2")).heals == 1
    silent = msgspec.structs.replace(PLAN, heal=Heal(learn=False))
    assert (await house.run(silent, "run-3")).heals == 1
    assert not await facts(house, ev.TargetLearned, LEARNED)


async def test_a_degraded_workflow_learns_nothing(house: House) -> None:
    await make_degraded(house)
    assert (await house.run(PLAN)).heals == 1
    assert not await facts(house, ev.TargetLearned, LEARNED)


async def test_memory_that_led_astray_counts_against_itself(house: House) -> None:
    plan = plan_of(GO, msgspec.structs.replace(CLICK, repeat=Repeat.SAFE))
    for run_id in ("run-1", "run-2"):
        await house.run(plan, run_id)
    browser(house).site.clicks = {}
    assert (await house.run(plan, "run-3")).status is not RunStatus.SUCCEEDED
    ways = [one.found_by for one in await facts(house, ev.TargetHealed, run_stream("run-3"))]
    assert ways[0] == "memory" and "memory" not in ways[1:]
    in_stream = await facts(house, ev.TargetHealed, LEARNED)
    assert [(one.found_by, one.verified) for one in in_stream] == [
        ("model", True),
        ("model", True),
        ("memory", False),
    ]


async def test_what_somebody_rejected_is_not_taken_again(house: House) -> None:
    for run_id in ("run-1", "run-2"):
        await house.run(PLAN, run_id)
    assert isinstance(CLICK.action, BrowserAction) and CLICK.action.target is not None
    no = ev.TargetRejected(
        step_id="approve",
        step_index=2,
        attempt=None,
        run_id="run-1",
        target="it",
        reason="that is another button",
        target_digest=target_digest(CLICK.action.target),
        identity=identity(CONFIRM),
        by="ann",
    )
    part = StreamAppend(LEARNED, (Draft(no.TYPE, house.redactor.seal(no)),))
    await house.ledger.append(Append(at=house.clock.now(), streams=(part,)))
    done = len(browser(house).done)
    assert (await house.run(PLAN, "run-3")).status is RunStatus.FAILED
    (first, *_) = await facts(house, ev.TargetRejected, run_stream("run-3"))
    assert "somebody rejected it" in first.reason
    assert ("click", "Confirm") not in browser(house).done[done:]
