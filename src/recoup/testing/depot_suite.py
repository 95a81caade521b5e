"""What every depot must do. Subclass `DepotSuite` in a test module that has a fixture `open_depot`.

The fixture gives an async function; each call of it opens the same storage once more, as another machine would, and the
fixture closes them all.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

from recoup.depot.names import OBJECT_BYTES_MAX
from recoup.errors import NotFound, UsageError
from recoup.ports import Depot

Opener = Callable[[], Awaitable[Depot]]

_LEADS_ELSEWHERE = (
    "",
    "/a",
    "a/",
    "a//b",
    "../a",
    "a/../b",
    ".a",
    "a/.b",
    "a b",
    "a\0b",
    "a\n",
    "é",
    "-a",
    "a" * 401,
)


class DepotSuite:
    async def test_what_was_put_is_read_on_another_machine(self, open_depot: Opener) -> None:
        here, there = await open_depot(), await open_depot()
        everything = bytes(range(256)) * 3
        await here.put("runs/one/trees/a-b.c_d", everything)
        await here.put("runs/one/empty", b"")
        assert await there.get("runs/one/trees/a-b.c_d") == everything
        assert await there.get("runs/one/empty") == b""

    async def test_what_is_not_there_is_not_found(self, open_depot: Opener) -> None:
        depot = await open_depot()
        await depot.put("a/b", b"1")
        for name in ("nothing", "a", "a/b/c", "a/bb"):
            await _raises(NotFound, depot.get(name))

    async def test_what_is_put_again_is_replaced_whole(self, open_depot: Opener) -> None:
        here, there = await open_depot(), await open_depot()
        await here.put("a", b"x" * 9_000_000)
        await there.put("a", b"short")
        await there.put("a", b"short")
        assert await here.get("a") == b"short"
        assert await here.names("") == ["a"]

    async def test_names_are_listed_by_their_beginning(self, open_depot: Opener) -> None:
        here, there = await open_depot(), await open_depot()
        assert await there.names("runs/") == []
        for name in ("runs/b/2", "runs/a/1", "runs/ab/1", "runs/a/10", "runs/a/x/y", "evidence/aa"):
            await here.put(name, b"1")
        assert await there.names("runs/a/") == ["runs/a/1", "runs/a/10", "runs/a/x/y"]
        assert await there.names("runs/a/1") == ["runs/a/1", "runs/a/10"]
        assert await there.names("runs/a") == ["runs/a/1", "runs/a/10", "runs/a/x/y", "runs/ab/1"]
        assert await there.names("none/") == []
        assert len(await there.names("")) == 6

    async def test_what_is_removed_is_gone_and_may_be_removed_again(self, open_depot: Opener) -> None:
        here, there = await open_depot(), await open_depot()
        await here.put("a/b", b"1")
        await here.put("a/c", b"2")
        await there.remove("a/b")
        await there.remove("a/b")
        await there.remove("never/there")
        await _raises(NotFound, here.get("a/b"))
        assert await here.names("a/") == ["a/c"]
        await there.remove("a/c")
        await here.put("a/b", b"3")
        assert await there.get("a/b") == b"3"

    async def test_an_object_as_large_as_allowed_comes_back_and_a_larger_one_is_refused(
        self, open_depot: Opener
    ) -> None:
        depot = await open_depot()
        block = hashlib.sha256(b"depot").digest() * 1024
        large = (block * (OBJECT_BYTES_MAX // len(block) + 1))[:OBJECT_BYTES_MAX]
        await depot.put("large", large)
        assert await depot.get("large") == large
        await _raises(UsageError, depot.put("larger", large + b"1"))
        assert await depot.names("larger") == []

    async def test_a_name_that_leads_elsewhere_is_refused(self, open_depot: Opener) -> None:
        depot = await open_depot()
        for name in _LEADS_ELSEWHERE:
            await _raises(UsageError, depot.put(name, b"1"))
            await _raises(UsageError, depot.get(name))
            await _raises(UsageError, depot.remove(name))
        await _raises(UsageError, depot.names("../"))

    async def test_many_at_once_mix_nothing(self, open_depot: Opener) -> None:
        depots = [await open_depot() for _ in range(3)]
        bodies = [bytes([number]) * 10_000 for number in range(8)]

        async def one(number: int) -> None:
            await depots[number % 3].put(f"own/{number}", bodies[number])
            await depots[number % 3].put("shared", bodies[number])

        await asyncio.gather(*(one(number) for number in range(8)))
        assert [await depots[0].get(f"own/{number}") for number in range(8)] == bodies
        assert await depots[1].get("shared") in bodies

    async def test_the_event_loop_goes_on_meanwhile(self, open_depot: Opener) -> None:
        depot = await open_depot()
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await depot.put("a", b"1" * 4_000_000)
        assert await depot.get("a") == b"1" * 4_000_000
        counting.cancel()
        assert turns > 3


async def _raises(kind: type[Exception], call: Awaitable[object]) -> None:
    try:
        await call
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
