"""The world that the steps of a storm act upon: what they do, what they leave behind, and what is true about it."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from recoup.errors import CheckpointBroken
from recoup.model.events import CheckResult
from recoup.model.failure import FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.outcome import Captured, Collected, Examined, Order, Outcome, Scene
from recoup.model.plan import Check, FileCheck, Output, RunAction
from recoup.model.redacted import Redacted
from recoup.model.workspace import Adopted, Baseline, Change, Snapshot, Source
from recoup.ports import Hooks, Lifeline, Redactor
from recoup.simulation.virtual_loop import VirtualClock

_UNKNOWN_ENDS = (FailureKind.CONNECTION_LOST, FailureKind.SIGNALLED, FailureKind.WATCHDOG)
_KNOWN_ENDS = (
    *(FailureKind.SPAWN_FAILED, FailureKind.OUT_OF_MEMORY, FailureKind.DISK_FULL, FailureKind.EXCEPTION),
    *(FailureKind.AGENT_ERROR, FailureKind.TOOL_DENIED, FailureKind.RATE_LIMITED, FailureKind.RUNTIME_DRIFT),
    *(FailureKind.TARGET_NOT_FOUND, FailureKind.LOW_CONFIDENCE, FailureKind.INVALID_INPUT),
)
_SAYINGS = (
    "curl: (56) Recv failure: connection reset by peer",
    "HTTP 503 service unavailable",
    "something that nobody has seen before",
    "too many requests, retry after 30",
    "AssertionError: the sum is wrong",
    "permission denied: invalid credentials",
)
HANDLER = "handler"
"""The command of every handler: it has no effect that counts."""


class Truth:
    """What really happened, whoever knows about it."""

    def __init__(self) -> None:
        self._effects: Counter[tuple[str, str]] = Counter()
        self._roots: dict[str, str] = {}

    def link(self, run_id: str, reuse_from: str) -> None:
        """What one run of a family did is done for all of it."""
        self._roots[run_id] = self.root(reuse_from)

    def root(self, run_id: str) -> str:
        return self._roots.get(run_id, run_id)

    def take_effect(self, run_id: str, step_id: str) -> None:
        self._effects[self.root(run_id), step_id] += 1

    def times_done(self, run_id: str, step_id: str) -> int:
        """In the family of the run."""
        return self._effects[self.root(run_id), step_id]


class Deed(msgspec.Struct, frozen=True):
    """What one attempt comes to. It depends on which attempt it is, and on nothing else."""

    outcome: Outcome
    lasts_s: float
    effect: bool
    hangs: FailureKind | None = None
    early: bool = False
    """The effect is there as soon as it has begun, whatever becomes of the attempt."""


def deed(seed: str, order: Order, trouble: float) -> Deed:
    which = f"{seed}:{order.run_id}:{order.step_id}:{order.action}"
    chance = random.Random(which)
    if chance.random() < 0.5:  # the others end alike each time
        chance = random.Random(f"{which}:{order.attempt}")
    lasts_s, early = chance.choice((0.0, 0.5, 2.0, 7.0)), chance.random() < 0.5
    if chance.random() >= trouble:
        said = Captured(b"done\n", b"", 5) if chance.random() < 0.8 else Captured()
        return Deed(Outcome(exit_code=0, stdout=said), lasts_s, effect=True, early=early)
    bad = chance.random()
    if bad < 0.15:
        kind = chance.choice((FailureKind.WALL_TIMEOUT, FailureKind.IDLE_TIMEOUT))
        return Deed(Outcome(kind=kind, outcome_known=False), 0, effect=chance.random() < 0.3, hangs=kind)
    if bad < 0.3:
        outcome = Outcome(kind=chance.choice(_UNKNOWN_ENDS), outcome_known=False, detail="gone")
        return Deed(outcome, lasts_s, effect=chance.random() < 0.5)
    text = chance.choice(_SAYINGS) + (f" ({chance.randrange(9)} of 9)" if chance.random() < 0.3 else "")
    said = Captured(text.encode(), b"", len(text))
    if bad < 0.5:
        kind = chance.choice(_KNOWN_ENDS)
        return Deed(Outcome(kind=kind, detail=text, stderr=said), lasts_s, effect=False)
    return Deed(Outcome(exit_code=chance.choice((1, 1, 2, 56, 75)), stderr=said), lasts_s, effect=False)


class StormRuntime:
    """Performs deeds in virtual time. Outside the driver (`inline` False) it has keepers, and these heed the lease."""

    def __init__(
        self,
        *,
        inline: bool,
        clock: VirtualClock,
        truth: Truth,
        seed: str,
        trouble: float,
        touch: Callable[[str, str, str], None],
        must_live: Callable[[], None],
    ) -> None:
        self.inline = inline
        self._clock = clock
        self._truth = truth
        self._seed = seed
        self._trouble = trouble
        self._touch = touch
        self._must_live = must_live
        self._pids = 0

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        done = deed(self._seed, order, self._trouble)
        lasts_s = done.lasts_s
        if done.hangs is FailureKind.WALL_TIMEOUT:
            lasts_s = order.policy.step_timeout_seconds
        elif done.hangs is not None:
            lasts_s = min(order.policy.step_timeout_seconds, order.policy.step_idle_timeout_seconds)
        if not self.inline:
            self._pids += 1
            await hooks.launched(ProcessIdentity("storm", self._clock.now().boot_id, self._pids, 1))
        if done.early:
            self._take_effect(order, done)
        if hooks.stop.is_set() or (lasts_s > 0 and await self._clock.wait(hooks.stop, lasts_s)):
            return Outcome(interrupted=True)
        self._must_live()
        if self._clock.now().boot_us / 1e6 >= hooks.lifeline.deadline_boot_s:
            return Outcome(kind=FailureKind.DRIVER_LOST, outcome_known=False, detail="the lease ran out")
        if not done.early:
            self._take_effect(order, done)
        return msgspec.structs.replace(
            done.outcome,
            duration_ms=round(lasts_s * 1000),
            idle_ms=round(lasts_s * 1000) if done.hangs else 0,
        )

    def _take_effect(self, order: Order, done: Deed) -> None:
        if isinstance(order.action, RunAction) and order.action.command == HANDLER:
            return
        if done.effect:
            self._truth.take_effect(order.run_id, order.step_id)
        self._touch(order.run_id, order.cwd, order.step_id if done.effect else f"{order.step_id}?")


class StormInspector:
    """Looks at what is true. A file check asks whether its step was done."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    async def examine(
        self, checks: Sequence[Check], scene: Scene, lifeline: Lifeline, stop: asyncio.Event
    ) -> Examined:
        del lifeline
        return Examined(tuple(self._one(check, scene, stop) for check in checks))

    def _one(self, check: Check, scene: Scene, stop: asyncio.Event) -> CheckResult:
        if stop.is_set():
            return CheckResult("done", None, "stopped")
        assert isinstance(check, FileCheck), "storms have file checks only"
        held = self._truth.times_done(scene.env["RECOUP_RUN_ID"], check.path) > 0
        return CheckResult(f"file {check.path}", held, "" if held else "it is not there")

    async def collect(self, outputs: dict[str, Output], scene: Scene) -> Collected:
        del outputs, scene
        return Collected()

    def redacting(self, redactor: Redactor) -> StormInspector:
        del redactor
        return self


class StormWorkspaces:
    """The workspaces of one run: names of what was done in them, in place of files."""

    def __init__(
        self, root: Path, chance: random.Random, of_run: Callable[[str], StormWorkspaces | None]
    ) -> None:
        self._root = root
        self._chance = chance
        self._of_run = of_run
        self._contents: dict[int, tuple[str, ...]] = {}
        self._stored: dict[str, tuple[str, ...]] = {}
        self._paths: dict[int, Path] = {}
        self._current = 1

    def touch(self, cwd: str, what: str) -> None:
        number = int(cwd.rsplit("-", 1)[-1])
        if number in self._contents and what not in self._contents[number]:
            self._contents[number] += (what,)

    async def create(self, source: Source) -> Baseline:
        del source
        self._contents[1] = ()
        return Baseline(self._store(()), "m")

    def path(self, number: int) -> Path:
        """Nobody writes there: all runs share one folder for each number."""
        path = self._paths.get(number)
        if path is None:
            path = self._paths[number] = self._root / f"workspace-{number}"
            path.mkdir(exist_ok=True)
        return path

    def current(self) -> int:
        return self._current

    async def snapshot(self, number: int) -> Snapshot:
        return Snapshot(self._store(self._contents[number]), "m")

    async def change(self, before: str, after: str) -> Change:
        return Change(None if before == after else f"{before[:8]}-{after[:8]}")

    async def patch(self, before: str, after: str, limit_bytes: int) -> bytes:
        del before, after, limit_bytes
        return b""

    async def changed_contents(
        self, before: str, after: str, limit_bytes: int
    ) -> Sequence[tuple[str, bytes]]:
        del before, after, limit_bytes
        return ()

    async def restore(self, snapshot: Snapshot) -> int:
        if self._chance.random() < 0.05 and self._stored[snapshot.tree]:
            raise CheckpointBroken("the checkpoint was lost in the storm")
        number = max(self._contents) + 1
        self._contents[number] = self._stored[snapshot.tree]
        return number

    async def matches(self, number: int, snapshot: Snapshot) -> bool:
        return self._contents[number] == self._stored[snapshot.tree]

    async def damage(self, number: int, before: Snapshot) -> str | None:
        del number, before
        return None

    async def adopt(self, run_dir: Path, snapshots: Sequence[Snapshot]) -> Adopted:
        other = self._of_run(run_dir.name)
        for count, snapshot in enumerate(snapshots):
            if other is None or snapshot.tree not in other._stored:
                return Adopted(count, f"the checkpoint {snapshot.tree} is not kept in {run_dir.name}")
            self._stored[snapshot.tree] = other._stored[snapshot.tree]
        return Adopted(len(snapshots))

    async def swap(self, number: int, keep: int) -> None:
        del keep
        self._current = number

    def _store(self, content: tuple[str, ...]) -> str:
        tree = hashlib.sha256("\n".join(content).encode()).hexdigest()[:16]
        self._stored[tree] = content
        return tree


class Papers:
    """Files of a run that nobody reads."""

    aside = None

    def __init__(self, root: Path) -> None:
        self.root = root

    def output_path(self, step_index: int, attempt: int) -> Path:
        return self.root / f"{step_index}-{attempt}"

    def written_output(self, step_index: int, attempt: int) -> Path | None:
        del step_index, attempt
        return None

    def forget_output(self, step_index: int, attempt: int) -> None: ...

    def withhold_log(self, step_index: int, words: Redacted) -> None: ...

    def redact_log(self, step_index: int, redactor: Redactor) -> None: ...

    def write_patch(self, step_index: int, patch: Redacted) -> None: ...

    def write_step_state(self, step_index: int, document: Redacted) -> None: ...

    def write_attempt_state(self, step_index: int, attempt: int, document: Redacted) -> None: ...

    def write_retry_context(self, step_index: int, attempt: int, document: Redacted) -> Path:
        del document
        return self.root / f"{step_index}-{attempt}.json"

    def write_private_retry_context(self, step_index: int, attempt: int, document: bytes) -> Path:
        del document
        return self.root / f"{step_index}-{attempt}.private.json"


class Shelf:
    """Evidence by content, in memory."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def put(self, content: Redacted, limit_bytes: int) -> str:
        del limit_bytes
        handle = hashlib.sha256(content.data).hexdigest()
        self._kept[handle] = content.data
        return handle

    async def get(self, handle: str) -> bytes:
        return self._kept[handle]


class NoSecrets:
    """A vault in which nothing is."""

    def put(self, name: str, value: str) -> None: ...

    async def settle(self) -> None: ...

    def get(self, name: str) -> str:
        raise KeyError(name)

    def find(self, name: str) -> str | None:
        del name
        return None

    def mac(self, value: str) -> str:
        return value
