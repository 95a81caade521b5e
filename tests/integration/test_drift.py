"""A shop that drifts, and what nights on it do: the site itself says what was done to which element."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from benchmarks.drift import chart, repairs, right
from benchmarks.drift.nights import (
    ASKED,
    EXACT,
    FORGETTING,
    LEARNING,
    POLICY,
    WORKFLOW,
    Arm,
    Night,
    Nights,
    Recorded,
    go_through,
    nights_of,
    pages_of,
    parts_in,
)
from benchmarks.drift.releases import GONE, PARTS, RELEASES, Release, releases
from tests.integration.browser_house import needs_browser

from recoup.kernel.healing import target_digest
from recoup.kernel.memory import TargetMemory, identity
from recoup.model import events as ev
from recoup.model.ids import targets_stream, workflow_stream
from recoup.model.mode import Mode
from recoup.model.plan import BrowserAction
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.model.target import Element

POISON = 20
TEMPTING = (
    "Search our stores",
    "Newsletter",
    "Search stores",
    "Reset",
    "Compare",
    "Gift note",
    "Cancel order",
)
"""Things on the pages of the shop that no step is about, in every release."""


def test_releases_are_the_same_every_time_and_all_parts_drift() -> None:
    shown = releases()
    assert shown == releases() and len(shown) == RELEASES
    for part in PARTS:
        assert len({release.looks[part.key].words for release in shown}) >= 3
        assert len({release.looks[part.key].id for release in shown}) >= 3
    assert {release.number: release.gone for release in shown if release.gone} == GONE


@needs_browser
async def test_what_was_learned_one_night_helps_the_next(tmp_path: Path) -> None:
    """In the second release a field is renamed; in the third it moves, and has another id."""
    shown = releases()[:3]
    seen = parts_in(shown[0], (await pages_of(shown[:1]))[1])
    learning, forgetting = await asyncio.gather(
        nights_on(LEARNING, shown, seen, tmp_path), nights_on(FORGETTING, shown[2:], seen, tmp_path)
    )
    assert [night.wrong for night in (*learning, *forgetting)] == [()] * 4
    assert [night.done for night in learning] == [True, True, True], [night.why for night in learning]
    assert [night.healed.get("delivery") for night in learning] == [None, "model", "lesson"]
    assert [night.failed_at for night in forgetting] == ["delivery"], "too far from what was recorded"


async def nights_on(arm: Arm, shown: list[Release], seen: Recorded, folder: Path) -> list[Night]:
    async with nights_of(arm, releases()[0], seen, folder) as nights:
        return [await nights.night(release) for release in shown]


@needs_browser
@pytest.mark.soak
@pytest.mark.timeout(1_200)
async def test_over_thirty_releases_nothing_is_healed_wrongly_and_learning_helps(tmp_path: Path) -> None:
    nights = await go_through((LEARNING, FORGETTING, EXACT), releases(), tmp_path)
    learning, forgetting, exact = (nights[arm.name] for arm in (LEARNING, FORGETTING, EXACT))
    assert [night.wrong for some in nights.values() for night in some if night.wrong] == [], chart(nights)
    assert right(learning) > right(forgetting) > right(exact), chart(nights)
    assert repairs(learning) < repairs(forgetting) < repairs(exact), chart(nights)
    missing = [night for night in learning if night.gone]
    assert [night.succeeded for night in missing] == [False] * len(GONE), chart(nights)
    early = [night for night in missing if not night.right]
    assert len(early) <= 1, chart(nights)
    assert all(night.needs_repair for night in early), (
        "it gave up before what was missing, and guessed nothing"
    )


@needs_browser
@pytest.mark.soak
async def test_a_poisoned_memory_is_taken_back_without_a_person(tmp_path: Path) -> None:
    """Twenty wrong entries, and a plan without a recorded description that would contradict them."""
    first, drifted = releases()[0], releases()[6]
    policy = msgspec.structs.replace(
        POLICY,
        page_check_s=1,
        regression_window_steps=6,
        workflow_fail_max_in_window=50,
        workflow_count_min=50,
        step_fail_streak_to_degraded=50,
    )
    seen = (await pages_of([drifted]))[drifted.number]
    wrong = [one for page in seen.values() for one in page if one.id and (one.name or one.text) in TEMPTING]
    async with nights_of(LEARNING, first, {}, tmp_path, policy) as nights:
        await poison(nights, wrong)
        before = [await nights.night(drifted) for _ in range(3)]
        assert any(night.wrong for night in before), "the poison works"
        ledger = nights.house().ledger
        events = [event.payload for event in await ledger.read(targets_stream(WORKFLOW))]
        (back,) = [fact for fact in events if isinstance(fact, ev.MemoryRollback)]
        assert back.to_version == "v000001" and "regression_fail_ratio" in back.reason and not back.by
        assert len(TargetMemory(events=await ledger.read(targets_stream(WORKFLOW)))) == 0
        assert (await ledger.workflow_state(WORKFLOW)).health.mode is Mode.DEGRADED
        assert (await nights.night(drifted)).wrong == (), "nothing leads astray any more"
        assert (await nights.night(first)).done


async def poison(nights: Nights, wrong: list[Element]) -> None:
    """As if each had been proven three times, after a version in which nothing was known."""
    house, facts = nights.house(), []
    version = ev.MemorySnapshot(version="v000001", digest="", entries=0)
    for number in range(POISON):
        key = tuple(ASKED)[number % len(ASKED)]
        facts += _lies(nights, key, wrong[number // len(ASKED) % len(wrong)])
    sealed = [Draft(fact.TYPE, house.redactor.seal(fact), fact) for fact in (version, *facts)]
    streams = (
        StreamAppend(targets_stream(WORKFLOW), tuple(sealed)),
        StreamAppend(workflow_stream(WORKFLOW), tuple(sealed[:1])),
    )
    await house.ledger.append(Append(at=house.clock.now(), streams=streams))
    memory = TargetMemory(events=await house.ledger.read(targets_stream(WORKFLOW)))
    assert len(memory) == POISON


def _lies(nights: Nights, key: str, element: Element) -> list[ev.TargetLearned | ev.TargetHealed]:
    (step,) = [step for step in nights.plan.steps if step.id == key]
    assert isinstance(step.action, BrowserAction) and step.action.target is not None
    about = {
        "step_id": key,
        "step_index": 0,
        "attempt": 1,
        "run_id": "poison",
        "target_digest": target_digest(step.action.target),
        "identity": identity(element),
        "confidence": 0.99,
    }
    learned = ev.TargetLearned(**about, element=element, origin="model")  # type: ignore[arg-type]
    healed = ev.TargetHealed(**about, target="it", verified=True, margin=0.9, found_by="model")  # type: ignore[arg-type]
    return [learned, healed, healed]
