"""Runs that go on from others: what they may reuse, and what they must not repeat."""

from __future__ import annotations

import contextlib
import secrets as randomness
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec

from recoup.damage import state_after
from recoup.engine.arguments import digests_now
from recoup.engine.lease import LeaseLifeline
from recoup.engine.originals import private_references
from recoup.engine.reusing import find_reuse, foresee, foresee_in_place
from recoup.engine.world import EarlierRun, Job, World
from recoup.errors import NotFound, UsageError
from recoup.evidence.run_folder import RunFolder
from recoup.kernel.earlier import Earlier, look_back, with_family
from recoup.kernel.fold import submitted
from recoup.kernel.prefix import is_good
from recoup.kernel.reuse import Reuse, repeated
from recoup.model.events import Event, RunSubmitted
from recoup.model.plan import Plan, Repeat
from recoup.model.policy import Policy
from recoup.model.run import RunState
from recoup.ports import Redactor, Secrets
from recoup.workspace.disk import remove_tree

_PREVIEW = ".preview-"
_PREVIEW_S = 3600
"""The longest that a look at what can be reused may take."""


class Reusing(msgspec.Struct, frozen=True):
    """The run whose proven steps a new one is to reuse, and the step from which on it must not."""

    run_id: str
    from_step: str | None = None


class LinkedRuns(msgspec.Struct, frozen=True):
    """The family of a run: all that go back to the same one."""

    world: World
    events: Callable[[str], Awaitable[list[Event]]]
    files: Callable[[str], RunFolder]
    vault: Callable[[RunFolder], Secrets]

    async def earlier(self, run_id: str, plan: Plan, redactor: Redactor) -> EarlierRun | None:
        """The run that is to be reused for this plan. None: it is gone. `redactor`: of the run that reuses it, which
        hides what that one hid."""
        events = await self.events(run_id)
        if not events:
            return None
        state, files = state_after(run_id, events), self.files(run_id)
        try:
            recorded = plan_of(state, files)
        except NotFound:
            recorded = state.plan  # whatever in it is redacted will be found to differ
        job = Job(run_id, recorded, Policy(), files, redactor, self.vault(files), None)
        known = look_back(state, recorded, events)
        if any(step.repeat is Repeat.NEVER for step in plan.steps):
            known = with_family(known, [relative async for relative in self._relatives(run_id)])
        return EarlierRun(known, job)

    async def would_reuse(self, job: Job, payload: RunSubmitted) -> Reuse:
        """Of a run that is not recorded."""
        now, baseline = self.world.clock.now(), None
        if job.workspaces is not None and job.plan.workspace is not None:
            baseline = await job.workspaces.create(job.plan.workspace)
        lifeline = LeaseLifeline(now.boot_us / 1e6 + _PREVIEW_S)
        state = submitted(job.run_id, payload, now)
        world = self.world.of(job)
        return foresee(world, job, await find_reuse(world, job, state, baseline, lifeline))

    def would_go_on(self, state: RunState, from_step: str | None) -> Reuse:
        """Of a run that is resumed in place."""
        return foresee_in_place(self.world, self.vault(self.files(state.run_id)), state, from_step)

    async def must_not_repeat(self, state: RunState, job: Job) -> None:
        """What a run that is linked to this one has done since this one began is done. Asked before the first step, so
        that nothing is done for nothing; what is begun later by another is seen when the step is."""
        steps = zip(job.plan.steps, state.steps, strict=True)
        left = [
            (step, record.doubt.asks.deeds if record.doubt.asks else ())
            for step, record in steps
            if step.repeat is Repeat.NEVER and not is_good(record)
        ]
        if not left or not state.begun:
            return
        async for relative in self._relatives(state.run_id):
            for step, asked in left:
                digests = digests_now(
                    step, job, state, job.redactor, private_then=private_references(relative.state)
                )
                if repeated(relative, step, digests, asked):
                    other = relative.state.run_id
                    raise UsageError(
                        f"{step.id} was done, or may have been, in run {other}, which is linked to this one, "
                        "and must not be repeated",
                        hint=f"Go on there: recoup show {other}",
                    )

    async def _relatives(self, run_id: str) -> AsyncIterator[Earlier]:
        """The others of its family, but for those that are gone."""
        for relative in await self.world.ledger.family(run_id):
            events = await self.events(relative) if relative != run_id else []
            if events:
                state = state_after(relative, events)
                yield look_back(state, state.plan, events)


@contextlib.contextmanager
def throwaway(home: Path) -> Iterator[RunFolder]:
    """A run's folder for the time of one question; also removes those of questions that were killed."""
    for left in home.glob(f"{_PREVIEW}*"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < time.time() - _PREVIEW_S:
                remove_tree(left)
    files = RunFolder(home / f"{_PREVIEW}{randomness.token_hex(4)}")
    try:
        files.make()
        yield files
    finally:
        remove_tree(files.root)


def plan_of(state: RunState, files: RunFolder) -> Plan:
    """As it is to be run; the ledger's may be redacted."""
    return (
        msgspec.json.decode(_private_plan(files), type=Plan) if state.submission.plan_redacted else state.plan
    )


def _private_plan(files: RunFolder) -> bytes:
    try:
        return files.plan_path.read_bytes()
    except FileNotFoundError:
        raise NotFound(
            "the original of this run's plan is not here: records hold a redacted one, which is never executed",
            hint="Resume it on the machine that began it, or set RECOUP_KEY to the same text on all machines.",
        ) from None
