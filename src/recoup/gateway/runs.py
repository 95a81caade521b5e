"""Runs over HTTP: listed, looked at, followed, submitted, steered."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from fastapi import Body, Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.errors import UsageError
from recoup.gateway import shapes
from recoup.gateway.answering import PAGE_MAX, cut, document, page, read_cursor, read_run_cursor
from recoup.gateway.asking import ask_first, may_wait, must_ask
from recoup.gateway.described import answers
from recoup.gateway.house import House, house_of, principal_of
from recoup.gateway.lists import Filter
from recoup.gateway.problems import Refused
from recoup.gateway.routing import KEY_HEADER, marked, new_router, sub_key
from recoup.kernel.approvals import SUBMIT, is_about_the_current_step, standing
from recoup.kernel.canonical import digest
from recoup.kernel.prefix import ledger_document
from recoup.model.answers import runs as run_answers
from recoup.model.answers.controls import Controlled
from recoup.model.answers.runs import (
    AttemptList,
    EventPage,
    LedgerDocument,
    Log,
    RunDocument,
    RunPage,
)
from recoup.model.events import ApprovalRequested, Pinned
from recoup.model.plan import Plan
from recoup.model.storage import AttemptRow
from recoup.operations import logs, runs, submission
from recoup.operations.control import ControlRequest, Spelling, mistake_in, must_have_step, serve
from recoup.operations.cursor import PLACE_MAX, Place, cursor_of
from recoup.operations.events import run_events_after
from recoup.operations.logs import LOG_BYTES_MAX
from recoup.operations.submission import RunPlan, SubmitRequest, SubmitResult

router = new_router("runs")
PATIENCE_S: Final = 10.0
"""For the answer of a run's driver."""
_SPELLING: Final = Spelling(
    needs_step="stepId",
    needs_answer="as",
    answer="as",
    force="force",
    lists_steps="GET /api/runs/{run_id}/steps lists them.",
    shows_step=".",
)

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
Cursor = Annotated[str | None, Query(max_length=400, description="`nextCursor` of the page before.")]
After = Annotated[int | None, Query(ge=0, le=PLACE_MAX, description="Begin behind this place.")]


@router.get("/api/runs", responses=answers(RunPage))
async def list_runs(
    request: Request,
    wanted: Filter,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Newest first."""
    before = None if cursor is None else read_run_cursor(cursor)
    app = house_of(request).app
    found = await runs.list_runs(app, wanted, limit, before)
    return page(request, await runs.row_documents(app, found.rows), found.next_cursor)


@router.get("/api/runs/{run_id}", responses=answers(RunDocument))
async def show_run(request: Request, run_id: str) -> Response:
    house = house_of(request)
    return document(request, await house.states.document(await house.run(run_id)))


@router.get("/api/runs/{run_id}/steps", responses=answers(LedgerDocument))
async def show_steps(request: Request, run_id: str) -> Response:
    """The known-good prefix and the frontier: what need not be done again, and what must, and why."""
    house = house_of(request)
    return document(request, ledger_document(await house.states.shown(await house.run(run_id))))


@router.get("/api/runs/{run_id}/attempts", responses=answers(AttemptList))
async def list_attempts(request: Request, run_id: str, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """In the order of its steps."""
    house = house_of(request)
    after = None if cursor is None else read_cursor(cursor, tuple[Place, Place])
    found = await runs.attempts_of(house.app, await house.run(run_id))
    rows, more = cut(found, _place_of, after, limit)
    behind = cursor_of(*_place_of(rows[-1])) if more else None
    return page(request, runs.attempt_documents(rows), behind)


def _place_of(row: AttemptRow) -> tuple[int, int]:
    return row.step_index, row.attempt


@router.get("/api/runs/{run_id}/events", responses=answers(EventPage))
async def list_events(request: Request, run_id: str, after: After = None, limit: Limit = 100) -> Response:
    """The facts of a run in order. The cursor is the place of the last one: `after`."""
    house = house_of(request)
    found = await run_events_after(house.app, await house.run(run_id), after or 0, limit)
    return page(request, found.lines, None if found.behind is None else str(found.behind))


@router.get("/api/runs/{run_id}/logs/{step}", responses=answers(Log))
async def show_log(
    request: Request,
    run_id: str,
    step: str,
    after: After = None,
    limit: Annotated[int, Query(ge=4, le=LOG_BYTES_MAX)] = LOG_BYTES_MAX,
    tail: Annotated[bool, Query(description="The last `limit` bytes, whatever `after` says.")] = False,
) -> Response:
    """What a step printed, redacted, as far as it is kept where the gateway runs. `step` is an id or an index."""
    house = house_of(request)
    state = await house.states.shown(await house.run(run_id))
    return document(request, await logs.show_log(house.app, state, step, limit, after or 0, tail=tail))


@router.post("/api/runs", status_code=201, responses=may_wait(answers(run_answers.Submitted, status=201)))
async def submit_run(request: Request, wanted: Annotated[shapes.RunRequest, Body()]) -> Response:
    """Submit a plan to a queue; a worker runs it. A plan is code."""
    house, actor = house_of(request), principal_of(request).actor
    if await must_ask(request, SUBMIT):
        run_plan = await _run_plan(house, submit_request(wanted))
        _must_hold_no_secret(run_plan.plan, run_plan.inputs)
        pinned = Pinned(plan_digest=_digest(run_plan.plan))
        waits = await ask_first(request, SUBMIT, run_plan.plan.name, wanted, wanted.reason or "", pinned)
        if waits is not None:
            return waits
    done = await submitted(house, wanted, actor, _dedup_key(request))
    place = {"Location": f"/api/runs/{done.run_id}"}
    return document(request, done.document, status=200 if done.duplicate else 201, headers=place)


async def submitted(
    house: House,
    wanted: shapes.RunRequest,
    actor: str,
    key: str | None,
    asked: ApprovalRequested | None = None,
) -> SubmitResult:
    """The same key again is the same run. `asked`: what somebody agreed to."""
    request = submit_request(wanted, key)
    run_plan = await _run_plan(house, request)
    if asked is not None:
        _must_be_the_plan(run_plan.plan, asked)
    ref = None if asked is None else asked.ref
    return await submission.submit(house.app, request, run_plan, actor, approval_ref=ref)


def submit_request(wanted: shapes.RunRequest, key: str | None = None) -> SubmitRequest:
    given = {name: getattr(wanted, name) for name in SubmitRequest.__struct_fields__}
    return SubmitRequest(**{**given, "needs": tuple(wanted.needs), "dedup_key": wanted.dedup_key or key})


async def _run_plan(house: House, request: SubmitRequest) -> RunPlan:
    access = house.plan_access
    mistake = submission.mistake_in(request, access)
    if mistake is not None:
        raise Refused(403 if mistake.forbidden else 422, mistake.message, mistake.hint)
    return await submission.plan_of(house.app, request, access)


def _must_be_the_plan(plan: Plan, asked: ApprovalRequested) -> None:
    """A file may be another by now."""
    if _digest(plan) != asked.pinned.plan_digest:
        raise UsageError(
            "the plan is not the one that was asked for: it was changed meanwhile",
            hint="Ask for it again.",
        )


def _digest(plan: Plan) -> str:
    """As a run has it."""
    return digest(msgspec.to_builtins(plan))


def _must_hold_no_secret(plan: Plan, given: dict[str, str]) -> None:
    """A request that waits is recorded as it is."""
    named = [name for name, spec in plan.inputs.items() if spec.secret and name in given]
    if named:
        raise UsageError(
            f"a submission waits for approval, and {named[0]!r} is a secret that must not be recorded",
            hint="Let the plan read it where the workers are, from their environment or a file.",
        )


@router.post("/api/runs/{run_id}/control", responses=may_wait(answers(Controlled), Controlled))
async def control_run(
    request: Request, run_id: str, wanted: Annotated[shapes.ControlRequest, Body()]
) -> Response:
    """Steer a run. 409 says why that cannot be done now; 202: its driver has not answered yet."""
    return await _control(request, run_id, wanted)


@router.post("/api/task-runs/{run_id}/control", responses=may_wait(answers(Controlled), Controlled))
async def control_task_run(
    request: Request, run_id: str, wanted: Annotated[shapes.ControlRequest, Body()]
) -> Response:
    """Another name of `/api/runs/{run_id}/control`."""
    return await _control(request, run_id, wanted)


async def _control(request: Request, run_id: str, wanted: shapes.ControlRequest) -> Response:
    app = house_of(request).app
    asked = control_request(run_id, wanted, principal_of(request).actor, _control_id(request))
    await must_make_sense(house_of(request), asked)
    waits = await _control_waits(request, run_id, wanted)
    if waits is not None:
        return waits
    answer = await serve(app, asked, PATIENCE_S)
    return document(request, answer, status=202 if answer.outcome is None else 200)


async def _control_waits(request: Request, run_id: str, wanted: shapes.ControlRequest) -> Response | None:
    """Who agrees, agrees to one step, which is named."""
    if not await must_ask(request, wanted.action):
        return None
    pinned = standing(await house_of(request).states.state(run_id), wanted.action, wanted.step_id)
    if is_about_the_current_step(wanted.action):
        wanted = wanted.model_copy(update={"step_id": pinned.step_id})
    return await ask_first(request, wanted.action, run_id, wanted, wanted.reason.strip(), pinned)


def control_request(
    run_id: str, wanted: shapes.ControlRequest, actor: str, control_id: str | None, held_to: str | None = None
) -> ControlRequest:
    """The same id again is the same control. `held_to`: the visit of a gate."""
    return ControlRequest(
        run_id=run_id,
        action=wanted.action,
        reason=wanted.reason.strip(),
        actor=actor,
        step_id=wanted.step_id,
        answer=wanted.as_,
        force=wanted.force,
        held_to=held_to,
        id=control_id,
    )


async def must_make_sense(house: House, asked: ControlRequest) -> None:
    await house.run(asked.run_id)
    mistake = mistake_in(asked, _SPELLING)
    if mistake is not None:
        raise Refused(422, mistake.message, mistake.hint)
    await must_have_step(house.app, asked.run_id, asked.step_id)


def _dedup_key(request: Request) -> str | None:
    key = request.headers.get(KEY_HEADER)
    return None if key is None else f"http:{marked(principal_of(request), key)}"


def _control_id(request: Request) -> str | None:
    """The same request again is the same control, even if the book of answers was lost meanwhile."""
    return sub_key(principal_of(request), request.headers.get(KEY_HEADER), request.url.path)
