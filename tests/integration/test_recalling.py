"""What was learned, from the last version at hand and what the ledger said since; and what a screen tells."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.integration.test_browsing import CLICK, CONFIRM, GO, HOME, PLAN, TOTAL, browser, facts, site
from tests.integration.test_learning import LEARNED, found_by, teach

from recoup.kernel.memory import TargetMemory
from recoup.learning.recall import Recall
from recoup.learning.screens import screen_of
from recoup.learning.store import VersionedStore
from recoup.model import events as ev
from recoup.model.failure import FailureKind
from recoup.model.ids import run_stream, workflow_stream
from recoup.model.memory import Entry, Kept, State
from recoup.model.mode import Mode
from recoup.model.plan import BrowserVerb, PageTextCheck, TextMatch
from recoup.model.policy import Policy
from recoup.model.run import RunStatus
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.model.target import Box, Element
from recoup.steps.browser import recall as recalling
from recoup.steps.browser.recall import Recalled, recall
from recoup.testing.browser import Guess, ScriptedBrowser, ScriptedPage
from recoup.testing.house import House, plan_of

HOVER = BrowserVerb.HOVER
NAMES = ("Export", "Archive", "Filter", "Print", "Duplicate", "Send reminder", "Show history", "Close")
MENU = tuple(
    Element(tag="button", role="button", name=name, text=name, box=Box(10, 40 * at, 80, 20))
    for at, name in enumerate(NAMES)
)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    one = House(tmp_path, browser=pages())
    yield one
    await one.ledger.close()


def pages() -> ScriptedBrowser:
    return ScriptedBrowser(site(CONFIRM, TOTAL, *MENU), {"Approve": Guess("Confirm", 0.92)}, screen_of)


async def recalled(house: House, policy: Policy | None = None) -> Recalled:
    return await recall(house.ledger, house.recalls, "workflow", house.clock, policy or Policy())


def stored(house: House) -> VersionedStore:
    return VersionedStore(house.root / "learned")


async def told(house: House, *payloads: ev.Payload) -> None:
    drafts = tuple(Draft(one.TYPE, house.redactor.seal(one)) for one in payloads)
    await house.ledger.append(Append(at=house.clock.now(), streams=(StreamAppend(LEARNED, drafts),)))


async def test_a_driver_begins_with_the_version_at_hand_and_reads_only_what_came_after_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await teach(house, "run-1", "run-2", "run-3")
    whole = TargetMemory(events=await house.ledger.read(LEARNED)).state
    (info,) = stored(house).list_versions("workflow")
    assert (info.version_id, info.current, info.trouble) == ("v000001", True, "")
    assert set(info.components_versioned) == {"memory", "targets", "index", "prototypes"}
    read: list[int] = []
    ledger_read = house.ledger.read

    async def reading(stream: str, after: int = 0, limit: int = 10_000) -> list[ev.Event]:
        read.append(after)
        return await ledger_read(stream, after, limit)

    monkeypatch.setattr(house.ledger, "read", reading)
    found = await recalled(house)
    assert found.memory.state == whole and not found.trouble
    assert min(read) == info.up_to > 0, "nothing before it is read again"


async def test_a_version_from_before_what_is_read_can_still_be_gone_back_to(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await teach(house, "run-1", "run-2")
    memory = (await recalled(house)).memory
    lesson = next(iter(memory.state.entries.values()))
    wrong = Element(tag="a", text="Wrong", href="/w")
    await told(house, _snapshot(memory, "v000002"))
    await recalled(house)
    await told(
        house,
        _lesson(lesson, wrong),
        *[_healed(lesson, wrong)] * 30,
        ev.MemoryRollback(from_version="v000002", to_version="v000002", reason="worse"),
    )
    monkeypatch.setattr(recalling, "EVENTS_MAX", 5)
    back = (await recalled(house)).memory
    assert list(back.state.entries.values()) == [lesson], "the wrong one is gone, and nothing else"
    assert back.version_name == "v000002"


async def test_versions_of_another_ledger_are_forgotten(house: House, tmp_path: Path) -> None:
    await teach(house, "run-1", "run-2", "run-3")
    assert stored(house).list_versions("workflow")
    other = House(tmp_path / "other", browser=pages())
    (tmp_path / "learned").rename(tmp_path / "other" / "learned")
    found = await recalled(other)
    assert len(found.memory) == 0 and not found.memory.screens and not found.trouble
    assert not stored(other).list_versions("workflow")
    await other.ledger.close()


async def test_damage_is_found_told_by_the_mode_and_mended(house: House) -> None:
    await teach(house, "run-1", "run-2", "run-3")
    (part,) = (house.root / "learned").rglob("memory.part")
    part.write_bytes(part.read_bytes()[:-1])
    assert (await house.run(PLAN, "run-4")).status is RunStatus.SUCCEEDED
    assert await found_by(house, "run-4") == "memory", "the ledger knows it all the same"
    (change,) = await facts(house, ev.WorkflowModeChanged, workflow_stream("workflow"))
    assert change.mode is Mode.DEGRADED and "memory of v000001 is not as it was written" in change.reason
    (info,) = stored(house).list_versions("workflow")
    assert (info.version_id, info.trouble) == ("v000001", "")


async def test_a_store_that_cannot_be_used_costs_nothing_but_time(house: House) -> None:
    (house.root / "learned").write_text("a file where a folder should be")
    await teach(house, "run-1", "run-2", "run-3")
    assert await found_by(house, "run-3") == "memory"


async def test_going_back_is_followed_by_the_versions_on_disk(house: House) -> None:
    await teach(house, "run-1", "run-2")
    memory = (await recalled(house)).memory
    await told(house, _snapshot(memory, "v000002"))
    await recalled(house)
    assert [(one.version_id, one.current) for one in stored(house).list_versions("workflow")] == [
        ("v000001", False),
        ("v000002", True),
    ]
    await told(house, ev.MemoryRollback(from_version="v000002", to_version="v000001", reason="worse"))
    assert len((await recalled(house)).memory) == 0
    assert [(one.version_id, one.current) for one in stored(house).list_versions("workflow")] == [
        ("v000001", True),
        ("v000002", False),
    ]


# Screens


async def test_the_screen_of_a_proven_step_is_learned_once(house: House) -> None:
    await teach(house, "run-1", "run-2")
    (learned,) = await facts(house, ev.ScreenLearned, LEARNED)
    assert learned.step_id == "approve" and learned.screen.viewport == (1280.0, 720.0)


async def test_steps_that_share_a_page_learn_it_once_each(house: House) -> None:
    first = msgspec.structs.replace(CLICK, id="ask", action=msgspec.structs.replace(CLICK.action, verb=HOVER))
    seen = PageTextCheck(TextMatch(text="Confirm"))
    browser(house).site.pages[HOME] = ScriptedPage("Home", (CONFIRM, TOTAL, *MENU), "Confirm")
    shared = plan_of(GO, msgspec.structs.replace(first, expect=(seen,)), CLICK)
    for run_id in ("run-1", "run-2", "run-3"):
        assert (await house.run(shared, run_id)).status is RunStatus.SUCCEEDED
    learned = await facts(house, ev.ScreenLearned, LEARNED)
    assert sorted(one.step_id for one in learned) == ["approve", "ask"]


async def test_another_window_is_runtime_drift(house: House) -> None:
    await teach(house, "run-1")
    browser(house).guesses, browser(house).viewport = {}, (400.0, 720.0)
    state = await house.run(PLAN, "run-2")
    assert state.steps[2].failure.kind is FailureKind.RUNTIME_DRIFT
    assert "the window is 400x720 and was 1280x720" in await words(house)


async def test_a_page_that_nobody_knows_is_low_confidence(house: House) -> None:
    await teach(house, "run-1")
    browser(house).guesses = {}
    sign_in = tuple(
        Element(tag="input", role="textbox", name=name) for name in ("User name", "Password", "One-time code")
    )
    browser(house).site.pages[HOME] = ScriptedPage("Sign in", (TOTAL, *sign_in))
    state = await house.run(PLAN, "run-2")
    assert state.steps[2].failure.kind is FailureKind.LOW_CONFIDENCE
    assert "the page is unlike every known page" in await words(house)


async def test_nothing_is_learned_of_screens_where_learning_is_off(house: House) -> None:
    silent = msgspec.structs.replace(PLAN, heal=msgspec.structs.replace(PLAN.heal, learn=False))
    await house.run(silent, "run-1")
    assert not await facts(house, ev.ScreenLearned, LEARNED)


# Proposals


async def test_what_was_learned_and_is_like_the_target_is_proposed(house: House) -> None:
    await teach(house, "run-1", "run-2")
    memory = (await recalled(house)).memory
    asked = Element(tag="button", role="button", name="Confirm", text="Confirm")
    assert house.recalls.proposed("workflow", memory.state, asked) == (CONFIRM,)
    nothing_alike = Element(tag="h1", text="Quarterly figures")
    assert house.recalls.proposed("workflow", memory.state, nothing_alike) == ()
    assert house.recalls.proposed("workflow", State(), asked) == (), "it was taken back"


async def test_a_recall_gives_back_what_it_was_given(house: House, tmp_path: Path) -> None:
    await teach(house, "run-1", "run-2")
    known, memory, _ = await recalled(house)
    other = Recall(tmp_path / "elsewhere")
    kept = Kept(version="v000003", up_to=7, state=memory.state, found=known.found)
    await other.follow("workflow", "v000003", kept, house.clock.now(), 5)
    assert await other.last("workflow") == (kept, "")
    assert await other.version("workflow", "v000003") == memory.state
    assert await other.version("workflow", "v000009") is None
    assert await other.last("another") == (None, "")


async def test_as_many_versions_are_kept_as_the_policy_says(house: House) -> None:
    await teach(house, "run-1", "run-2")
    frugal = Policy(max_versions_to_keep=2)
    for version in ("v000002", "v000003", "v000004"):
        memory = (await recalled(house, frugal)).memory
        await told(house, _snapshot(memory, version))
    await recalled(house, frugal)
    assert [one.version_id for one in stored(house).list_versions("workflow")] == ["v000003", "v000004"]


def _snapshot(memory: TargetMemory, version: str) -> ev.MemorySnapshot:
    from recoup.kernel.memory import digest_of

    return ev.MemorySnapshot(version=version, digest=digest_of(memory.state), entries=len(memory))


def _lesson(like: Entry, element: Element) -> ev.TargetLearned:
    from recoup.kernel.memory import identity

    return ev.TargetLearned(
        step_id=like.step_id,
        step_index=2,
        attempt=1,
        run_id="run-1",
        target_digest=like.target_digest,
        identity=identity(element),
        element=element,
        confidence=0.95,
        origin="model",
    )


def _healed(like: Entry, element: Element) -> ev.TargetHealed:
    from recoup.kernel.memory import identity

    return ev.TargetHealed(
        step_id=like.step_id,
        step_index=2,
        attempt=1,
        run_id="run-1",
        target="it",
        target_digest=like.target_digest,
        identity=identity(element),
        verified=True,
        confidence=0.95,
        margin=0.5,
        found_by="model",
        reason="for a test",
    )


async def words(house: House) -> str:
    failed = await facts(house, ev.AttemptFailed, run_stream("run-2"))
    return str(failed)


async def test_a_version_that_lacks_a_part_is_damaged_and_harms_nobody(house: House) -> None:
    stored(house).snapshot_version("workflow", {"memory": b"{}"}, up_to=1, now=house.clock.now())
    kept, words = await Recall(house.root / "learned").last("workflow")
    assert kept is None
    assert words == "v000001 has no index, prototypes, targets"
