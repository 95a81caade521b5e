"""The heals of all workflows, and where people say what they think of them.

A word goes into the stream of the workflow's targets, at the place where that stream ended when it was looked through:
of two people who decide at once the second is told of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from recoup.damage import read_leniently
from recoup.errors import NotFound, UsageError
from recoup.kernel.healing import target_digest
from recoup.kernel.memory import ACCEPTED, identity
from recoup.kernel.reviewing import Review, Reviewed, Word, named_by
from recoup.model.events import Event, RunSubmitted, TargetHealed, TargetLearned, TargetRejected
from recoup.model.ids import run_stream, targets_stream
from recoup.model.instant import Instant
from recoup.model.plan import BrowserAction, Plan
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.operations.events import submission_of
from recoup.ports import Clock, Ledger, RedactorOf
from recoup.streams import append_if, pages

if TYPE_CHECKING:
    from recoup.app import App

EVENTS_MAX = 50_000
"""Of a stream, the last ones: older heals are not looked through any more."""
_PAGE = 5_000
_TRIES_MAX = 50
"""Runs append to the stream, too."""


class Heal(msgspec.Struct, frozen=True):
    """One heal with all that is known of it."""

    workflow: str
    reviewed: Reviewed
    plan_source: str | None = None
    """Where the plan was when it was submitted."""
    plan: Plan | None = None
    """As it was run; None: that was forgotten."""

    @property
    def fact(self) -> TargetHealed:
        return self.reviewed.heal

    @property
    def name(self) -> str:
        return self.reviewed.name


class HealFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which heals are meant."""

    workflow: str | None = None
    run_id: str | None = None
    """Of one run also those whose attempts failed afterwards."""
    state: str | None = None
    """waiting | applied | accepted | rejected."""


class Judged(msgspec.Struct, frozen=True):
    """The result of accepting or rejecting a heal."""

    before: Word | None
    """The earlier verdict, in which case nothing was recorded."""
    troubles: list[str]
    """What went wrong beside it, in words."""


async def list_heals(app: App, wanted: HealFilter, limit: int) -> list[Heal]:
    """Newest first: what was taken for what, and what became of it."""
    desk = heals_of(app)
    if wanted.run_id is not None:
        home = await workflow_of(app, wanted.run_id)
        names = [home] if home is not None and wanted.workflow in (None, home) else []
    else:
        names = [wanted.workflow] if wanted.workflow is not None else await desk.workflows()
    return await desk.newest(names, lambda one: wanted.state in (None, one.state), limit, wanted.run_id)


async def find_heal(app: App, run: str, step: str, attempt: int | None) -> Heal:
    """The heal with this name; `step` may be the beginning of one, and so may `run`, where no run has that id. Raises
    NotFound."""
    desk, home = heals_of(app), await workflow_of(app, run)
    return await desk.one(await desk.workflows() if home is None else [home], run, step, attempt)


async def unsaid_heals(app: App, workflow: str | None, limit: int) -> list[Heal]:
    """Heals without a verdict, once each: what was taken in several runs counts once, and the newest heal stands
    for it."""
    desk = heals_of(app)
    names = [workflow] if workflow is not None else await desk.workflows()
    found = await desk.newest(names, lambda one: one.word is None, limit)
    return list({
        (heal.workflow, heal.fact.step_id, heal.fact.target_digest, heal.fact.identity): heal
        for heal in reversed(found)
    }.values())[::-1]  # fmt: skip


async def accept_heal(app: App, heal: Heal, actor: str, reason: str = "") -> Judged:
    """The workflow remembers the element from now on."""
    before = await heals_of(app).accept(heal, actor, reason)
    return Judged(before, await app.chores.run())


async def reject_heal(app: App, heal: Heal, actor: str, reason: str) -> Judged:
    """From now on that element is never taken for that target."""
    before = await heals_of(app).reject(heal, actor, reason)
    return Judged(before, await app.chores.run())


async def workflow_of(app: App, run_id: str) -> str | None:
    """The workflow of a run. None: there is no such run, or it was forgotten."""
    submission = await submission_of(app, run_id)
    if submission is not None:
        return submission.workflow
    try:
        return (await app.runs.shown(run_id)).workflow
    except NotFound:
        return None


def heals_of(app: App) -> Heals:
    return Heals(app.ledger, app.redactor_of, app.world.clock)


class Heals:
    """The heals of all workflows, in one ledger."""

    def __init__(self, ledger: Ledger, redactor_of: RedactorOf, clock: Clock) -> None:
        self._ledger = ledger
        self._redactor_of = redactor_of
        self._clock = clock
        self._runs: dict[str, _Run] = {}

    # Looking

    async def workflows(self) -> list[str]:
        prefix = targets_stream("")
        return [stream.removeprefix(prefix) for stream in await self._ledger.streams(prefix)]

    async def review(self, workflow: str) -> tuple[Review, int]:
        """With where the stream ended then."""
        events = await self._last_events(targets_stream(workflow))
        return Review(events), events[-1].seq if events else 0

    async def newest(
        self,
        workflows: Sequence[str],
        wanted: Callable[[Reviewed], bool],
        limit: int,
        run_id: str | None = None,
    ) -> list[Heal]:
        """Of all these together, in full as far as their runs are kept. Of one run also those whose attempts failed."""
        found: list[tuple[str, Reviewed]] = []
        for workflow in workflows:
            found += [(workflow, one) for one in await self._heals(workflow, run_id) if wanted(one)]
        found.sort(key=lambda pair: -pair[1].at.wall_us)
        return [await self.in_full(workflow, one) for workflow, one in found[:limit]]

    async def one(self, workflows: Sequence[str], run: str, step: str, attempt: int | None) -> Heal:
        """The heal with this name; `run` and `step` may be beginnings. Raises NotFound."""
        meant: list[tuple[str, Reviewed]] = []
        whole = run if (await self._run(run)).plan is not None else None
        for workflow in workflows:
            heals = await self._heals(workflow, whole)
            runs = dict.fromkeys(heal.heal.run_id for heal in heals if heal.heal.run_id.startswith(run))
            for run_id in [run] if run in runs else runs:
                meant += [(workflow, one) for one in named_by(heals, run_id, step, attempt)]
        if len(meant) == 1:
            return await self.in_full(*meant[0])
        name = "/".join(filter(None, (run, step, str(attempt or ""))))
        if not meant:
            raise NotFound(f"there is no heal {name!r}", hint="List them: recoup heals list")
        names = ", ".join(one.name for _, one in meant[:10])
        raise NotFound(f"several heals begin with {name!r}", hint=f"Say which: {names}")

    async def _heals(self, workflow: str, run_id: str | None) -> list[Reviewed]:
        """Newest first. What attempts took that failed afterwards is in the stream of their run alone."""
        review, _ = await self.review(workflow)
        told = review.heals()
        if run_id is None:
            return told
        run, counted = (
            await self._run(run_id),
            {_place(one.heal) for one in told if one.heal.run_id == run_id},
        )
        alone = [review.reviewed(heal, at) for heal, at in run.heals if _place(heal) not in counted]
        mine = [*(one for one in told if one.heal.run_id == run_id), *alone]
        return sorted(mine, key=lambda one: (-one.at.wall_us, -(one.heal.attempt or 0)))

    async def in_full(self, workflow: str, one: Reviewed) -> Heal:
        """With its elements, which are in the stream of its run alone; without them where that was forgotten."""
        run = await self._run(one.heal.run_id)
        same = [heal for heal, _ in run.heals if _place(heal) == _place(one.heal)]
        heal = _completed(same[-1] if same else one.heal, run.plan)
        return Heal(workflow, msgspec.structs.replace(one, heal=heal), run.plan_source, run.plan)

    async def _run(self, run_id: str) -> _Run:
        if run_id not in self._runs:
            self._runs[run_id] = _run_of(await self._events(run_stream(run_id), 0))
        return self._runs[run_id]

    async def _last_events(self, stream: str) -> list[Event]:
        return await self._events(stream, max(0, await self._ledger.head(stream) - EVENTS_MAX))

    async def _events(self, stream: str, after: int) -> list[Event]:
        found: list[Event] = []
        async for page in pages(partial(read_leniently, self._ledger), stream, after, _PAGE):
            found += page
            if len(found) >= 2 * EVENTS_MAX:
                break
        return found

    # Saying

    async def accept(self, heal: Heal, by: str, why: str = "") -> Word | None:
        """None: it is accepted from now on. Otherwise what somebody said before, and nothing was added to it."""
        fact = heal.fact
        if fact.after is None:
            raise forgotten(heal)
        return await self._say(heal, TargetLearned(
            **_about(fact),
            reason=f"{by} accepted it" + (f": {why}" if why else ""),
            element=fact.after,
            confidence=fact.confidence,
            origin=ACCEPTED,
            by=by,
        ))  # fmt: skip

    async def reject(self, heal: Heal, by: str, reason: str) -> Word | None:
        """None: from now on that element is never taken for that target. Otherwise what somebody said before."""
        fact = heal.fact
        if not fact.identity or not fact.target_digest:
            raise forgotten(heal)
        return await self._say(heal, TargetRejected(
            **_about(fact),
            reason=reason,
            target=fact.target,
            confidence=fact.confidence,
            margin=fact.margin,
            by=by,
        ))  # fmt: skip

    async def _say(self, heal: Heal, fact: TargetLearned | TargetRejected) -> Word | None:
        redactor = await self._redactor_of(heal.fact.run_id)
        stream, draft = targets_stream(heal.workflow), Draft(fact.TYPE, redactor.seal(fact))

        async def attempt() -> Word | None:
            review, end = await self.review(heal.workflow)
            word = review.word_about(heal.fact)
            if word is None:
                part = StreamAppend(stream, (draft,), end)
                await self._ledger.append(Append(at=self._clock.now(), streams=(part,)))
            return word

        busy, hint = f"the stream {stream} never came to rest", "Try again: runs are adding to it."
        return await append_if(attempt, busy, hint=hint, tries_max=_TRIES_MAX)


class _Run(msgspec.Struct, frozen=True):
    """What a run tells of its heals; nothing where it was forgotten."""

    plan: Plan | None
    plan_source: str | None
    heals: tuple[tuple[TargetHealed, Instant], ...]


def _run_of(events: Sequence[Event]) -> _Run:
    submitted = next((e.payload for e in events if isinstance(e.payload, RunSubmitted)), None)
    heals = tuple((e.payload, e.at) for e in events if isinstance(e.payload, TargetHealed))
    if submitted is None:
        return _Run(None, None, heals)
    plan = submitted.plan
    return _Run(plan, submitted.plan_source, tuple((_completed(heal, plan), at) for heal, at in heals))


def _place(heal: TargetHealed) -> tuple[str, int | None]:
    return heal.step_id, heal.attempt


def _completed(heal: TargetHealed, plan: Plan | None) -> TargetHealed:
    """What was recorded before heals had these names can still be named."""
    if not heal.identity and heal.after is not None:
        heal = msgspec.structs.replace(heal, identity=identity(heal.after))
    if heal.target_digest or plan is None:
        return heal
    actions = [step.action for step in plan.steps if step.id == heal.step_id]
    targets = [action.target for action in actions if isinstance(action, BrowserAction) and action.target]
    return msgspec.structs.replace(heal, target_digest=target_digest(targets[0])) if targets else heal


def _about(heal: TargetHealed) -> dict[str, Any]:
    names = ("step_id", "step_index", "attempt", "run_id", "target_digest", "identity")
    return {name: getattr(heal, name) for name in names}


def forgotten(heal: Heal) -> UsageError:
    return UsageError(
        f"what was taken in {heal.name} is not known any more: its run was forgotten",
        hint="Run the workflow again, and look at the heal of that run.",
    )
