"""What a workflow has learned, as people see it: versions, differences, and a person's word."""

from __future__ import annotations

import pytest
from tests.integration.test_browsing import CONFIRM, PLAN, TOTAL, browser, facts, site
from tests.integration.test_learning import LEARNED, found_by, house, teach

from recoup.errors import NotFound, UsageError
from recoup.memories import Memories
from recoup.model import events as ev
from recoup.model.ids import workflow_stream
from recoup.model.memory import COMPONENTS
from recoup.model.policy import Policy
from recoup.model.target import Element
from recoup.testing.browser import Guess
from recoup.testing.house import House

__all__ = ["house"]
AGREE = Element(tag="button", role="button", name="Agree", text="Agree to it", id="g1")


def memories(house: House) -> Memories:
    return Memories(house.ledger, house.redactor, house.clock)


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
    differs = await memories(house).diff("workflow", good, None)
    assert [(one.kind, one.element) for one in differs] == [("added", "button 'Agree'")]
    back = await memories(house).rollback("workflow", None, "ann", "the wrong button")
    assert (back.to_version, back.by, back.reason) == (good, "ann", "the wrong button")
    assert not await memories(house).diff("workflow", good, None)
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
