"""Streams are read whole, page by page, and nothing is appended behind what was not read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from recoup.errors import Conflict, LedgerBusy
from recoup.model.events import Event, UnknownPayload
from recoup.model.instant import Instant
from recoup.streams import TRIES_MAX, append_if, pages

SOURCE = Path(__file__).parents[2] / "src" / "recoup"


def event(seq: int) -> Event:
    return Event("s", seq, Instant(0, 0, ""), "x", UnknownPayload(), b"{}")


@pytest.mark.parametrize(("length", "reads"), [(0, 1), (3, 1), (4, 2), (9, 3)])
def test_a_stream_is_read_to_its_end_with_no_read_to_spare(length: int, reads: int) -> None:
    asked: list[int] = []

    async def read(stream: str, after: int, limit: int) -> list[Event]:
        asked.append(after)
        return [event(seq) for seq in range(after + 1, min(length, after + limit) + 1)]

    async def seen() -> list[int]:
        return [one.seq async for page in pages(read, "s", 0, 4) for one in page]

    assert asyncio.run(seen()) == list(range(1, length + 1))
    assert len(asked) == reads


def test_who_lost_a_race_looks_again_before_appending() -> None:
    looked = 0

    async def attempt() -> str:
        nonlocal looked
        looked += 1
        if looked < 3:
            raise Conflict("someone was quicker")
        return "appended"

    assert asyncio.run(append_if(attempt, "busy")) == "appended"
    assert looked == 3


def test_races_without_an_end_are_given_up() -> None:
    looked = 0

    async def attempt() -> None:
        nonlocal looked
        looked += 1
        raise Conflict("someone was quicker")

    with pytest.raises(LedgerBusy, match="no turn") as refused:
        asyncio.run(append_if(attempt, "no turn", hint="Later."))
    assert (looked, refused.value.hint) == (TRIES_MAX, "Later.")


def test_nobody_writes_that_loop_again() -> None:
    """Each of the others has a reason of its own to look at a conflict."""
    reasons = {
        "steps/browser/run_targets.py": "gives up in silence: another run will take the lesson back",
        "engine/everywhere.py": "somebody else has paused all workflows",
        "engine/generations.py": "gives up in silence: the file is looked at again",
        "engine/losses.py": "somebody else has told of the loss",
        "operations/memory.py": "a conflict of what is written beside it is the caller's",
        "operations/submission.py": "the key was taken: that run is the answer",
        "operations/control.py": "the driver was still writing",
        "streams.py": "the loop",
    }
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.parts[-2] != "testing"
        and any(words in path.read_text() for words in ("suppress(Conflict)", "except Conflict"))
    }
    assert found == reasons.keys()
