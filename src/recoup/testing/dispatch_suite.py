"""What every dispatch must do. Subclass `DispatchSuite` in a test module that has the fixtures `open_dispatch` and
`let_pass`.

The first gives an async function of the time of a hold; each call of it opens the same storage once more, as another
process would, and the fixture closes them all. The second lets time pass for all of them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from recoup.errors import DispatchError
from recoup.model.dispatch import Hint, QueueDepth, Taken
from recoup.ports import Dispatch

HOLD_S = 30.0
SHORT_S = 0.3
FAR_S = 1_000.0
NOTHING: frozenset[str] = frozenset()


class Opener(Protocol):
    async def __call__(self, hold_s: float = HOLD_S) -> Dispatch: ...


LetPass = Callable[[float], Awaitable[None]]


def names(taken: Iterable[Taken]) -> list[str]:
    return [each.hint.run_id for each in taken]


def hints(*run_ids: str) -> list[Hint]:
    return [Hint(run_id) for run_id in run_ids]


async def take(
    dispatch: Dispatch, limit: int = 10, queues: Iterable[str] = ("default",), able: Iterable[str] = ()
) -> list[Taken]:
    return await dispatch.take(tuple(queues), frozenset(able), limit)


class DispatchSuite:
    async def test_what_was_hinted_is_taken_once_and_is_gone_when_done(self, open_dispatch: Opener) -> None:
        one, other = await open_dispatch(), await open_dispatch()
        hint = Hint("a", "night", 7, ("agent", "browser"))
        await one.hint([hint])
        (taken,) = await take(other, queues=["night"], able=["agent", "browser", "gpu"])
        assert taken.hint == hint
        assert not await take(one, queues=["night"], able=["agent", "browser"])
        await other.done(taken)
        assert not await take(one, queues=["night"], able=["agent", "browser"])
        assert await one.depths() == []

    async def test_higher_priority_comes_first_then_what_is_older(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint([Hint("a"), Hint("b", priority=5), Hint("c", priority=-5)])
        await dispatch.hint([Hint("d", priority=5), Hint("e", "other", 5), Hint("f", needs=("x",))])
        taken = await take(dispatch, queues=["default", "other"], able=["x"])
        assert names(taken) == ["b", "d", "e", "a", "f", "c"]

    async def test_no_more_are_taken_than_were_asked_for(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints(*"abcd"))
        assert await take(dispatch, 0) == []
        assert names(await take(dispatch, 3)) == ["a", "b", "c"]
        assert names(await take(dispatch, 3)) == ["d"]

    async def test_the_same_run_hinted_twice_in_one_call_counts_once(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint([Hint("a", priority=1), Hint("b", priority=2), Hint("a", priority=3), Hint("a")])
        assert [(each.hint.run_id, each.hint.priority) for each in await take(dispatch)] == [
            ("a", 3),
            ("b", 2),
        ]

    async def test_a_second_hint_only_brings_the_first_forward(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint([Hint("a", priority=3), Hint("b", priority=1), Hint("c", priority=2)])
        await dispatch.hint([Hint("a", priority=-1)])
        await dispatch.hint([Hint("b", priority=9)], delay_s=FAR_S)
        assert [(each.hint.run_id, each.hint.priority) for each in await take(dispatch)] == [
            ("b", 9),
            ("a", 3),
            ("c", 2),
        ]

    async def test_a_delayed_hint_is_brought_forward_by_an_earlier_one(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a", "b"), delay_s=FAR_S)
        assert not await take(dispatch)
        await dispatch.hint(hints("b"))
        assert names(await take(dispatch)) == ["b"]

    async def test_the_latest_hint_says_where_the_run_waits(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint([Hint("a", "one", needs=("x",))])
        await dispatch.hint([Hint("a", "two")])
        assert not await take(dispatch, queues=["one"], able=["x"])
        assert names(await take(dispatch, queues=["two"])) == ["a"]

    async def test_a_delayed_hint_is_not_taken_before_its_time(
        self, open_dispatch: Opener, let_pass: LetPass
    ) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a"), delay_s=HOLD_S)
        await dispatch.hint(hints("b"), delay_s=FAR_S)
        assert not await take(dispatch)
        await let_pass(HOLD_S)
        assert names(await take(dispatch)) == ["a"]

    async def test_a_delayed_hint_keeps_its_age(self, open_dispatch: Opener, let_pass: LetPass) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a"), delay_s=HOLD_S)
        await dispatch.hint(hints("b"))
        await let_pass(HOLD_S)
        assert names(await take(dispatch)) == ["a", "b"]

    async def test_only_a_worker_with_every_capability_takes_it(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint([Hint("a", needs=("agent", "browser")), Hint("b", needs=("agent",)), Hint("c")])
        assert names(await take(dispatch, able=["browser"])) == ["c"]
        assert names(await take(dispatch, able=["agent"])) == ["b"]
        assert names(await take(dispatch, able=["browser", "agent", "gpu"])) == ["a"]

    async def test_only_the_queues_that_were_asked_for_are_looked_at(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint([Hint("a", "one"), Hint("b", "two"), Hint("c", "three")])
        assert not await take(dispatch, queues=["on", "one-more"])
        assert not await take(dispatch, queues=[])
        assert names(await take(dispatch, queues=["three", "one"])) == ["a", "c"]

    async def test_what_is_held_too_long_goes_to_the_next(
        self, open_dispatch: Opener, let_pass: LetPass
    ) -> None:
        frozen, other = await open_dispatch(), await open_dispatch()
        await frozen.hint([Hint("a", "night", 3, ("x",))])
        (lost,) = await take(frozen, queues=["night"], able=["x"])
        assert not await take(other, queues=["night"], able=["x"])
        await let_pass(HOLD_S)
        (taken,) = await take(other, queues=["night"], able=["x"])
        assert taken.hint == lost.hint
        assert taken.token != lost.token

    async def test_a_stale_done_removes_nothing_of_anybody_else(
        self, open_dispatch: Opener, let_pass: LetPass
    ) -> None:
        frozen, other = await open_dispatch(), await open_dispatch()
        await frozen.hint(hints("a"))
        (lost,) = await take(frozen)
        await let_pass(HOLD_S)
        (taken,) = await take(other)
        await frozen.done(lost)
        await frozen.done(lost, again_in_s=0)
        assert await other.hinted(["a"]) == {"a"}
        assert not await take(frozen)
        await other.done(taken)
        assert await other.hinted(["a"]) == set()
        await frozen.done(lost, again_in_s=0)
        assert await other.hinted(["a"]) == set()

    async def test_a_stale_keep_keeps_nothing(self, open_dispatch: Opener, let_pass: LetPass) -> None:
        frozen, other = await open_dispatch(), await open_dispatch()
        await frozen.hint(hints("a"))
        lost = await take(frozen)
        await let_pass(HOLD_S)
        assert await take(other)
        await let_pass(HOLD_S * 0.6)
        await frozen.keep(lost)
        await let_pass(HOLD_S * 0.6)
        assert names(await take(frozen)) == ["a"]

    async def test_a_late_done_counts_as_long_as_nobody_else_has_taken_it(
        self, open_dispatch: Opener, let_pass: LetPass
    ) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a"))
        (late,) = await take(dispatch)
        await let_pass(HOLD_S)
        await dispatch.done(late)
        assert not await take(dispatch)

    async def test_what_is_kept_is_held_longer(self, open_dispatch: Opener, let_pass: LetPass) -> None:
        dispatch, other = await open_dispatch(), await open_dispatch()
        await dispatch.hint(hints("a", "b"))
        taken = await take(dispatch)
        await let_pass(HOLD_S * 0.6)
        await dispatch.keep(taken)
        await let_pass(HOLD_S * 0.6)
        assert not await take(other)
        await let_pass(HOLD_S)
        assert names(await take(other)) == ["a", "b"]

    async def test_a_hint_given_while_the_run_is_taken_counts_as_soon_as_that_is_done(
        self, open_dispatch: Opener
    ) -> None:
        dispatch, other = await open_dispatch(), await open_dispatch()
        await dispatch.hint([Hint("a", priority=5)])
        (taken,) = await take(dispatch)
        await other.hint([Hint("a", "night", 1, ("x",))])
        await other.hint([Hint("a", "night", 2, ("x",))], delay_s=FAR_S)
        assert not await take(other, queues=["default", "night"], able=["x"])
        assert await other.hinted(["a"]) == {"a"}
        await dispatch.done(taken)
        (again,) = await take(other, queues=["night"], able=["x"])
        assert again.hint == Hint("a", "night", 2, ("x",))
        await other.done(again)
        assert await other.depths() == []

    async def test_a_delayed_hint_given_meanwhile_waits_for_its_time(
        self, open_dispatch: Opener, let_pass: LetPass
    ) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a"))
        (taken,) = await take(dispatch)
        await dispatch.hint(hints("a"), delay_s=HOLD_S)
        await dispatch.done(taken)
        assert not await take(dispatch)
        await let_pass(HOLD_S)
        assert names(await take(dispatch)) == ["a"]

    async def test_no_delay_is_too_long(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a"), delay_s=1e18)
        await dispatch.hint(hints("b"), delay_s=-1e18)
        (taken,) = await take(dispatch)
        await dispatch.done(taken, again_in_s=float("inf"))
        (depth,) = await dispatch.depths()
        assert (depth.waiting, depth.delayed) == (0, 2)

    async def test_a_hint_goes_back_for_a_while(self, open_dispatch: Opener, let_pass: LetPass) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint([Hint("a", "night", 3, ("x",))])
        (taken,) = await take(dispatch, queues=["night"], able=["x"])
        await dispatch.hint([Hint("b", "night", 3)])
        await dispatch.done(taken, again_in_s=HOLD_S)
        (other,) = await take(dispatch, 1, queues=["night"], able=["x"])
        assert other.hint.run_id == "b"
        await dispatch.done(other)
        await let_pass(HOLD_S)
        (again,) = await take(dispatch, 1, queues=["night"], able=["x"])
        assert again.hint == taken.hint

    async def test_what_goes_back_at_once_keeps_its_age(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a"))
        (taken,) = await take(dispatch)
        await dispatch.hint(hints("b"))
        await dispatch.done(taken, again_in_s=0)
        assert names(await take(dispatch)) == ["a", "b"]

    async def test_what_goes_back_for_a_while_waits_behind_all_that_are_there(
        self, open_dispatch: Opener, let_pass: LetPass
    ) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a", "b", "c"))
        first, second = await take(dispatch, 2)
        await dispatch.done(second, again_in_s=1)
        await dispatch.hint(hints("d"))
        await dispatch.done(first, again_in_s=1)
        await dispatch.hint(hints("e"))
        await let_pass(1)
        assert names(await take(dispatch)) == ["c", "b", "d", "a", "e"]

    async def test_many_that_are_refused_again_and_again_keep_nobody_from_being_asked(
        self, open_dispatch: Opener, let_pass: LetPass
    ) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints(*(f"refused-{number}" for number in range(40))))
        await dispatch.hint(hints("wanted"))
        asked: list[str] = []
        for _ in range(11):
            taken = await take(dispatch, 4)
            asked += names(taken)
            for each in taken:
                await dispatch.done(each, again_in_s=1)
            await let_pass(1)
        assert "wanted" in asked

    async def test_what_goes_back_later_and_was_hinted_meanwhile_waits_once_and_behind(
        self, open_dispatch: Opener
    ) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a", "b"))
        (taken,) = await take(dispatch, 1)
        await dispatch.hint(hints("a"))
        await dispatch.done(taken, again_in_s=FAR_S)
        await dispatch.done(taken)
        await dispatch.done(taken, again_in_s=0)
        await dispatch.hint(hints("a", "c"))
        assert names(await take(dispatch)) == ["b", "a", "c"]

    async def test_of_what_goes_back_and_what_came_meanwhile_the_earlier_counts(
        self, open_dispatch: Opener
    ) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint([Hint("a", priority=4), Hint("b")])
        first, second = await take(dispatch)
        await dispatch.hint(hints("a"))
        await dispatch.hint(hints("b"), delay_s=FAR_S)
        await dispatch.done(first, again_in_s=FAR_S)
        await dispatch.done(second, again_in_s=0)
        assert [(each.hint.run_id, each.hint.priority) for each in await take(dispatch)] == [
            ("a", 4),
            ("b", 0),
        ]

    async def test_depths_tell_what_waits_for_a_worker_for_its_time_and_for_its_taker(
        self, open_dispatch: Opener, let_pass: LetPass
    ) -> None:
        dispatch = await open_dispatch()
        assert await dispatch.depths() == []
        await dispatch.hint([*hints("a", "b", "c"), Hint("d", needs=("x",))])
        await dispatch.hint([Hint("e"), Hint("f", "night", needs=("x",))], delay_s=FAR_S)
        assert len(await take(dispatch, 1)) == 1
        default, night = await dispatch.depths()
        assert night == QueueDepth("night", 0, 1, 0, None)
        assert (default.waiting, default.delayed, default.taken) == (3, 1, 1)
        await let_pass(HOLD_S)
        default, night = await dispatch.depths()
        assert (default.waiting, default.delayed, default.taken) == (4, 1, 0)
        assert default.oldest_s is not None
        assert HOLD_S <= default.oldest_s < HOLD_S + 60

    async def test_runs_with_a_hint_are_told_from_those_without(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a", "b"))
        await dispatch.hint(hints("c"), delay_s=FAR_S)
        assert len(await take(dispatch, 1)) == 1
        many = [f"other-{number}" for number in range(3_000)]
        assert await dispatch.hinted(["a", *many, "b", "c"]) == {"a", "b", "c"}
        assert await dispatch.hinted([]) == set()

    async def test_nothing_is_done_about_nothing(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint([])
        await dispatch.keep([])
        assert await dispatch.depths() == []

    async def test_ids_of_any_text_come_back_as_they_were(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        odd = ["ü + '\"; --", "a:b", "%s $1 ?", "x" * 200]
        await dispatch.hint(hints(*odd))
        taken = await take(dispatch)
        assert names(taken) == sorted(odd)
        await dispatch.keep(taken)
        for each in taken:
            await dispatch.done(each)
        assert await dispatch.hinted(odd) == set()

    async def test_waiting_ends_at_once_when_something_came_since_the_last_look(
        self, open_dispatch: Opener
    ) -> None:
        dispatch, other = await open_dispatch(), await open_dispatch()
        await _idle(dispatch)
        await other.hint(hints("a"))
        await _within(10, dispatch.wait(FAR_S))
        assert names(await take(dispatch)) == ["a"]

    async def test_waiting_ends_when_another_process_gives_a_hint(self, open_dispatch: Opener) -> None:
        dispatch, other = await open_dispatch(), await open_dispatch()
        await _idle(dispatch)
        waiting = asyncio.create_task(_taken(dispatch))
        await asyncio.sleep(0)
        await other.hint(hints("a"))
        assert names(await _within(10, waiting)) == ["a"]

    async def test_waiting_ends_when_something_goes_back_or_is_brought_forward(
        self, open_dispatch: Opener
    ) -> None:
        dispatch, other = await open_dispatch(), await open_dispatch()
        await other.hint(hints("a"))
        (mine,) = await take(other)
        await other.hint(hints("b"), delay_s=FAR_S)
        await _idle(dispatch)
        waiting = asyncio.create_task(_taken(dispatch))
        await other.done(mine, again_in_s=0)
        (back,) = await _within(10, waiting)
        assert back.hint.run_id == "a"
        await dispatch.done(back)
        await _idle(dispatch)
        waiting = asyncio.create_task(_taken(dispatch))
        await other.hint(hints("b"))
        assert names(await _within(10, waiting)) == ["b"]

    async def test_waiting_ends_when_a_delayed_one_is_due(self, open_dispatch: Opener) -> None:
        dispatch, other = await open_dispatch(), await open_dispatch()
        await other.hint(hints("a"), delay_s=SHORT_S)
        assert names(await _within(10, _taken(dispatch))) == ["a"]

    async def test_waiting_ends_when_a_hold_ends(self, open_dispatch: Opener) -> None:
        dispatch, other = await open_dispatch(SHORT_S), await open_dispatch(SHORT_S)
        await other.hint(hints("a"))
        assert await take(other)
        began_s = time.monotonic()
        assert names(await _within(10, _taken(dispatch))) == ["a"]
        assert time.monotonic() - began_s < SHORT_S + 2

    async def test_waiting_ends_at_once_when_not_all_could_be_taken(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a", "b"))
        assert names(await take(dispatch, 1)) == ["a"]
        await _within(10, dispatch.wait(FAR_S))
        assert names(await take(dispatch, 1)) == ["b"]

    async def test_a_worker_without_room_is_told_once(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a", "b", "c"))
        await dispatch.wait(1)
        assert names(await take(dispatch, 1)) == ["a"]
        for _ in range(3):
            await dispatch.wait(0.05)
        rounds, began_s = 0, time.monotonic()
        while time.monotonic() - began_s < 0.3:
            rounds += 1
            await dispatch.wait(0.1)
        assert rounds < 100
        assert names(await take(dispatch, 2)) == ["b", "c"]

    async def test_nobody_is_kept_awake_by_what_he_cannot_take(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint([Hint("a", needs=("x",)), Hint("b", "night")])
        await _idle(dispatch)
        rounds, began_s = 0, time.monotonic()
        while time.monotonic() - began_s < 0.3:
            rounds += 1
            assert not await take(dispatch)
            await dispatch.wait(0.25)
        assert rounds < 200, "virtual time may run faster than real time, but not for nothing"

    async def test_two_takers_never_hold_the_same(self, open_dispatch: Opener) -> None:
        takers = [await open_dispatch(), await open_dispatch(), await open_dispatch()]
        every = [f"run-{number}" for number in range(200)]
        await takers[0].hint(hints(*every))
        found: list[str] = []

        async def drain(dispatch: Dispatch) -> None:
            while taken := await take(dispatch, 7):
                found.extend(names(taken))
                for each in taken:
                    await dispatch.done(each)

        await asyncio.gather(*map(drain, takers))
        assert sorted(found) == sorted(every)

    async def test_ten_thousand_wait_in_order(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        every = [
            Hint(f"run-{number:04}", ("one", "two")[number % 2], number % 5, ("x",) * (number % 3 == 0))
            for number in range(10_000)
        ]
        await dispatch.hint(every)
        first = await take(dispatch, 100, queues=["one", "two"], able=["x"])
        wanted = sorted(every, key=lambda hint: -hint.priority)
        assert [each.hint for each in first] == wanted[:100]
        rest = await take(dispatch, 10_000, queues=["one", "two"], able=["x"])
        assert [each.hint for each in rest] == wanted[100:]

    async def test_hints_and_endings_at_the_same_time_miss_nothing(self, open_dispatch: Opener) -> None:
        """Whatever happens before a hint is seen by a taking that begins after it."""
        giver, worker = await open_dispatch(), await open_dispatch()
        given, seen = 0, 0
        over = asyncio.Event()

        async def give() -> None:
            nonlocal given
            for number in range(150):
                given = number + 1
                await giver.hint(hints("a"))
                await asyncio.sleep(0.001 * (number % 3))
            over.set()

        async def work() -> None:
            nonlocal seen
            while True:
                ended = over.is_set()
                taken = await take(worker)
                for each in taken:
                    seen = given
                    await asyncio.sleep(0.001)
                    await worker.done(each)
                if ended and not taken:
                    return

        await _within(60, asyncio.gather(give(), work()))
        assert seen == given
        assert await giver.depths() == []

    async def test_any_history_is_that_of_a_simple_model(self, open_dispatch: Opener) -> None:
        chance = random.Random(20)
        dispatches = [await open_dispatch(), await open_dispatch()]
        for round_number in range(4):
            await _play(chance, dispatches, f"{round_number}-")

    async def test_what_is_closed_says_so(self, open_dispatch: Opener) -> None:
        dispatch = await open_dispatch()
        await dispatch.hint(hints("a"))
        await dispatch.close()
        await dispatch.close()
        assert "closed" in await _refusal(dispatch.hint(hints("a")))


async def _refusal(work: Awaitable[None]) -> str:
    try:
        await work
    except DispatchError as error:
        return error.message
    return ""


async def _idle(dispatch: Dispatch) -> None:
    """Until it has nothing to tell: the first waiting may begin to listen."""
    for _ in range(3):
        assert not await take(dispatch)
        await dispatch.wait(0.05)
    assert not await take(dispatch)


async def _taken(dispatch: Dispatch) -> list[Taken]:
    while not (taken := await take(dispatch)):
        await dispatch.wait(FAR_S)
    return taken


async def _within(seconds: float, work: Awaitable[object]) -> list[Taken]:
    async with asyncio.timeout(seconds):
        return await work  # type: ignore[return-value]


async def _play(chance: random.Random, dispatches: list[Dispatch], prefix: str) -> None:
    """No time passes for the model: what is delayed is so for long."""
    model = _Model()
    held: list[Taken] = []
    runs = [f"{prefix}{number}" for number in range(6)]
    queues = (f"{prefix}one", f"{prefix}two")
    for _ in range(60):
        dispatch = chance.choice(dispatches)
        match chance.choice(("hint", "hint", "delay", "take", "take", "done", "done", "again", "back")):
            case "take":
                able = [name for name in ("x", "y") if chance.random() < 0.6]
                asked = chance.sample(queues, chance.randint(1, 2))
                limit = chance.randint(1, 3)
                taken = await take(dispatch, limit, asked, able)
                assert [each.hint for each in taken] == model.take(asked, able, limit)
                held += taken
            case "hint" | "delay" as how:
                needs = tuple(name for name in ("x", "y") if chance.random() < 0.3)
                hint = Hint(chance.choice(runs), chance.choice(queues), chance.randint(-2, 2), needs)
                await dispatch.hint([hint], FAR_S if how == "delay" else 0)
                model.hint(hint, how == "delay")
            case how if held:
                ended = held.pop(chance.randrange(len(held)))
                again = {"done": None, "again": 0.0, "back": FAR_S}[how]
                await dispatch.done(ended, again)
                model.done(ended.hint.run_id, again)
        assert await dispatch.hinted(runs) == set(model.waiting) | set(model.taken)
    for each in held:
        await dispatches[0].done(each)


class _Model:
    """Waiting and taken hints, each with whether it is delayed; in the order of their age."""

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[Hint, bool]] = {}
        self.taken: dict[str, Hint] = {}
        self.meanwhile: dict[str, tuple[Hint, bool]] = {}
        self.ages: dict[str, int] = {}

    def hint(self, hint: Hint, delayed: bool) -> None:
        self.ages.setdefault(hint.run_id, self._youngest())
        place = self.meanwhile if hint.run_id in self.taken else self.waiting
        place[hint.run_id] = _better(place.get(hint.run_id), (hint, delayed))

    def take(self, queues: Iterable[str], able: Iterable[str], limit: int) -> list[Hint]:
        found = [
            hint
            for hint, delayed in self.waiting.values()
            if not delayed and hint.queue in queues and set(hint.needs) <= set(able)
        ]
        best = sorted(found, key=lambda hint: (-hint.priority, self.ages[hint.run_id]))[:limit]
        for hint in best:
            del self.waiting[hint.run_id]
            self.taken[hint.run_id] = hint
        return best

    def done(self, run_id: str, again_in_s: float | None) -> None:
        hint, meanwhile = self.taken.pop(run_id), self.meanwhile.pop(run_id, None)
        if again_in_s:
            self.ages[run_id] = self._youngest()
        back = None if again_in_s is None else (hint, again_in_s > 0)
        if back and meanwhile:
            self.waiting[run_id] = _better(back, meanwhile)
        elif back or meanwhile:
            self.waiting[run_id] = back or meanwhile or (hint, False)
        else:
            del self.ages[run_id]

    def _youngest(self) -> int:
        return max(self.ages.values(), default=0) + 1


def _better(old: tuple[Hint, bool] | None, new: tuple[Hint, bool]) -> tuple[Hint, bool]:
    if old is None:
        return new
    hint = Hint(new[0].run_id, new[0].queue, max(old[0].priority, new[0].priority), new[0].needs)
    return hint, old[1] and new[1]
