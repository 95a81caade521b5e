"""The same for many runs: for each of those that are named, and for no other. A failure of one stops no other."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from recoup.errors import Conflict, EventUnreadable, NotFound, RecoupError, RowUnreadable, UsageError
from recoup.kernel.advice import advice, hint_of
from recoup.kernel.controls.cancellation import CANCEL
from recoup.kernel.position import is_over
from recoup.model.run import RunState, RunStatus
from recoup.operations.control import ACCEPTED, ControlRequest, control
from recoup.operations.lookup import exact_run
from recoup.operations.submission import retry

if TYPE_CHECKING:
    from recoup.app import App

AT_ONCE_MAX: Final = 8
WHOLE_S_MAX: Final = 60.0
"""For all of them: well within the time after which a request is taken for lost."""
PATIENCE_S: Final = 10.0
"""For the answer of one driver."""
_log = logging.getLogger("recoup.gateway")


class BulkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of each run, by whom and why."""

    action: str
    """cancel | retry."""
    run_ids: tuple[str, ...]
    reason: str
    actor: str
    control_id: Callable[[str], str | None] = lambda _run_id: None
    """The id of the control that is sent to a run: the same again changes nothing."""
    lists_runs: str = ""


class Done(msgspec.Struct, frozen=True, rename="camel"):
    """What became of one."""

    run_id: str
    outcome: str
    """done | sent | refused | failed."""
    detail: str = ""
    new_run_id: str | None = None


async def change_many(app: App, request: BulkRequest) -> list[Done]:
    """Each as if it were asked for alone, in the order in which they are named."""
    until_s, door = time.monotonic() + WHOLE_S_MAX, asyncio.Semaphore(AT_ONCE_MAX)
    run_ids = list(dict.fromkeys(request.run_ids))
    tried = await asyncio.gather(
        *(_one(app, request, run_id, door, until_s) for run_id in run_ids), return_exceptions=True
    )
    items = [await _told(app, run_id, one) for run_id, one in zip(run_ids, tried, strict=True)]
    await app.chores.run()
    return items


async def _one(app: App, request: BulkRequest, run_id: str, door: asyncio.Semaphore, until_s: float) -> Done:
    async with door:
        if time.monotonic() >= until_s:
            return Done(run_id, "failed", "there was no time left for it: ask for it again, under a new key")
        await exact_run(app, run_id, request.lists_runs)
        if request.action == "retry":
            return await _retry(app, request, run_id)
        return await _cancel(app, request, run_id, until_s)


async def _cancel(app: App, request: BulkRequest, run_id: str, until_s: float) -> Done:
    wanted = ControlRequest(
        run_id=run_id,
        action=CANCEL.name,
        reason=request.reason,
        actor=request.actor,
        id=request.control_id(run_id),
    )
    left_s = max(1.0, min(PATIENCE_S, until_s - time.monotonic()))
    answer = await control(app, wanted, left_s)
    if answer.outcome is None:
        return Done(run_id, "sent", "its driver has not answered yet; the wish is kept for it")
    return Done(run_id, "done" if answer.outcome == ACCEPTED else "refused", answer.detail)


async def _retry(app: App, request: BulkRequest, run_id: str) -> Done:
    """A run is retried once."""
    state = await app.runs.state(run_id)
    if not is_over(state):
        return Done(run_id, "refused", _why_not(state))
    submitted = await retry(app, run_id, request.actor, request.reason)
    if not submitted.duplicate:
        return Done(run_id, "done", submitted.note or "", submitted.run_id)
    return await _retried_before(app, run_id, submitted.run_id)


async def _retried_before(app: App, run_id: str, new_run_id: str) -> Done:
    later = await app.runs.state(new_run_id)
    if is_over(later) and later.status is not RunStatus.SUCCEEDED:
        words = f"it was retried before, as {new_run_id}, which ended: {later.status}. Retry that one."
        return Done(run_id, "refused", words, new_run_id)
    return Done(run_id, "done", f"it was retried before, as {new_run_id}", new_run_id)


def _why_not(state: RunState) -> str:
    return f"only a run that is over is retried; this one is {state.status}. {hint_of(advice(state))}"


async def _told(app: App, run_id: str, tried: Done | BaseException) -> Done:
    if isinstance(tried, Done):
        return tried
    if not isinstance(tried, RecoupError):
        _log.error("bulk, run %s: %s", run_id, type(tried).__name__)
        return Done(run_id, "failed", "something went wrong inside the gateway; its log says what")
    refused = isinstance(tried, UsageError | NotFound | Conflict | EventUnreadable | RowUnreadable)
    redactor = await app.redactor_of(run_id)
    words = redactor.redact(f"{tried.message}. {tried.what_to_do}".strip()).text
    return Done(run_id, "refused" if refused else "failed", words)
