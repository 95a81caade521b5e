"""What the engine offers a runtime during one attempt."""

from __future__ import annotations

import asyncio

from recoup.engine.driven_run import DrivenRun
from recoup.engine.lease import LeaseLifeline
from recoup.engine.witness import witness
from recoup.errors import RecoupError
from recoup.model.events import AgentSessionKnown, AttemptLaunched
from recoup.model.ids import ProcessIdentity
from recoup.model.outcome import Progress
from recoup.model.plan import Repeat
from recoup.model.redacted import Redacted
from recoup.model.run import StepRecord

SESSIONS_MAX = 8
"""Number of sessions of one attempt that are recorded: an agent may open another one while it works."""


class AttemptHooks:
    """Of the step's own attempt, or of its handlers."""

    def __init__(self, run: DrivenRun, record: StepRecord, *, resumes: bool = False) -> None:
        """`resumes`: a later attempt resumes the session that is known of this one."""
        assert record.open is not None, f"step {record.step_id}: no attempt is open"
        self._run = run
        self._step_id, self._index, self._attempt = record.step_id, record.index, record.open.attempt
        self._once = run.job.plan.steps[record.index].repeat is Repeat.NEVER
        self._resumes = resumes
        self._recordings: list[asyncio.Task[bool]] = []

    @property
    def lifeline(self) -> LeaseLifeline:
        return self._run.lifeline

    @property
    def stop(self) -> asyncio.Event:
        return self._run.stop

    async def launched(self, keeper: ProcessIdentity) -> None:
        run = self._run
        await run.recorder.record(
            AttemptLaunched(
                step_id=self._step_id, step_index=self._index, attempt=self._attempt, keeper=keeper
            )
        )
        if self._once:
            # A database that loses this event is noticed by it: it is known elsewhere before the step begins.
            await witness(run.world, run.recorder.lease)

    def said(self, stream: str, chunk: Redacted) -> None:
        self._run.job.watcher.said(self._index, stream, chunk)

    def progressed(self, progress: Progress) -> None:
        self._run.job.watcher.progressed(self._index, progress)

    def session_known(self, session_id: str) -> None:
        if not self._resumes or len(self._recordings) >= SESSIONS_MAX:
            return
        known = AgentSessionKnown(
            step_id=self._step_id, step_index=self._index, attempt=self._attempt, session_id=session_id
        )
        self._recordings.append(asyncio.create_task(self._run.recorder.record(known)))

    async def recorded(self) -> None:
        """Returns when nothing is being recorded any more. What could not be costs a session, not the attempt."""
        for result in await asyncio.gather(*self._recordings, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, RecoupError):
                raise result
