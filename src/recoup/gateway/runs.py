"""Runs over HTTP: listed, looked at, followed, submitted, steered."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Body, Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App, Submitted
from recoup.errors import InvalidPlan, NotFound, Problem, UsageError
from recoup.gateway import shapes
from recoup.gateway.answering import PAGE_MAX, cursor_of, document, page, read_cursor
from recoup.gateway.asking import ask_first, may_wait, must_ask
from recoup.gateway.described import answers, streams
from recoup.gateway.house import House, house_of, principal_of
from recoup.gateway.problems import Refused
from recoup.gateway.routing import KEY_HEADER, new_router
from recoup.gateway.streaming import Batch, Message, stream
from recoup.kernel.approvals import SUBMIT
from recoup.kernel.controls import FORCE, is_over
from recoup.kernel.documents import run_document
from recoup.kernel.prefix import ledger_document
from recoup.model.events import Event
from recoup.model.ids import run_stream
from recoup.model.plan import Plan
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import AttemptRow, Control, RunRow

router = new_router("runs")
LOG_BYTES_MAX: Final = 256_000
_BATCH_MAX: Final = 200
_PATIENCE_S: Final = 10.0
_ENDINGS: Final = ("task.run.succeeded", "task.run.failed", "task.run.cancelled", "task.run.dead_lettered")
_SOURCE: Final = "the plan in the request"

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
Cursor = Annotated[str | None, Query(max_length=400, description="`nextCursor` of the page before.")]
After = Annotated[int | None, Query(ge=0, description="Begin behind this place.")]


@router.get("/api/runs", responses=answers(shapes.RunPage))
async def list_runs(
    request: Request,
    workflow: Annotated[str | None, Query(max_length=200)] = None,
    status: RunStatus | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Newest first."""
    before = None if cursor is None else read_cursor(cursor, tuple[int, str])
    told = None if status is None else status.value
    rows = await house_of(request).app.ledger.runs(
        workflow=workflow, status=told, limit=limit + 1, before=before
    )
    last = rows[limit - 1] if len(rows) > limit else None
    behind = None if last is None else cursor_of(last.submitted_at_us, last.run_id)
    return page(request, [_summary(row) for row in rows[:limit]], behind)


@router.get("/api/runs/stream", responses=streams("run"))
async def stream_runs(request: Request, after: After = None) -> Response:
    """The document of every run that changed, as it changes. Places are numbers of events among all."""
    house = house_of(request)

    async def look(place: int) -> Batch:
        came = await house.app.ledger.arrivals(place, _BATCH_MAX)
        last = {one.stream.removeprefix("run:"): one.number for one in came if one.stream.startswith("run:")}
        made = [Message(number, "run", await _told(house.app, run_id)) for run_id, number in last.items()]
        if came and (not made or made[-1].id < came[-1].number):
            made.append(Message(came[-1].number, "place", {}))
        return Batch(tuple(made))

    return await stream(request, house, look, after)


@router.get("/api/runs/{run_id}", responses=answers(shapes.RunDocument))
async def show_run(request: Request, run_id: str) -> Response:
    house = house_of(request)
    return document(request, run_document(await house.app.state(await house.run(run_id))))


@router.get("/api/runs/{run_id}/steps", responses=answers(shapes.LedgerDocument))
async def show_steps(request: Request, run_id: str) -> Response:
    """The known-good prefix and the frontier: what need not be done again, and what must, and why."""
    house = house_of(request)
    return document(request, ledger_document(await house.app.state(await house.run(run_id))))


@router.get("/api/runs/{run_id}/attempts", responses=answers(shapes.AttemptList))
async def list_attempts(request: Request, run_id: str) -> Response:
    house = house_of(request)
    rows = await house.app.ledger.attempts(await house.run(run_id))
    return page(request, [_attempt(row) for row in rows], None)


@router.get("/api/runs/{run_id}/events", responses=answers(shapes.EventPage))
async def list_events(request: Request, run_id: str, after: After = None, limit: Limit = 100) -> Response:
    """The facts of a run in order. The cursor is the place of the last one: `after`."""
    house = house_of(request)
    events = await house.app.ledger.read(run_stream(await house.run(run_id)), after or 0, limit + 1)
    behind = str(events[limit - 1].seq) if len(events) > limit else None
    return page(request, [event.line() for event in events[:limit]], behind)


@router.get("/api/runs/{run_id}/events/stream", responses=streams("the type of the event"))
async def stream_events(request: Request, run_id: str, after: After = None) -> Response:
    """The facts of a run as they come, until it is over. Places are sequence numbers."""
    house = house_of(request)
    await house.run(run_id)
    ended = [is_over(await house.app.state(run_id))]

    async def look(place: int) -> Batch:
        events = await house.app.ledger.read(run_stream(run_id), place, _BATCH_MAX)
        if any(event.type in _ENDINGS for event in events):
            ended[0] = is_over(await house.app.state(run_id))
        return Batch(tuple(_message(event) for event in events), over=ended[0] and not events)

    return await stream(request, house, look, after)


@router.get("/api/runs/{run_id}/logs/{step}", responses=answers(shapes.Log))
async def show_log(
    request: Request,
    run_id: str,
    step: str,
    after: After = None,
    limit: Annotated[int, Query(ge=4, le=LOG_BYTES_MAX)] = LOG_BYTES_MAX,
) -> Response:
    """What a step printed, redacted, as far as it is kept where the gateway runs. `step` is an id or an index."""
    house = house_of(request)
    state = await house.app.state(await house.run(run_id))
    index = _index(state, step)
    offset, raw = _log_piece(house.app.files(run_id).log_path(index), after or 0, limit)
    return document(
        request,
        {
            "stepId": state.steps[index].step_id,
            "stepIndex": index,
            "offset": offset,
            "nextOffset": offset + len(raw),
            "log": raw.decode("utf-8", "replace"),
        },
    )


@router.get("/api/runs/{run_id}/logs/{step}/stream", responses=streams("log"))
async def stream_log(request: Request, run_id: str, step: str, after: After = None) -> Response:
    """What a step prints, as it does, until the run is over. Places are bytes."""
    house = house_of(request)
    index = _index(await house.app.state(await house.run(run_id)), step)
    path = house.app.files(run_id).log_path(index)

    async def look(place: int) -> Batch:
        over = is_over(await house.app.state(run_id))  # before the log: what it says last must not be missed
        offset, raw = _log_piece(path, place, LOG_BYTES_MAX)
        if not raw:
            return Batch(over=over)
        body = {"offset": offset, "log": raw.decode("utf-8", "replace")}
        return Batch((Message(offset + len(raw), "log", body),))

    return await stream(request, house, look, after)


@router.post("/api/runs", status_code=201, responses=may_wait(answers(shapes.Submitted, status=201)))
async def submit_run(request: Request, wanted: Annotated[shapes.RunRequest, Body()]) -> Response:
    """Submit a plan to a queue; a worker runs it. A plan is code."""
    house, actor = house_of(request), principal_of(request).actor
    if await must_ask(request, SUBMIT):
        plan, given, _ = await _plan(house, wanted)
        _must_hold_no_secret(plan, given)
        waits = await ask_first(request, SUBMIT, plan.name, wanted, wanted.reason or "")
        if waits is not None:
            return waits
    done = await submitted(house, wanted, actor, _dedup_key(request))
    told = {
        **{"runId": done.run_id, "queue": wanted.queue, "duplicate": done.duplicate},
        "note": done.note,
    }
    place = {"Location": f"/api/runs/{done.run_id}"}
    return document(request, told, status=200 if done.duplicate else 201, headers=place)


async def submitted(
    house: House, wanted: shapes.RunRequest, actor: str, key: str | None, approval_ref: str | None = None
) -> Submitted:
    """The same key again is the same run."""
    from recoup.fleet.queued import Queued
    from recoup.kernel.needs import needs_of
    from recoup.linked import Reusing
    from recoup.model.target import HealMode

    app = house.app
    plan, given, source = await _plan(house, wanted)
    now = app.world.clock.now()
    queued = Queued(
        queue=wanted.queue,
        priority=wanted.priority,
        needs=tuple(sorted(needs_of(plan) | set(wanted.needs))),
        not_before_us=round(now.wall_us + wanted.delay_s * 1e6) if wanted.delay_s else 0,
        dedup_key=wanted.dedup_key or key,
        submitted_by=actor,
        submit_reason=wanted.reason,
        approval_ref=approval_ref,
    )
    reusing = None
    if wanted.reuse is not None:
        await app.must_not_be_driven(await app.state(wanted.reuse))
        reusing = Reusing(wanted.reuse, wanted.from_step)
    heal = None if wanted.heal is None else HealMode(wanted.heal)
    return await app.submit_queued(plan, given, source, queued, reusing, heal)


def _must_hold_no_secret(plan: Plan, given: dict[str, str]) -> None:
    """A request that waits is recorded as it is."""
    named = [name for name, spec in plan.inputs.items() if spec.secret and name in given]
    if named:
        raise UsageError(
            f"a submission waits for approval, and {named[0]!r} is a secret that must not be recorded",
            hint="Let the plan read it where the workers are, from their environment or a file.",
        )


@router.post("/api/runs/{run_id}/control", responses=may_wait(answers(shapes.Controlled), shapes.Controlled))
async def control_run(
    request: Request, run_id: str, wanted: Annotated[shapes.ControlRequest, Body()]
) -> Response:
    """Steer a run. 409 says why that cannot be done now; 202: its driver has not answered yet."""
    return await _control(request, run_id, wanted)


@router.post(
    "/api/task-runs/{run_id}/control", responses=may_wait(answers(shapes.Controlled), shapes.Controlled)
)
async def control_task_run(
    request: Request, run_id: str, wanted: Annotated[shapes.ControlRequest, Body()]
) -> Response:
    """Another name of `/api/runs/{run_id}/control`."""
    return await _control(request, run_id, wanted)


async def _control(request: Request, run_id: str, wanted: shapes.ControlRequest) -> Response:
    house, app = house_of(request), house_of(request).app
    await must_make_sense(house, run_id, wanted)
    waits = await ask_first(request, wanted.action, run_id, wanted, wanted.reason.strip())
    if waits is not None:
        return waits
    actor, control_id = principal_of(request).actor, _control_id(request)
    return await _controlled(request, app, await steered(app, run_id, wanted, actor, control_id))


async def must_make_sense(house: House, run_id: str, wanted: shapes.ControlRequest) -> None:
    from recoup import steering

    await house.run(run_id)
    _must_be_whole(wanted)
    await steering.must_have_step(house.app, run_id, wanted.step_id)


async def steered(
    app: App, run_id: str, wanted: shapes.ControlRequest, actor: str, control_id: str | None
) -> Control:
    """As it was answered, if it was in time. The same id again is the same control."""
    from recoup import steering

    wish = steering.Wish(
        run_id=run_id,
        action=wanted.action,
        reason=wanted.reason.strip(),
        actor=actor,
        step_id=wanted.step_id,
        argument=FORCE if wanted.force else wanted.as_,
        id=control_id,
    )
    sent = await steering.send(app, wish)
    return await steering.answered(app, sent, _PATIENCE_S) or sent


async def _controlled(request: Request, app: App, control: Control) -> Response:
    from recoup import steering

    detail = await steering.detail_of(app, control)
    if control.outcome not in (None, steering.ACCEPTED):
        raise UsageError(f"{control.action} was {control.outcome}: {detail}")
    for trouble in await app.chores():
        detail = f"{detail} ({trouble})".strip()
    told = {
        "controlId": control.id,
        "action": control.action,
        "outcome": control.outcome,
        "epoch": control.epoch,
        "detail": detail,
        "run": run_document(await app.state(control.run_id)),
    }
    return document(request, told, status=202 if control.outcome is None else 200)


def _must_be_whole(wanted: shapes.ControlRequest) -> None:
    if wanted.action == "settle" and (wanted.as_ is None or wanted.step_id is None):
        raise Refused(422, "settle needs stepId and as", "Look whether the step was done first.")
    if wanted.action == "resume_from_step" and wanted.step_id is None:
        raise Refused(422, "resume_from_step needs stepId", "GET /api/runs/{run_id}/steps lists them.")
    if wanted.force and wanted.action != "hard_reset_step":
        raise Refused(422, "force is for hard_reset_step only")
    if wanted.as_ is not None and wanted.action != "settle":
        raise Refused(422, "as is for settle only")


async def _plan(house: House, wanted: shapes.RunRequest) -> tuple[Plan, dict[str, str], str | None]:
    """The plan, its inputs, and where it is from."""
    if wanted.plan is not None and wanted.plan_path is not None:
        raise Refused(422, "plan and planPath are two plans", "Give one of them.")
    if wanted.from_step is not None and wanted.reuse is None:
        raise Refused(422, "fromStep says what is reused", "Name the run with reuse.")
    if wanted.reuse is not None:
        await house.run(wanted.reuse)
    if wanted.plan is not None:
        return await _given_plan(house, wanted.plan), wanted.inputs, None
    if wanted.plan_path is not None:
        path = _allowed(house, wanted.plan_path)
        return await _read_plan(house.app, path), wanted.inputs, str(path)
    if wanted.reuse is None:
        raise Refused(
            422, "there is no plan", "Give plan, planPath, or reuse for the plan of an earlier run."
        )
    earlier = await house.app.state(wanted.reuse)
    plan, given = await house.app.recorded(earlier)
    return plan, {**given, **wanted.inputs}, earlier.plan_source


async def _given_plan(house: House, text: str) -> Plan:
    """Relative paths in it would be taken from wherever the gateway was started: it has none."""
    from recoup.documents.plan_file import parse_plan

    if house.plan_folders:
        raise Refused(
            *(403, "plans are taken from certain folders only"),
            hint="Name a file in one of them: planPath.",
        )
    policy = (await house.app.generations.seen())[0]
    return parse_plan(text, _SOURCE, house.app.settings.home / "plans", policy=policy)


async def _read_plan(app: App, path: Path) -> Plan:
    from recoup.documents.plan_file import read_plan

    if not path.is_file():
        raise InvalidPlan(str(path), [Problem("planPath", "there is no such file where the gateway runs")])
    return read_plan(path, (await app.generations.seen())[0])


def _allowed(house: House, said: str) -> Path:
    """Where it really is, links followed: a link in a folder leads nowhere else."""
    path = Path(said)
    if not path.is_absolute():
        raise Refused(422, "planPath must begin with /", "Name the whole path.")
    real = path.resolve()
    if house.plan_folders and not any(real.is_relative_to(folder) for folder in house.plan_folders):
        raise Refused(403, "planPath is in none of the folders that plans are taken from")
    return real


def _dedup_key(request: Request) -> str | None:
    key = request.headers.get(KEY_HEADER)
    return None if key is None else f"http:{_mark(request, key)}"


def _control_id(request: Request) -> str | None:
    """The same request again is the same control, even if the book of answers was lost meanwhile."""
    key = request.headers.get(KEY_HEADER)
    return None if key is None else f"http-{_mark(request, f'{key} {request.url.path}')}"


def _mark(request: Request, key: str) -> str:
    return hashlib.sha256(f"{principal_of(request).token_id}\n{key}".encode()).hexdigest()[:40]


async def _told(app: App, run_id: str) -> dict[str, Any]:
    events = await app.events(run_id)
    if not events:
        return {"runId": run_id, "status": "forgotten"}
    return run_document(await app.state(run_id))


def _message(event: Event) -> Message:
    return Message(event.seq, event.type, event.line())


def _index(state: RunState, step: str) -> int:
    for record in state.steps:
        if record.step_id == step or str(record.index) == step:
            return record.index
    known = ", ".join(record.step_id for record in state.steps[:20])
    raise NotFound(f"run {state.run_id} has no step {step!r}", hint=f"Its steps: {known}.")


def _log_piece(path: Path, offset: int, limit: int) -> tuple[int, bytes]:
    """From there, whole characters; from the beginning where the log is shorter than that: it was begun anew."""
    try:
        with path.open("rb") as file:
            begin = offset if offset <= path.stat().st_size else 0
            file.seek(begin)
            return begin, _whole(file.read(limit))
    except FileNotFoundError:
        return offset, b""


def _whole(raw: bytes) -> bytes:
    """Without the beginning of a character whose end has not come yet."""
    for back in range(1, min(4, len(raw)) + 1):
        lead = raw[-back]
        if lead & 0xC0 == 0x80:
            continue
        length = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        return raw[:-back] if length > back else raw
    return raw


def _summary(row: RunRow) -> dict[str, Any]:
    return {
        "runId": row.run_id,
        "workflow": row.workflow,
        "status": row.status,
        "delivery": row.delivery,
        "submittedAt": _iso(row.submitted_at_us),
        "updatedAt": _iso(row.updated_at_us),
        "reason": row.reason,
        "seq": row.seq,
    }


def _attempt(row: AttemptRow) -> dict[str, Any]:
    return {
        **{"runId": row.run_id, "stepIndex": row.step_index, "stepId": row.step_id, "attempt": row.attempt},
        **{"delivery": row.delivery, "state": row.state, "verdict": row.verdict},
        **{"failureKind": row.failure_kind, "failureClass": row.failure_class},
        **{"failureSignature": row.failure_signature, "diffHash": row.diff_hash, "strategy": row.strategy},
        "startedAt": _iso(row.started_at_us),
        "endedAt": None if row.ended_at_us is None else _iso(row.ended_at_us),
    }


def _iso(wall_us: int) -> str:
    return (
        datetime.fromtimestamp(wall_us / 1e6, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    )
