"""A storm: many runs of many workflows, driven by several processes at once, while everything goes wrong that can."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import heapq
import random
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec

from recoup.engine.forcing import force_mode
from recoup.errors import LedgerError, RecoupError
from recoup.kernel.breaker import standing
from recoup.kernel.canonical import digest
from recoup.kernel.controls import CONTROLS, answers_last, possible
from recoup.kernel.controls.cancellation import CANCEL
from recoup.kernel.controls.gates import APPROVE, REJECT
from recoup.kernel.controls.hold import RESUME
from recoup.kernel.controls.kind import FORCE
from recoup.kernel.controls.settlement import DONE, NOT_DONE, SETTLE
from recoup.kernel.policies import policy_digest
from recoup.kernel.position import unsettled, waits_for_a_person
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.events import RunSubmitted
from recoup.model.ids import EVERY_WORKFLOW, ProcessIdentity, run_stream
from recoup.model.mode import Mode
from recoup.model.plan import Plan, Repeat
from recoup.model.policy import Policy, WrittenPolicy
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import Append, Control, Draft, PolicyBody, StreamAppend
from recoup.simulation.invariants import Record, broken, cached_rows_equal_a_rebuild, read_record
from recoup.simulation.plans import storm_plan, storm_policy
from recoup.simulation.scripted import Truth
from recoup.simulation.surface import Surface
from recoup.simulation.worker import Endless, Killed, PolicyOnDisk, Process

DAYS_MAX = 400
"""Virtual; a storm that has not ended by then never will."""
_PAGE = 10_000
_RECENT = 50
"""Operators look at so many of the newest runs."""
_TIDY_S = 30.0
_PATIENCE = 6
"""How often an operator deals with a run before they cancel it."""
_IDLE_S = 5.0
_TEN_YEARS_S = 10 * 365 * 86_400.0


class Size(msgspec.Struct, frozen=True):
    """How big a storm is."""

    runs: int = 10_000
    workflows: int = 30
    processes: int = 4
    own_connections: bool = False
    """Each process opens the database by itself, as real ones do; it costs a few queries at every commit."""
    trouble: float = 0.2
    """The share of attempts that go wrong."""
    unrest: float = 0.2
    """Troubles from outside (kills, controls, jumps of the clock ...) for each run."""
    arrivals_s: float = 1.0
    """Between two submissions, on average."""
    linked: float = 0.1
    """The share of runs that are to reuse an earlier one."""
    policies_change: bool = True


def small(seed: int) -> Size:
    """A storm in a teacup, with another shape for each seed."""
    chance = random.Random(f"size:{seed}")
    return Size(
        runs=chance.randint(3, 8),
        workflows=chance.randint(1, 3),
        processes=chance.randint(1, 3),
        own_connections=chance.random() < 0.5,
        trouble=chance.choice((0.1, 0.3, 0.6)),
        unrest=chance.choice((0.0, 1.0, 2.0)),
        linked=chance.choice((0.0, 0.1, 0.5)),
        policies_change=chance.random() < 0.5,
    )


class Ended(msgspec.Struct, kw_only=True):
    """What a storm left behind."""

    seed: int
    runs: int
    events: int = 0
    digest: str = ""
    """Of every event, its place and its time."""
    statuses: dict[str, int] = {}
    types: dict[str, int] = {}
    troubles: dict[str, int] = {}
    kills: int = 0
    virtual_s: float = 0
    unanswered: list[str] = []
    """Controls that nobody has dealt with."""
    unended: list[str] = []
    """Runs that have not ended when all was calm again."""
    broken: list[str] = []
    """The invariants that do not hold, in words."""


class Storm:
    """One storm, from a seed. `rage` drives it to its end; the ledger it leaves is what counts."""

    def __init__(self, seed: int, size: Size, root: Path) -> None:
        self.seed = seed
        self.size = size
        self.surface = Surface(str(seed), root, size.trouble)
        self.path = root / "ledger.db"
        self._chance = random.Random(f"storm:{seed}")
        self._order, self._pids, self._controls = count(), count(100), count(1)
        self._due: list[tuple[int, int, str]] = []
        self._parked: dict[str, None] = {}
        self._submitted = 0
        self._open: dict[str, None] = {}
        """Runs that are not over, in the order of their submission."""
        self._plans: dict[str, Plan] = {}
        self._closed: dict[str, int] = {}
        """Until when it is not worth a look whether a workflow lets a run go on."""
        self._endless: list[str] = []
        self._calm = False
        self._sent: list[tuple[str, str]] = []
        self._troubles: Counter[str] = Counter()
        self._kills = 0
        self._dealt_with: Counter[str] = Counter()
        self._living: list[Process] = []
        self._disks = [PolicyOnDisk(f"storm:policy-{number}") for number in range(size.processes)]

    def rage(self) -> Ended:
        with _seldom_collected():
            return self.surface.loop.run(self._rage())

    async def _rage(self) -> Ended:
        own = self.size.own_connections
        opened = [SqliteLedger(self.path) for _ in range(self.size.processes + 1 if own else 1)]
        ledgers = opened if own else opened * (self.size.processes + 1)
        try:
            self._operator = self._process(ledgers[-1], PolicyOnDisk("storm:operator"))
            await self._all(ledgers[:-1])
            return await self._ended(ledgers[-1])
        finally:
            for ledger in opened:
                await ledger.close()

    async def _all(self, ledgers: list[SqliteLedger]) -> None:
        workers = [
            asyncio.create_task(self._work(ledger, disk))
            for ledger, disk in zip(ledgers, self._disks, strict=True)
        ]
        try:
            await asyncio.gather(self._submit_all(), self._make_trouble())
            self._calm = True
            await self._tidy_up()
        finally:
            for worker in workers:
                worker.cancel()
            ends = await asyncio.gather(*workers, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
                raise end

    # Submissions

    async def _submit_all(self) -> None:
        names = [f"w{number}" for number in range(self.size.workflows)]
        made = {name: self._kinds_of_plans(name) for name in names}
        policies = [storm_policy(self._chance) for _ in range(3 if self.size.policies_change else 1)]
        for number in range(self.size.runs):
            reuse_from = self._to_reuse()
            plans = [self._plans[reuse_from]] if reuse_from else made[self._chance.choice(names)]
            plan = self._chance.choice(plans)
            await self._submit(f"r{number:05d}", plan, self._chance.choice(policies), reuse_from)
            await self.surface.clock.sleep(self._chance.choice((0, 1, 2)) * self.size.arrivals_s)

    def _to_reuse(self) -> str | None:
        """Mostly a run that is over; now and then one that may still go on beside the new one."""
        if self._chance.random() >= self.size.linked:
            return None
        recent = list(self._plans)[-_RECENT:]
        over = [run_id for run_id in recent if run_id not in self._open]
        among = over if over and self._chance.random() < 0.8 else recent
        return self._chance.choice(among) if among else None

    def _kinds_of_plans(self, name: str) -> list[Plan]:
        return [storm_plan(self._chance, name, str(self.surface.root)) for _ in range(2)]

    async def _submit(self, run_id: str, plan: Plan, policy: Policy, reuse_from: str | None) -> None:
        redactor, named = self.surface.redactor, policy_digest(policy)
        fact = RunSubmitted(
            workflow=plan.name,
            plan_digest=digest(msgspec.to_builtins(msgspec.structs.replace(plan, folder="."))),
            plan=plan,
            plan_redacted=False,
            inputs={},
            policy_digest=named,
            reuse_from=reuse_from,
        )
        if reuse_from is not None:
            self.surface.truth.link(run_id, reuse_from)
        await self._operator.ledger.append(
            Append(
                at=self.surface.clock.now(),
                streams=(StreamAppend(run_stream(run_id), (Draft(fact.TYPE, redactor.seal(fact)),), 0),),
                policies=(PolicyBody(named, redactor.seal(policy)),),
            )
        )
        self._submitted += 1
        self._open[run_id], self._plans[run_id] = None, plan
        self._soon(run_id, 0)

    # Processes

    def _process(self, ledger: SqliteLedger, disk: PolicyOnDisk) -> Process:
        boot_id = self.surface.clock.now().boot_id
        identity = ProcessIdentity("storm", boot_id, next(self._pids), 1)
        return Process(self.surface, ledger, identity, disk)

    async def _work(self, ledger: SqliteLedger, disk: PolicyOnDisk) -> None:
        """One process after the other: each until it is killed."""
        while True:
            process = self._process(ledger, disk)
            self._living.append(process)
            self._foretell(process)
            try:
                await self._drive_runs(process)
            except Killed:
                self._kills += 1
                self._living.remove(process)
                await self.surface.clock.sleep(1)

    def _foretell(self, process: Process) -> None:
        if self._calm or self._chance.random() >= min(0.6, self.size.unrest):
            return
        fate, chance = process.fate, self._chance
        fate.dies_at, fate.dies_after_it = chance.randint(1, 400), chance.random() < 0.5
        if chance.random() < 0.3:
            fate.busy_at = chance.randint(1, 200)

    async def _drive_runs(self, process: Process) -> None:
        while True:
            run_id = self._next()
            if run_id is None:
                await self.surface.clock.sleep(self._idle_s())
                process.fate.must_live()
                continue
            if self._is_closed(run_id):
                continue
            try:
                left = await process.drive(run_id)
            except (Killed, RecoupError) as error:
                self._soon(run_id, 1 if isinstance(error, Killed) else 5)
                if isinstance(error, Killed):
                    raise
                continue
            except Endless:
                self._open.pop(run_id, None)
                self._endless.append(run_id)
                continue
            if left.closed:
                self._close(run_id, left.look_again_s or 0)
            elif left.over:
                self._open.pop(run_id, None)
            elif left.look_again_s is None:
                self._parked[run_id] = None
            else:
                self._soon(run_id, left.look_again_s)

    def _close(self, run_id: str, seconds: float) -> None:
        """Nobody looks at the other runs of a workflow while it lets none go on, as a queue does not deliver them."""
        self._closed[self._plans[run_id].name] = self.surface.loop.now_us + round(seconds * 1e6)
        self._soon(run_id, seconds)

    def _is_closed(self, run_id: str) -> bool:
        left_s = (self._closed.get(self._plans[run_id].name, 0) - self.surface.loop.now_us) / 1e6
        if left_s > 0:
            self._soon(run_id, left_s)
        return left_s > 0

    def _soon(self, run_id: str, seconds: float) -> None:
        due_us = self.surface.loop.now_us + round(seconds * 1e6)
        heapq.heappush(self._due, (due_us, next(self._order), run_id))

    def _next(self) -> str | None:
        if not self._due or self._due[0][0] > self.surface.loop.now_us:
            return None
        return heapq.heappop(self._due)[2]

    def _idle_s(self) -> float:
        if not self._due:
            return _IDLE_S
        return min(_IDLE_S, max(0.001, (self._due[0][0] - self.surface.loop.now_us) / 1e6))

    # Troubles

    async def _make_trouble(self) -> None:
        kinds = {
            self._control: 12,
            self._kill: 4,
            self._freeze: 3,
            self._force: 3,
            self._jump: 1,
            self._reboot: 1,
            self._write_policy: 2 if self.size.policies_change else 0,
        }
        for _ in range(round(self.size.runs * self.size.unrest)):
            await self.surface.clock.sleep(
                self._chance.random() * 2 * self.size.arrivals_s / self.size.unrest
            )
            (trouble,) = self._chance.choices(list(kinds), list(kinds.values()))
            self._troubles[trouble.__name__.strip("_")] += 1
            await trouble()

    async def _control(self) -> None:
        if not self._open:
            return
        run_id = self._chance.choice(list(self._open)[-_RECENT:])
        state = await self._operator.state(run_id)
        makes_sense = possible(state, Policy()) if self._chance.random() < 0.7 else []
        kind = CONTROLS[self._chance.choice(makes_sense or [kind.name for kind in answers_last()])]
        if kind is CANCEL and self._chance.random() < 0.7:
            return
        step_id, argument = None, None
        if kind.takes.step.is_required:
            steps = kind.steps(state)
            if not steps:
                return
            step_id = steps[0] if kind.is_answer else self._chance.choice(steps)
        if kind.takes.answers:
            argument = self._said_truly(state)
        elif kind.takes.beyond and self._chance.random() < 0.5:
            argument = FORCE
        await self._send(run_id, kind.name, step_id, argument)

    def _said_truly(self, state: RunState) -> str:
        step = unsettled(state)
        assert step is not None
        return DONE if self.surface.truth.times_done(state.run_id, step.step_id) else NOT_DONE

    async def _send(self, run_id: str, action: str, step_id: str | None, argument: str | None) -> None:
        control = Control(
            id=f"c{next(self._controls):06d}",
            run_id=run_id,
            action=action,
            reason="a storm",
            actor="operator",
            at=self.surface.clock.now(),
            step_id=step_id,
            argument=argument,
        )
        await self._operator.ledger.send_control(control)
        self._sent.append((control.id, run_id))
        await self._answer(run_id)

    async def _answer(self, run_id: str) -> bool:
        try:
            state = await self._operator.answer(run_id)
        except LedgerError:
            return False
        if state is None:
            return False
        if run_id in self._parked and not waits_for_a_person(state):
            del self._parked[run_id]
            self._soon(run_id, 1)
        return True

    async def _kill(self) -> None:
        if self._living:
            self._chance.choice(self._living).fate.end()

    async def _freeze(self) -> None:
        if self._living:
            until_us = self.surface.loop.now_us + round(self._chance.choice((5, 45, 90)) * 1e6)
            self._chance.choice(self._living).fate.frozen_until_us = until_us

    async def _force(self) -> None:
        chance = self._chance
        workflow = EVERY_WORKFLOW if chance.random() < 0.1 else f"w{chance.randrange(self.size.workflows)}"
        mode = chance.choice((Mode.RUNNING, Mode.RUNNING, Mode.DEGRADED, Mode.QUARANTINED, Mode.PAUSED))
        await self._put_into(workflow, mode, chance.choice((30.0, 120.0, None)))

    async def _put_into(self, workflow: str, mode: Mode, for_s: float | None) -> None:
        await force_mode(
            *(self._operator.ledger, self.surface.redactor, workflow, mode),
            reason="a storm",
            actor="operator",
            for_s=for_s,
            policy=Policy(quarantine_duration_s=60),
            now=self.surface.clock.now(),
        )

    async def _jump(self) -> None:
        self.surface.clock.jump_wall(self._chance.choice((-3_600.0, 3_600.0, _TEN_YEARS_S, -_TEN_YEARS_S)))

    async def _reboot(self) -> None:
        for process in self._living:
            process.fate.end()
        self.surface.clock.reboot()

    async def _write_policy(self) -> None:
        policy = storm_policy(self._chance)
        bad = self._chance.random() < 0.2
        written = WrittenPolicy(policy_digest(policy), None if bad else policy, "half-written" if bad else "")
        self._chance.choice(self._disks).write(written)

    # The end

    async def _tidy_up(self) -> None:
        """Operators come and deal with whatever waits for them, until nothing does."""
        for process in self._living:
            process.fate.dies_at = process.fate.busy_at = None
        deadline_us = self.surface.loop.now_us + DAYS_MAX * 86_400_000_000
        while self._open and self.surface.loop.now_us < deadline_us:
            await self._let_run()
            for run_id in list(self._parked):
                await self._deal_with(run_id)
            await self.surface.clock.sleep(_TIDY_S)
        await self._answer_all()

    async def _let_run(self) -> None:
        names = [EVERY_WORKFLOW, *(f"w{number}" for number in range(self.size.workflows))]
        for name in names:
            health = (await self._operator.ledger.workflow_state(name)).health
            at = standing(health, self.surface.clock.now())
            if at.mode.stops and at.left_s is None:
                await self._put_into(name, Mode.RUNNING, None)

    async def _deal_with(self, run_id: str) -> None:
        state = await self._operator.state(run_id)
        self._dealt_with[run_id] += 1
        if self._dealt_with[run_id] > _PATIENCE:
            await self._send(run_id, CANCEL.name, None, None)
        elif unsettled(state) is not None:
            await self._send(run_id, SETTLE.name, None, self._said_truly(state))
        elif state.status is RunStatus.ESCALATED:
            await self._send(run_id, CANCEL.name, None, None)
        elif state.hold.paused:
            await self._send(run_id, RESUME.name, None, None)
        elif state.hold.waiting_for == "approval":
            answer = self._chance.choice((APPROVE, APPROVE, REJECT))
            await self._send(run_id, answer.name, None, None)
        else:
            await self._answer(run_id)

    async def _answer_all(self) -> None:
        for control_id, run_id in self._sent:
            control = await self._operator.ledger.control(control_id)
            if control is not None and control.outcome is None:
                await self._answer(run_id)

    async def _ended(self, ledger: SqliteLedger) -> Ended:
        unanswered = []
        for control_id, _ in self._sent:
            control = await ledger.control(control_id)
            if control is None or control.outcome is None:
                unanswered.append(control_id)
        ended = Ended(
            seed=self.seed,
            runs=self._submitted,
            troubles=dict(self._troubles),
            kills=self._kills,
            virtual_s=self.surface.loop.time(),
            unanswered=unanswered,
            unended=list(self._open),
        )
        await _read_all(ledger, ended, str(self.surface.root).encode())
        rows = (await ledger.runs(limit=self._submitted + 1)).rows
        ended.statuses = dict(sorted(Counter(row.status for row in rows).items()))
        ended.broken = await self._broken(ledger, ended)
        return ended

    async def _broken(self, ledger: SqliteLedger, ended: Ended) -> list[str]:
        record = await read_record(ledger)
        found = broken(record) + await cached_rows_equal_a_rebuild(ledger, record)
        found += [f"every_run_ends: {run_id} has not" for run_id in ended.unended]
        found += [f"every_run_ends: {run_id} goes on and on" for run_id in self._endless]
        found += [f"every_control_is_answered: {control_id} is not" for control_id in ended.unanswered]
        found += [f"no_task_dies_unheard: {one}" for one in self.surface.loop.unhandled]
        return found + done_once(record, self.surface.truth)


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Almost nothing here lives in cycles; to look for them at the usual rate costs a tenth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def done_once(record: Record, truth: Truth) -> list[str]:
    """What must not be repeated has had its effect at most once, whatever the ledger says."""
    return [
        f"done_once: {step.id} of run {run_id} was done {times} times"
        for run_id in record.runs
        for step in record.submission(run_id).plan.steps
        if step.repeat is Repeat.NEVER and (times := truth.times_done(run_id, step.id)) > 1
    ]


async def _read_all(ledger: SqliteLedger, ended: Ended, place: bytes) -> None:
    """`place`: where the storm happens to be, which says nothing about it."""
    sum_, types, after = hashlib.sha256(), Counter[str](), 0
    while True:
        page = await ledger.arrivals(after, _PAGE)
        for one in page:
            at = one.at
            sum_.update(f"{one.stream} {one.seq} {at.wall_us} {at.boot_us} {at.boot_id} {one.type} ".encode())
            sum_.update(one.payload.data.replace(place, b""))
        types.update(one.type for one in page)
        ended.events += len(page)
        if len(page) < _PAGE:
            break
        after = page[-1].number
    ended.digest, ended.types = sum_.hexdigest(), dict(sorted(types.items()))
