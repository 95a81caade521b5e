"""The same for many runs: for each of those that are listed, and for no other. One that cannot be helped stops none."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import msgspec
from fastapi import Body
from starlette.requests import Request
from starlette.responses import Response

from recoup.errors import Conflict, EventUnreadable, NotFound, RecoupError, RowUnreadable, UsageError
from recoup.gateway import list_shapes
from recoup.gateway.access import Principal
from recoup.gateway.answering import document
from recoup.gateway.asking import must_ask
from recoup.gateway.described import answers
from recoup.gateway.house import House, house_of, principal_of
from recoup.gateway.problems import Refused
from recoup.gateway.routing import KEY_HEADER, new_router, sub_key
from recoup.kernel.advice import advice, hint_of
from recoup.kernel.approvals import SUBMIT
from recoup.kernel.controls.cancellation import CANCEL
from recoup.kernel.position import is_over
from recoup.model.answers.lists import BulkAnswer
from recoup.model.run import RunState, RunStatus
from recoup.operations.control import ACCEPTED, ControlRequest, control
from recoup.operations.submission import retry

router = new_router("runs")
AT_ONCE_MAX: Final = 8
WHOLE_S_MAX: Final = 60.0
"""For all of them: well within the time after which a request is taken for lost."""
PATIENCE_S: Final = 10.0
"""For the answer of one driver."""
_log = logging.getLogger("recoup.gateway")


class Done(msgspec.Struct, frozen=True, rename="camel"):
    """What became of one."""

    run_id: str
    outcome: str
    """done | sent | refused | failed."""
    detail: str = ""
    new_run_id: str | None = None


class Wanted(msgspec.Struct, frozen=True):
    """What is wanted of each, by whom and why."""

    house: House
    principal: Principal
    reason: str
    key: str | None
    until_s: float
    """By time.monotonic."""


@router.post("/api/runs/bulk", responses=answers(BulkAnswer))
async def bulk(request: Request, asked: Annotated[list_shapes.BulkRequest, Body()]) -> Response:
    """Cancel runs, or retry runs that are over: each as if it were asked for alone. Asked again under the same key
    nothing is done twice, even if the first request was cut off half-way."""
    wanted = Wanted(
        house_of(request),
        principal_of(request),
        asked.reason.strip(),
        request.headers.get(KEY_HEADER),
        time.monotonic() + WHOLE_S_MAX,
    )
    await _must_not_wait(request, asked.action)
    do = {"cancel": _cancel, "retry": _retry}[asked.action]
    run_ids = list(dict.fromkeys(asked.run_ids))
    door = asyncio.Semaphore(AT_ONCE_MAX)
    tried = await asyncio.gather(
        *(_one(door, do, wanted, run_id) for run_id in run_ids), return_exceptions=True
    )
    items = [await _told(wanted, run_id, one) for run_id, one in zip(run_ids, tried, strict=True)]
    await wanted.house.app.chores.run()
    return document(request, {"items": items})


async def _must_not_wait(request: Request, action: str) -> None:
    """What a second person must agree to, they agree to one by one."""
    needed = {"cancel": CANCEL.name, "retry": SUBMIT}[action]
    if await must_ask(request, needed):
        raise Refused(
            *(409, f"the policy's approval_required names {needed}: somebody else must agree to each"),
            hint="Ask for each run alone: a control, or POST /api/runs with reuse.",
        )


async def _one(
    door: asyncio.Semaphore, do: Callable[[Wanted, str], Awaitable[Done]], wanted: Wanted, run_id: str
) -> Done:
    async with door:
        if time.monotonic() >= wanted.until_s:
            return Done(run_id, "failed", "there was no time left for it: ask for it again, under a new key")
        await wanted.house.run(run_id)
        return await do(wanted, run_id)


async def _cancel(wanted: Wanted, run_id: str) -> Done:
    request = ControlRequest(
        run_id=run_id,
        action=CANCEL.name,
        reason=wanted.reason,
        actor=wanted.principal.actor,
        id=sub_key(wanted.principal, wanted.key, f"bulk cancel {run_id}"),
    )
    left_s = max(1.0, min(PATIENCE_S, wanted.until_s - time.monotonic()))
    answer = await control(wanted.house.app, request, left_s)
    if answer.outcome is None:
        return Done(run_id, "sent", "its driver has not answered yet; the wish is kept for it")
    return Done(run_id, "done" if answer.outcome == ACCEPTED else "refused", answer.detail)


async def _retry(wanted: Wanted, run_id: str) -> Done:
    """A run is retried once, by whoever: the key of the new one is made from the old one's id alone."""
    app = wanted.house.app
    state = await wanted.house.states.state(run_id)
    if not is_over(state):
        return Done(run_id, "refused", _why_not(state))
    made = await retry(app, run_id, wanted.principal.actor, wanted.reason)
    if not made.duplicate:
        return Done(run_id, "done", made.note or "", made.run_id)
    return await _retried_before(wanted.house, run_id, made.run_id)


async def _retried_before(house: House, run_id: str, new_run_id: str) -> Done:
    later = await house.states.state(new_run_id)
    if is_over(later) and later.status is not RunStatus.SUCCEEDED:
        words = f"it was retried before, as {new_run_id}, which ended: {later.status}. Retry that one."
        return Done(run_id, "refused", words, new_run_id)
    return Done(run_id, "done", f"it was retried before, as {new_run_id}", new_run_id)


def _why_not(state: RunState) -> str:
    return f"only a run that is over is retried; this one is {state.status}. {hint_of(advice(state))}"


async def _told(wanted: Wanted, run_id: str, tried: Done | BaseException) -> Done:
    if isinstance(tried, Done):
        return tried
    if not isinstance(tried, RecoupError):
        _log.error("bulk, run %s: %s", run_id, type(tried).__name__)
        return Done(run_id, "failed", "something went wrong inside the gateway; its log says what")
    refused = isinstance(tried, UsageError | NotFound | Conflict | EventUnreadable | RowUnreadable)
    redactor = await wanted.house.app.redactor_of(run_id)
    words = redactor.redact(f"{tried.message}. {tried.what_to_do}".strip()).text
    return Done(run_id, "refused" if refused else "failed", words)
