"""The file of hints: made at once by several, damaged, replaced, carried over a reboot."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from recoup.clock import SystemClock
from recoup.dispatch.local import LocalDispatch
from recoup.dispatch.opening import open_dispatch, queue_path
from recoup.errors import DispatchError
from recoup.model.dispatch import Hint
from recoup.testing.clock import FakeClock

Opener = Callable[[], LocalDispatch]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "queue.db"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def opened(path: Path, clock: FakeClock) -> AsyncIterator[Opener]:
    every: list[LocalDispatch] = []

    def opener() -> LocalDispatch:
        every.append(LocalDispatch(path, clock, hold_s=10))
        return every[-1]

    yield opener
    for dispatch in every:
        await dispatch.close()


async def names(dispatch: LocalDispatch) -> list[str]:
    return [taken.hint.run_id for taken in await dispatch.take(["default"], frozenset(), 100)]


async def test_many_that_make_the_file_at_the_same_instant_make_one(opened: Opener) -> None:
    every = [opened() for _ in range(8)]
    await asyncio.gather(*(each.hint([Hint(f"run-{number}")]) for number, each in enumerate(every)))
    assert sorted(await names(every[0])) == [f"run-{number}" for number in range(8)]


async def test_nothing_is_made_before_it_is_needed_and_then_for_its_owner_only(
    path: Path, opened: Opener
) -> None:
    dispatch = opened()
    assert not path.parent.exists()
    await dispatch.hint([Hint("a")])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_a_file_that_is_no_database_is_set_aside(path: Path, opened: Opener) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database " * 1000)
    dispatch = opened()
    await dispatch.hint([Hint("a")])
    assert await names(dispatch) == ["a"]
    assert path.with_name("queue.db.damaged").read_bytes().startswith(b"no database")


@pytest.mark.parametrize("spared", [(), ("marks",)], ids=["all of it", "its hints"])
async def test_a_file_that_is_damaged_is_made_anew(
    path: Path, opened: Opener, spared: tuple[str, ...]
) -> None:
    dispatch, other = opened(), opened()
    await dispatch.hint([Hint(f"run-{number}", priority=number) for number in range(500)])
    assert len(await other.take(["default"], frozenset(), 3)) == 3
    for each in (dispatch, other):
        await each.close()
    damage(path, spared)
    dispatch, other = opened(), opened()
    for each in (dispatch, other, dispatch, other):
        await each.hint([Hint("a"), Hint("b")])
        assert await each.hinted(["a", "b"]) == {"a", "b"}
    assert path.with_name("queue.db.damaged").exists()


def damage(path: Path, spared: tuple[str, ...]) -> None:
    """Every page but the first and those where these tables begin."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        kept = {
            page
            for name, page in database.execute("select name, rootpage from sqlite_master")
            if name in spared
        }
        (size,) = database.execute("pragma page_size").fetchone()
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // size + 1):
        if page not in kept:
            content[(page - 1) * size : page * size] = os.urandom(size)
    path.write_bytes(content)


async def test_the_hints_of_another_version_are_not_kept(path: Path, opened: Opener) -> None:
    await opened().hint([Hint("a")])
    with sqlite3.connect(path) as database:
        database.execute("pragma user_version = 99")
        database.execute("alter table hints rename column lane to way")
    database.close()
    fresh = opened()
    assert await names(fresh) == []
    await fresh.hint([Hint("b")])
    assert await names(fresh) == ["b"]


async def test_a_waiting_process_follows_to_the_new_file(path: Path, opened: Opener) -> None:
    waiting, other = opened(), opened()
    await other.hint([Hint("old")])
    assert await names(waiting) == ["old"]
    for each in sorted(path.parent.iterdir()):
        each.unlink()

    async def taken() -> list[str]:
        while not (found := await names(waiting)):
            await waiting.wait(1000)
        return found

    task = asyncio.create_task(taken())
    await asyncio.sleep(0.02)
    await other.hint([Hint("new")])
    async with asyncio.timeout(60):
        assert await task == ["new"]


async def test_after_a_reboot_nobody_holds_anything_and_delays_go_on_by_the_wall_clock(
    opened: Opener, clock: FakeClock
) -> None:
    before = opened()
    await before.hint([Hint("held"), Hint("kept")])
    held = await before.take(["default"], frozenset(), 1)
    await before.hint([Hint("held", priority=3)])
    await before.hint([Hint("soon")], delay_s=60)
    await before.hint([Hint("late")], delay_s=3600)
    await before.close()
    clock.jump_wall(120)
    clock.reboot("boot-2")
    clock.advance(1)
    after = opened()
    assert sorted(await names(after)) == ["held", "kept", "soon"]
    await after.done(held[0])
    assert await after.hinted(["held", "late"]) == {"held", "late"}
    clock.advance(3600)
    assert "late" in await names(after)


async def test_a_wall_clock_that_is_set_changes_nothing(opened: Opener, clock: FakeClock) -> None:
    dispatch = opened()
    await dispatch.hint([Hint("a")], delay_s=60)
    clock.jump_wall(-86_400)
    assert await names(dispatch) == []
    clock.advance(61)
    assert await names(dispatch) == ["a"]


async def test_a_folder_that_cannot_be_made_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    dispatch = LocalDispatch(tmp_path / "file" / "queue.db", SystemClock())
    with pytest.raises(
        DispatchError, match=r"queue\.db cannot be used(.|\n)*file that stands where a folder is needed"
    ):
        await dispatch.hint([Hint("a")])
    await dispatch.wait(0.01)
    await dispatch.close()


async def test_each_ledger_has_its_own_queue(tmp_path: Path) -> None:
    places = [queue_path(tmp_path / name) for name in ("ledger.db", "other.db", "third.sqlite")]
    assert [place.name for place in places] == ["queue.db", "other.queue.db", "third.queue.db"]
    dispatch = await open_dispatch(tmp_path / "ledger.db", SystemClock())
    await dispatch.hint([Hint("a")])
    await dispatch.close()
    assert places[0].exists()
