"""What a workflow has learned, as people see it: versions, differences, and a person's word."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from tests.integration.test_browsing import CONFIRM, PLAN, TOTAL, browser, facts, site
from tests.integration.test_learning import LEARNED, found_by, house, teach

from recoup.errors import Conflict, LedgerBusy, NotFound, UsageError
from recoup.model import events as ev
from recoup.model.ids import key_stream, targets_stream, workflow_stream
from recoup.model.memory import COMPONENTS
from recoup.model.policy import Policy
from recoup.model.storage import Append, Appended, Draft, StreamAppend
from recoup.model.target import Element
from recoup.operations.memory import Memories
from recoup.ports import Ledger
from recoup.testing.browser import Guess
from recoup.testing.house import House

__all__ = ["house"]
AGREE = Element(tag="button", role="button", name="Agree", text="Agree to it", id="g1")


def memories(house: House) -> Memories:
    return Memories(house.ledger, house.redactor, house.clock)


class Meanwhile:
    """The house's ledger; somebody else does this just before our next append."""

    def __init__(self, house: House, deed: Callable[[], Awaitable[object]], times: int = 1) -> None:
        self._house = house
        self._deed = deed
        self._left = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._house.ledger, name)

    async def append(self, batch: Append) -> Appended:
        if self._left:
            self._left -= 1
            await self._deed()
        return await self._house.ledger.append(batch)

    def memories(self) -> Memories:
        return Memories(cast(Ledger, self), self._house.redactor, self._house.clock)


async def use_it(house: House) -> None:
    """A run tells how it went with what was learned: that changes no version."""
    told = ev.TargetTimed(
        run_id="run-2", step_id="pay", step_index=0, attempt=1, target_digest="t", took_ms=5
    )
    part = StreamAppend(targets_stream("workflow"), (Draft(told.TYPE, house.redactor.seal(told)),))
    await house.ledger.append(Append(at=house.clock.now(), streams=(part,)))


async def learn_another(house: House) -> None:
    """The page changes once more, and what is taken for the same target is another element."""
    pages = browser(house)
    pages.site.pages = site(AGREE, TOTAL).pages
    pages.site.clicks = {**pages.site.clicks, "Agree": next(iter(pages.site.clicks.values()))}
    pages.guesses = {"Approve": Guess("Agree", 0.95)}
    await teach(house, "run-3", "run-4")


async def test_versions_say_what_was_known_and_how_it_went(house: House) -> None:
    await teach(house, "run-1", "run-2")
    (first,) = (await memories(house).of("workflow")).versions()
    assert (first.version_id, first.entries, first.current) == ("v000001", 0, True)
    assert first.workflow_id == "workflow" and set(first.components_versioned) == set(COMPONENTS)
    assert first.success_rate_before is not None and first.success_rate_after == 1.0
    made = await memories(house).snapshot("workflow", Policy(), "ann", "all is well")
    assert made == "v000002"
    newest, _ = (await memories(house).of("workflow")).versions()
    assert newest.entries == 1 and newest.current


async def test_what_differs_is_told_and_taken_back_as_a_whole(house: House) -> None:
    await teach(house, "run-1", "run-2")
    good = await memories(house).snapshot("workflow", Policy(), "ann", "")
    await learn_another(house)
    differs = (await memories(house).of("workflow")).diff(good, None)
    assert [(one.kind, one.element) for one in differs] == [("added", "button 'Agree'")]
    back = await memories(house).rollback("workflow", None, "ann", "the wrong button")
    assert (back.to_version, back.by, back.reason) == (good, "ann", "the wrong button")
    assert not (await memories(house).of("workflow")).diff(good, None)
    assert await facts(house, ev.MemoryRollback, workflow_stream("workflow")) == [back]
    browser(house).site.pages = site(CONFIRM, TOTAL).pages
    await house.run(PLAN, "run-9")
    assert await found_by(house, "run-9") == "memory", "what was known before still is"


async def test_one_goes_back_step_by_step_until_there_is_nothing(house: House) -> None:
    await teach(house, "run-1", "run-2")
    await memories(house).snapshot("workflow", Policy(), "ann", "")
    assert (await memories(house).rollback("workflow", None, "ann", "back")).to_version == "v000001"
    with pytest.raises(NotFound, match="nothing to go back to"):
        await memories(house).rollback("workflow", None, "ann", "back")
    with pytest.raises(NotFound, match="no version 'v000009'"):
        await memories(house).rollback("workflow", "v000009", "ann", "back")
    with pytest.raises(UsageError, match="nothing was learned since"):
        await memories(house).rollback("workflow", "v000001", "ann", "back")
    assert len(await facts(house, ev.MemoryRollback, LEARNED)) == 1


async def test_another_workflow_is_left_alone(house: House) -> None:
    await teach(house, "run-1", "run-2")
    with pytest.raises(NotFound):
        await memories(house).rollback("another", None, "ann", "back")
    assert len((await memories(house).of("workflow")).memory) == 1


async def test_two_who_undo_the_last_lessons_at_once_undo_them_once(house: House) -> None:
    await teach(house, "run-1", "run-2")
    await memories(house).snapshot("workflow", Policy(), "ann", "")
    await learn_another(house)
    await memories(house).snapshot("workflow", Policy(), "ann", "")
    late = Meanwhile(house, lambda: memories(house).rollback("workflow", None, "ann", "the wrong button"))
    with pytest.raises(UsageError, match="came from v000003 to v000002 meanwhile") as refused:
        await late.memories().rollback("workflow", None, "bob", "the wrong button")
    assert "recoup memory versions workflow" in refused.value.what_to_do
    (back,) = await facts(house, ev.MemoryRollback, LEARNED)
    assert (back.by, back.to_version) == ("ann", "v000002")


async def test_two_who_go_back_to_the_same_version_at_once_are_told_of_each_other(house: House) -> None:
    await teach(house, "run-1", "run-2")
    late = Meanwhile(house, lambda: memories(house).rollback("workflow", "v000001", "ann", "back"))
    with pytest.raises(UsageError, match="nothing was learned since"):
        await late.memories().rollback("workflow", "v000001", "bob", "back")
    assert len(await facts(house, ev.MemoryRollback, LEARNED)) == 1


async def test_what_runs_tell_meanwhile_keeps_nobody_from_going_back(house: House) -> None:
    await teach(house, "run-1", "run-2")
    late = Meanwhile(house, lambda: use_it(house), times=3)
    assert (await late.memories().rollback("workflow", None, "ann", "back")).to_version == "v000001"
    assert len(await facts(house, ev.MemoryRollback, LEARNED)) == 1


async def test_who_never_finds_a_turn_is_told_so(house: House) -> None:
    await teach(house, "run-1", "run-2")
    late = Meanwhile(house, lambda: use_it(house), times=1_000)
    with pytest.raises(LedgerBusy, match="all the time"):
        await late.memories().rollback("workflow", None, "ann", "back")
    with pytest.raises(LedgerBusy, match="all the time"):
        await late.memories().snapshot("workflow", Policy(), "ann", "")
    assert not await facts(house, ev.MemoryRollback, LEARNED)


async def test_what_was_told_before_what_is_beside_it_is_left_to_who_told_it(house: House) -> None:
    await teach(house, "run-1", "run-2")
    told = ev.SubmissionKeyTaken(run_id="run-1")
    note = StreamAppend(key_stream("k"), (Draft(told.TYPE, house.redactor.seal(told)),), 7)
    with pytest.raises(Conflict, match="ends at 0, not at 7"):
        await memories(house).rollback("workflow", None, "ann", "back", "ref", (note,))
    assert not await facts(house, ev.MemoryRollback, LEARNED)


async def test_two_snapshots_at_once_are_two_versions(house: House) -> None:
    await teach(house, "run-1", "run-2")
    late = Meanwhile(house, lambda: memories(house).snapshot("workflow", Policy(), "ann", "first"))
    assert await late.memories().snapshot("workflow", Policy(), "bob", "second") == "v000003"
    found = (await memories(house).of("workflow")).versions()
    assert [one.version_id for one in found] == ["v000003", "v000002", "v000001"]
