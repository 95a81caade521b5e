"""A worker: takes hints, drives runs, and takes up what others have lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from recoup.engine.driver import Driver
from recoup.engine.entry import is_redelivery
from recoup.engine.losses import tell_losses
from recoup.errors import (
    DispatchError,
    EventUnreadable,
    LeaseLost,
    LedgerError,
    MachineTrouble,
    RecoupError,
    RowUnreadable,
)
from recoup.fleet.delivering import Deliveries, Left
from recoup.fleet.leftovers import Leftovers
from recoup.fleet.queued import hint_of
from recoup.fleet.sweeping import Sweeper
from recoup.model.dispatch import Taken
from recoup.model.instant import Instant
from recoup.model.run import RunState
from recoup.model.storage import WorkerRow
from recoup.ports import Dispatch

IDLE_S = 5.0
"""The longest that an idle worker waits without a look."""
TROUBLE_S = 2.0
"""After something went wrong with the database or the queue."""
TROUBLE_MAX_S = 600.0
_REMEMBERED_MAX = 10_000
TOGETHER_S = 0.004
"""A worker that was full waits so long for more room: to take several hints at once costs no more than to take one."""
LOST_S = 0.5
"""Between two looks for runs whose worker was lost."""
SWEEP_S = 10.0
"""Between two looks for runs that want a driver and have no hint."""
CHORES_S = 5.0
PROBE_S = 1.0
PROBE_MAX_S = 60.0
"""Before a worker in trouble makes its next probe write: twice as long each time, up to the limit."""
PROBES_UNTIL_IDLE = 6
"""Number of probe writes after which a worker that should end when it is idle ends in trouble instead."""
STOP_S = 20.0
"""For drivers to stop their steps, beyond the grace time."""


async def _no_chores() -> list[str]:
    return []


class Notice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Something that people who watch a worker want to know."""

    event: str
    """started | taken | left | lost | trouble | recovered | draining | skipped | idle | stopped."""
    words: str
    run_id: str | None = None
    workflow: str | None = None
    status: str | None = None
    seconds: float | None = None


class Shift(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is for, and for how long."""

    worker_id: str
    queues: tuple[str, ...] = ("default",)
    capabilities: frozenset[str] = frozenset()
    concurrency: int = 4
    grace_s: float = 30.0
    """How long runs may go on after the worker was told to stop."""
    version: str = ""
    until_idle: bool = False
    """Stop when nothing is left to do: for tests, demonstrations and scripts."""


class Worker:
    """Works until it is told to stop. Whatever a hint says, a run is driven only under its lease."""

    def __init__(
        self,
        deliveries: Deliveries,
        dispatch: Dispatch,
        shift: Shift,
        say: Callable[[Notice], None],
        chores: Callable[[], Awaitable[list[str]]] = _no_chores,
    ) -> None:
        self._deliveries = deliveries
        self._world = deliveries.world
        self._dispatch = dispatch
        self._shift = shift
        self._say = say
        self._chores = chores
        self._started_at: Instant = self._world.clock.now()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asked_for = 0
        """How many hints are being taken: that room is nobody else's."""
        self._drivers: dict[str, Driver] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        """Those whose run is left, and whose hint is still to be told so."""
        self._taken: dict[str, Taken] = {}
        self._not_before_us: dict[str, int] = {}
        self._troubles: dict[str, int] = {}
        self._trouble = ""
        """Why this machine cannot drive runs now; nothing is taken while it stands here."""
        self._probes = 0
        """Probe writes made since a run was last driven without trouble: the next one comes later each time."""
        self._room = asyncio.Event()
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._stuck: dict[str, str] = {}
        """Runs that waiting does not help, and why: a worker that ends when it is idle does not wait for them."""
        self._sweeper = Sweeper(self._world, dispatch, shift.queues, shift.capabilities)
        self._leftovers = Leftovers(
            self._world.ledger,
            self._world.clock,
            deliveries.runs.known_state,
            shift.queues,
            shift.capabilities,
        )

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(self._tasks)

    def drain(self) -> None:
        """Take nothing more; let what goes on end, within the grace time. A second time: do not wait."""
        if self._stop.is_set():
            self._hurry.set()
        else:
            under_way = f"{len(self._tasks)} run{'' if len(self._tasks) == 1 else 's'} under way"
            self._tell("draining", f"{under_way}; at most {self._shift.grace_s:g} s")
        self._stop.set()
        self._room.set()

    async def work(self) -> None:
        """Until drained."""
        shift = self._shift
        self._tell("started", f"queues {', '.join(shift.queues)}; {shift.concurrency} at once")
        background = [
            asyncio.create_task(self._again_and_again(self._keep_all, self._world.heartbeat_s)),
            asyncio.create_task(self._again_and_again(self._take_up_lost, LOST_S)),
            asyncio.create_task(self._again_and_again(self._sweeper.redeliver, SWEEP_S)),
            asyncio.create_task(self._again_and_again(self._do_chores, CHORES_S)),
            asyncio.create_task(self._again_and_again(self._tell_losses, CHORES_S)),
            asyncio.create_task(self._again_and_again(self._deliveries.leave_others, CHORES_S)),
        ]
        try:
            await self._take_all()
            await self._wind_down()
            await self._do_chores()
        finally:
            ending = [*background, *self._tasks.values(), *self._leaving]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            with contextlib.suppress(LedgerError):
                await self._world.ledger.forget_worker(shift.worker_id)
            self._tell("stopped", "every run was handed back or has ended")

    # Taking

    async def _take_all(self) -> None:
        await self._examine()
        while not self._stop.is_set():
            if self._trouble:
                await self._recover()
                continue
            try:
                found = await self._take_some()
            except (DispatchError, LedgerError) as error:
                await self._in_trouble(error)
                continue
            if not found and self._shift.until_idle and not self._tasks and await self._is_idle():
                return

    async def _examine(self) -> None:
        """Whether this machine can drive runs at all, by a probe write."""
        words = await self._machine_trouble()
        if words is not None:
            self._fall_ill(words)

    async def _machine_trouble(self) -> str | None:
        machine = self._world.machine
        return None if machine is None else await machine.trouble()

    def _fall_ill(self, words: str) -> None:
        if not self._trouble:
            self._tell("trouble", f"this worker takes no runs until a probe write works: {words}")
        self._trouble = words

    async def _recover(self) -> None:
        """Wait, then make a probe write; less and less often."""
        delay_s = min(PROBE_MAX_S, PROBE_S * 2 ** min(self._probes, 20))
        if await self._world.clock.wait(self._stop, delay_s):
            return
        self._probes += 1
        words = await self._machine_trouble()
        if words is None:
            self._trouble = ""
            self._tell("recovered", "a probe write works: this worker takes runs again")
        elif self._shift.until_idle and self._probes >= PROBES_UNTIL_IDLE:
            raise MachineTrouble(f"this worker cannot drive runs: {words}")
        else:
            self._trouble = words

    async def _take_some(self) -> bool:
        room = self._room_left
        if room <= 0:
            self._room.clear()
            await self._room.wait()
            await asyncio.sleep(TOGETHER_S)
            return True
        self._asked_for = room
        try:
            found = await self._begin_hinted(room)
        finally:
            self._asked_for = 0
        if not found:
            await self._or_stop(self._dispatch.wait(0.2 if self._shift.until_idle else IDLE_S))
        return found

    @property
    def _room_left(self) -> int:
        return self._shift.concurrency - len(self._tasks) - self._asked_for

    async def _begin_hinted(self, room: int) -> bool:
        taken = await self._dispatch.take(self._shift.queues, self._shift.capabilities, room)
        for one in taken:
            if self._stop.is_set() or self._trouble:
                await self._dispatch.done(one, 0)  # told to stop, or ill since: it is another worker's
            elif one.hint.run_id in self._tasks:
                await self._dispatch.done(one)  # it is looked at again when it is left
            else:
                self._begin(one.hint.run_id, one)
        return bool(taken)

    async def _is_idle(self) -> bool:
        """Says what is left and why. Asks the ledger: a queue also holds hints for other workers and for later."""
        try:
            await self._sweeper.redeliver()
            if await self._leftovers.may_take_more(self._stuck):
                return False
            left, count = await self._leftovers.listed(self._stuck)
        except (DispatchError, LedgerError) as error:
            await self._in_trouble(error)
            return False
        for one in left:
            self._say(Notice("skipped", f"left alone: {one.why}", one.run_id, one.workflow))
        rest = f"; {count} left alone" if count else ""
        self._tell("idle", f"nothing is left that this worker may take{rest}")
        return True

    def _begin(self, run_id: str, taken: Taken | None) -> None:
        if taken is not None:
            self._taken[run_id] = taken
        task = asyncio.create_task(self._attend(run_id))
        self._tasks[run_id] = task
        task.add_done_callback(self._leaving.discard)

    async def _attend(self, run_id: str) -> None:
        """One run, whatever becomes of it."""
        begun_us = self._world.clock.now().boot_us
        left = Left(TROUBLE_S, "")
        try:
            left = await self._delivered(run_id)
        except asyncio.CancelledError:
            left = Left(0.0, "the worker ends")
            raise
        except Exception as error:  # noqa: BLE001 one run must not end the worker
            left = self._troubled(run_id, f"{type(error).__name__}: {error}")
        finally:
            self._judge(left, was_driven=self._drivers.pop(run_id, None) is not None)
            self._leaving.add(self._tasks.pop(run_id))
            self._room.set()
            self._put_off(run_id, left)
            took_s = (self._world.clock.now().boot_us - begun_us) / 1e6
            if not left.quiet:
                self._tell("left", left.words, run_id=run_id, state=left.state, seconds=round(took_s, 3))
            await self._hand_back(run_id, left)

    def _judge(self, left: Left, *, was_driven: bool) -> None:
        """What a delivery says about this machine."""
        if left.trouble:
            self._fall_ill(left.trouble)
        elif was_driven and left.state is not None:
            self._probes = 0

    async def _delivered(self, run_id: str) -> Left:
        try:
            return await self._deliveries.deliver(run_id, lambda driver: self._attach(run_id, driver))
        except LeaseLost as error:
            self._tell("lost", f"{error.message}; its processes were stopped", run_id=run_id)
            if error.replaced is False:
                return Left(None, "whoever is free takes it up again")
            return Left(None, "another worker goes on with it")
        except (EventUnreadable, RowUnreadable) as error:
            return self._left_alone(run_id, error)
        except RecoupError as error:
            await self._examine()  # the ledger may lie on the disk that is full
            return self._troubled(run_id, error.message)

    def _left_alone(self, run_id: str, error: EventUnreadable | RowUnreadable) -> Left:
        """Nobody acts on a history that cannot be read. A worker of a newer version may be able to."""
        known = run_id in self._troubles
        words = f"left alone: {error.message}. {error.hint}"
        return msgspec.structs.replace(self._troubled(run_id, words), quiet=known, stuck=True)

    def _troubled(self, run_id: str, words: str) -> Left:
        """Nothing is known of the run but that it cannot even be looked at: less and less often."""
        if len(self._troubles) >= _REMEMBERED_MAX:
            self._troubles.clear()
        times = self._troubles[run_id] = self._troubles.get(run_id, 0) + 1
        return Left(min(TROUBLE_MAX_S, TROUBLE_S * 2 ** min(times - 1, 20)), words)

    def _put_off(self, run_id: str, left: Left) -> None:
        """Whose time has not come is not taken up as lost again and again."""
        if len(self._not_before_us) >= _REMEMBERED_MAX:
            self._not_before_us.clear()
        if left.again_in_s:
            self._not_before_us[run_id] = self._world.clock.now().boot_us + round(left.again_in_s * 1e6)
        self._stuck.pop(run_id, None)
        if left.stuck and len(self._stuck) < _REMEMBERED_MAX:
            self._stuck[run_id] = left.words.removeprefix("left alone: ")
        if left.state is not None:
            self._troubles.pop(run_id, None)

    def _attach(self, run_id: str, driver: Driver) -> None:
        self._drivers[run_id] = driver
        state = driver.state
        delivery = state.driver.delivery + (not state.begun or is_redelivery(state))
        self._tell("taken", f"delivery {delivery}", run_id=run_id, state=state)
        if self._hurry.is_set():
            driver.interrupt(_DRAINED)

    async def _hand_back(self, run_id: str, left: Left) -> None:
        taken, again_in_s = self._taken.pop(run_id, None), left.again_in_s
        with contextlib.suppress(DispatchError):  # then its hold runs out, or the sweeper finds it
            if taken is not None:
                await self._dispatch.done(taken, again_in_s)
            elif again_in_s is not None and left.state and (hint := hint_of(left.state)):
                await self._dispatch.hint([hint], again_in_s)

    # What others have lost

    async def _take_up_lost(self) -> None:
        """Without waiting for a hint: theirs may be held by the one who is gone."""
        if self._trouble:
            return
        for lost in await self._sweeper.lost():
            run_id, now_us = lost.run.run_id, self._world.clock.now().boot_us
            if self._stop.is_set() or run_id in self._tasks or self._not_before_us.get(run_id, 0) > now_us:
                continue
            if self._room_left > 0:
                self._begin(run_id, None)
                await asyncio.sleep(random.uniform(0, 0.02))  # not all workers at once for the same runs
            else:
                await self._dispatch.hint([self._sweeper.hint(lost.run)])

    # Being there

    async def _keep_all(self) -> None:
        await self._dispatch.keep(list(self._taken.values()))
        shift = self._shift
        row = WorkerRow(
            worker_id=shift.worker_id,
            identity=self._world.census.own_identity(),
            queues=shift.queues,
            capabilities=tuple(sorted(shift.capabilities)),
            concurrency=shift.concurrency,
            version=shift.version,
            started_at=self._started_at,
            runs=tuple(self._tasks),
            draining=self._stop.is_set(),
            trouble=self._trouble,
            clock_ahead_s=round(self._world.clock.ahead_s, 3),
            waiting_pages=tuple(run_id for make in self._world.kinds.values() for run_id in make().waiting()),
        )
        await self._world.ledger.keep_worker(row, self._world.clock.now())

    async def _do_chores(self) -> None:
        for words in await self._chores():
            self._tell("trouble", words)

    async def _tell_losses(self) -> None:
        for loss in await tell_losses(self._world):
            runs = "1 run was not over" if loss.runs == 1 else f"{loss.runs} runs were not over"
            self._tell("trouble", f"the database lost acknowledged events: {loss.detail}; {runs}")

    async def _again_and_again(self, work: Callable[[], Awaitable[object]], every_s: float) -> None:
        while True:
            try:
                await work()
            except RecoupError as error:
                self._tell("trouble", error.message)
            except Exception as error:  # noqa: BLE001 without this the worker would only seem to be there
                self._tell("trouble", f"{type(error).__name__}: {error}")
            await asyncio.sleep(every_s * random.uniform(0.8, 1.0))

    async def _in_trouble(self, error: RecoupError) -> None:
        self._tell("trouble", error.message)
        await self._or_stop(asyncio.sleep(TROUBLE_S * random.uniform(0.5, 1.0)))

    # Stopping

    async def _wind_down(self) -> None:
        await self._ended_within(self._shift.grace_s, unless=self._hurry)
        self._hurry.set()
        for driver in list(self._drivers.values()):
            driver.interrupt(_DRAINED)
        await self._ended_within(STOP_S)

    async def _ended_within(self, seconds: float, unless: asyncio.Event | None = None) -> None:
        waiting = [*self._tasks.values(), *self._leaving]
        if not waiting:
            return
        ended = asyncio.ensure_future(asyncio.wait(waiting, timeout=seconds))
        await _first(ended, *([unless.wait()] if unless else []))

    async def _or_stop(self, work: Coroutine[Any, Any, object]) -> None:
        await _first(work, self._stop.wait())

    def _tell(
        self,
        event: str,
        words: str,
        *,
        run_id: str | None = None,
        state: RunState | None = None,
        seconds: float | None = None,
    ) -> None:
        workflow, status = (state.workflow, state.status.value) if state else (None, None)
        self._say(Notice(event, words, run_id, workflow, status, seconds))


_DRAINED = "its worker was told to stop"


async def _first(*works: Any) -> None:
    """Until one of them is done; the others are cancelled. What the first one raises is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error
