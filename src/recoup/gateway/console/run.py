"""The page of one run: where it stands and why, what can be done, and everything that it left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.errors import NotFound, RecoupError
from recoup.files.named import opened, read_named
from recoup.gateway.access import Role
from recoup.gateway.console import comparing, run_view
from recoup.gateway.console.event_view import event_line
from recoup.gateway.console.pages import Pages, page
from recoup.gateway.console.patch_view import StepDiff, step_diff
from recoup.gateway.house import house_of, principal_of
from recoup.kernel.advice import advice
from recoup.kernel.preview import previews, previews_of_step
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.operations.events import end_of_run, run_event_pages, run_events_between, submission_of
from recoup.operations.evidence import evidence_of
from recoup.operations.queues import driven_by
from recoup.operations.reports import run_page, run_report
from recoup.operations.runs import lease_of, linked_runs
from recoup.reports.chart import chart
from recoup.reports.plain import Plain

router = Pages()
_LIVE_VIEWS: Final = ("steps", "events")
_HEAD: Final = "run-head"
_ALL: Final = "run-all"
_CHART_BYTES_MAX: Final = 600_000
_ENTRIES_MAX: Final = 200
_FAMILY_MAX: Final = 12
_EVENTS_SHOWN: Final = 100
_TIMELINE_EVENTS_MAX: Final = 2_000
_EVENTS_LOOKED_AT_MAX: Final = 5_000
_EVENTS_WINDOW: Final = 500
_PATCH_BYTES_MAX: Final = 1 << 20
_PATCHES_SHOWN_MAX: Final = 20
_TAIL_BYTES_MAX: Final = 1 << 20
_PLAN_CHARS_MAX: Final = 200_000
_PICTURES_MAX: Final = 12
_PICTURE_SIGNS: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
_ATTEMPTS_SHOWN_MAX: Final = 30

View = Callable[[Request, App, RunState, "Offered"], Awaitable[dict[str, Any]]]


@router.get("/runs/{run_id}")
async def run(request: Request, run_id: str) -> Response:
    house = house_of(request)
    app, state = house.app, await house.states.shown(await house.run(run_id))
    name = request.query_params.get("view", "steps")
    name = name if name in _VIEWS else "steps"
    offered = await _offered(request, app, state)
    head = await _head(app, state, offered)
    only_head = request.headers.get("HX-Target") == _HEAD
    shown = {} if only_head else await _VIEWS[name](request, app, state, offered)
    return page(
        request,
        "run.html",
        title=f"{state.workflow} {run_id}",
        run_id=run_id,
        view=name,
        views=run_view.VIEWS,
        only_head=only_head,
        is_live_view=name in _LIVE_VIEWS or (name == "timeline" and _is_drawn_again(request, state)),
        **head,
        **shown,
    )


@router.get("/runs/{run_id}/report")
async def report(request: Request, run_id: str) -> Response:
    """The report of the run, to be kept or handed on."""
    house = house_of(request)
    await house.run(run_id)
    as_text = request.query_params.get("format") == "md"
    async with house.reporting:
        body = await run_page(house.app, run_id, markdown=as_text)
    name = f"{run_id}.{'md' if as_text else 'html'}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(body, 200, headers, "text/markdown" if as_text else "text/html")


class Offered(msgspec.Struct, frozen=True):
    """What the reader may do about the run depends on these; asked once for a page, so that its parts agree."""

    driven: bool
    policy: Policy
    may_change: bool


async def _offered(request: Request, app: App, state: RunState) -> Offered:
    return Offered(
        driven=await app.driving.is_driven(state.run_id),
        policy=await app.driving.shown_policy_of(state),
        may_change=principal_of(request).role is Role.OPERATOR,
    )


async def _head(app: App, state: RunState, offered: Offered) -> dict[str, Any]:
    """What stands above every view."""
    run_id, driven = state.run_id, offered.driven
    driver = await _driver(app, run_id) if driven else ""
    family = await linked_runs(app, run_id)
    possible = previews(state, offered.policy, driven) if state.unreadable is None else []
    now = app.world.clock.now()
    return {
        "state": state,
        "run_status": state.status.value,
        "advice": advice(state, driven),
        "facts": run_view.facts_of(state, driver, now),
        "now": run_view.now_of(state, now),
        "buttons": run_view.buttons_of(run_id, possible, offered.may_change),
        "family": family[-_FAMILY_MAX:],
        "is_terminal": state.status.is_terminal or state.status is RunStatus.ESCALATED,
    }


async def _driver(app: App, run_id: str) -> str:
    worker = (await driven_by(app)).get(run_id)
    if worker is not None:
        return worker
    lease, trouble = await lease_of(app, run_id)
    if trouble is not None:
        return f"unknown: {trouble.message}"
    return f"{lease.owner.host}, process {lease.owner.pid}" if lease and lease.owner else ""


# Views


async def _steps(request: Request, _app: App, state: RunState, offered: Offered) -> dict[str, Any]:
    policy, driven, may_change = offered.policy, offered.driven, offered.may_change
    said = request.query_params.get("from", "")
    first = run_view.first_step(
        state, int(said) if said.isascii() and said.isdigit() and len(said) < 9 else None
    )
    shown = state.steps[first : first + run_view.STEPS_SHOWN]
    lines = [
        run_view.step_line(state, record, previews_of_step(state, record.index, policy, driven), may_change)
        for record in shown
    ]
    return {"lines": lines, "first": first, "total": len(state.steps), "good": state.progress.prefix_length}


def _is_drawn_again(request: Request, state: RunState) -> bool:
    """A timeline is made of every event, at most twice a second for each who looks: of a long run it is drawn once. A
    page that follows goes on: what it asks for must be in the answer."""
    return state.seq <= _TIMELINE_EVENTS_MAX or request.headers.get("HX-Target") == _ALL


async def _timeline(request: Request, app: App, state: RunState, offered: Offered) -> dict[str, Any]:
    if state.unreadable is not None and not state.steps:
        nothing = dict.fromkeys(("failures", "decisions", "controls"), ())
        return {**nothing, "drawn": "", "left_out": 0, "decisions_left_out": 0}
    async with house_of(request).reporting:
        made = await run_report(app, state.run_id, driven=offered.driven)
        drawn, left_out = await asyncio.to_thread(chart, made.timeline, _CHART_BYTES_MAX)
    return {
        "drawn": Markup(drawn),  # made of escaped parts, by the room of reports
        "left_out": left_out,
        "failures": made.failures[-_ENTRIES_MAX:],
        "decisions": made.decisions[-_ENTRIES_MAX:],
        "decisions_left_out": max(0, len(made.decisions) - _ENTRIES_MAX),
        "controls": made.controls[-_ENTRIES_MAX:],
    }


async def _log(request: Request, app: App, state: RunState, _: Offered) -> dict[str, Any]:
    files, names = app.runs.files(state.run_id), [record.step_id for record in state.steps]
    sizes = [_size(files.log_path(index)) for index in range(len(names))]
    index = _chosen(request, state, sizes)
    attempts = state.steps[index].spent.attempts + (state.steps[index].open is not None) if names else 0
    first = max(1, attempts - _ATTEMPTS_SHOWN_MAX + 1)
    return {
        "log_steps": [(name, sizes[at]) for at, name in enumerate(names)],
        "log_step": names[index] if names else "",
        "log_bytes": sizes[index] if sizes else 0,
        "attempts": list(range(first, attempts + 1)),
        "over": state.status.is_terminal,
    }


async def _changes(request: Request, app: App, state: RunState, _: Offered) -> dict[str, Any]:
    files, wanted = app.runs.files(state.run_id), request.query_params.get("step", "")
    records = [record for record in state.steps if wanted in ("", record.step_id)]
    with_patch = [record for record in records if _size(files.patch_path(record.index))]
    diffs, plain = list[StepDiff](), await _plain(app, state.run_id)
    for record in with_patch[-_PATCHES_SHOWN_MAX:]:
        body, cut = await asyncio.to_thread(_beginning, files.patch_path(record.index))
        made = step_diff(record.step_id, record.index, body, cut, plain)
        if made is not None:
            diffs.append(made)
    return {"diffs": diffs, "more_diffs": len(with_patch) - len(diffs), "wanted_step": wanted}


async def _plain(app: App, run_id: str) -> Plain:
    redactor = await app.redactor_of(run_id)
    return Plain(lambda text: redactor.redact(text).text)


async def _compare(request: Request, app: App, state: RunState, _: Offered) -> dict[str, Any]:
    several = [record for record in state.steps if record.spent.attempts + (record.open is not None) > 1]
    names = [record.step_id for record in several]
    said = request.query_params.get("step", "")
    record = next((one for one in several if one.step_id == said), several[-1] if several else None)
    if record is None:
        return {"compared": None, "several": names}
    index = record.index
    events = await _events_of_step(app, state.run_id, index)
    known = await asyncio.to_thread(comparing.tried, events, index)
    numbers = sorted(known)
    left, right = _two(request, numbers)
    if left is None or right is None:
        return {"compared": None, "several": names}
    plain = await _plain(app, state.run_id)
    log = await asyncio.to_thread(_end, app.runs.files(state.run_id).log_path(index))
    printed = comparing.outputs(log)
    one, other = known[left], known[right]
    ends = [
        plain.end(printed.get(tried.attempt) or tried.excerpt, comparing.LINES_MAX) for tried in (one, other)
    ]
    return {
        "compared": (one, other),
        "several": names,
        "step": state.steps[index].step_id,
        "numbers": numbers[-_ATTEMPTS_SHOWN_MAX * 4 :],
        "rows": comparing.rows(one, other, plain),
        "verdict": comparing.verdict(one, other),
        "pairs": comparing.side_by_side(*ends),
    }


async def _events(request: Request, app: App, state: RunState, _: Offered) -> dict[str, Any]:
    kind = request.query_params.get("type", "").strip()[:100]
    said = request.query_params.get("before", "")
    before = int(said) if said.isascii() and said.isdigit() and len(said) < 12 else None
    head = await end_of_run(app, state.run_id)
    found, looked_to = await _events_before(app, state.run_id, kind, head if before is None else before - 1)
    return {
        "event_lines": [event_line(event) for event in found],
        "event_types": sorted({event.type for event in found}),
        "kind": kind,
        "newest": before is None,
        "older": looked_to if looked_to > 1 else None,
        "head": head,
    }


async def _events_before(app: App, run_id: str, kind: str, last: int) -> tuple[list[Event], int]:
    """Newest first, up to the event `last`; and the oldest that was looked at."""
    found, end, looked = list[Event](), last, 0
    window = _EVENTS_SHOWN if not kind else _EVENTS_WINDOW
    while end > 0 and len(found) < _EVENTS_SHOWN and looked < _EVENTS_LOOKED_AT_MAX:
        begin = max(0, end - window)
        for event in reversed(await run_events_between(app, run_id, begin, end)):
            if kind in event.type:
                found.append(event)
            if len(found) == _EVENTS_SHOWN:
                return found, event.seq
        looked, end = looked + end - begin, begin
    return found, end + 1


async def _events_of_step(app: App, run_id: str, index: int) -> list[Event]:
    """All of them; others are answered between two pages."""
    found = list[Event]()
    async for events in run_event_pages(app, run_id):
        found += [
            event
            for event in events
            if isinstance(event.payload, ev.StepPayload) and event.payload.step_index == index
        ]
    return found


async def _plan(_request: Request, app: App, state: RunState, _: Offered) -> dict[str, Any]:
    text = msgspec.json.format(msgspec.json.encode(state.plan), indent=2).decode()
    handles = [(record.step_id, handle) for record in state.steps for handle in record.results.evidence]
    outputs = [
        (
            record.step_id,
            {**record.results.outputs, **dict.fromkeys(record.results.secret_outputs, "[redacted]")},
        )
        for record in state.steps
        if record.results.outputs or record.results.secret_outputs
    ]
    inputs, source = dict(state.submission.inputs), state.submission.plan_source
    submitted = await submission_of(app, state.run_id)
    pictures = [handle for _, handle in handles[-_PICTURES_MAX:] if await _is_picture(app, handle)]
    return {
        "plan_text": text[:_PLAN_CHARS_MAX],
        "plan_cut": len(text) > _PLAN_CHARS_MAX,
        "inputs": inputs,
        "outputs": outputs,
        "evidence": handles[-_ENTRIES_MAX:],
        "pictures": pictures,
        "source": source,
        "submitted_by": None if submitted is None else submitted.submitted_by,
    }


_VIEWS: Final[dict[str, View]] = {
    "steps": _steps,
    "timeline": _timeline,
    "log": _log,
    "changes": _changes,
    "compare": _compare,
    "events": _events,
    "plan": _plan,
}


def _chosen(request: Request, state: RunState, sizes: list[int]) -> int:
    """The step whose output is shown: the one that was asked for, the one under way, or the last that printed."""
    said = request.query_params.get("step", "")
    for record in state.steps:
        if record.step_id == said:
            return record.index
    if said:
        raise NotFound(f"run {state.run_id} has no step {said!r}", hint="Choose one under Steps.")
    under_way = [record.index for record in state.steps if record.open is not None]
    printed = [index for index, size in enumerate(sizes) if size]
    return (under_way or printed or [0])[-1]


def _two(request: Request, numbers: list[int]) -> tuple[int | None, int | None]:
    """The attempts that were asked for; else the last two."""
    said = [request.query_params.get(name, "") for name in ("a", "b")]
    asked = [int(one) if one.isascii() and one.isdigit() and len(one) < 9 else 0 for one in said]
    if len(numbers) < 2:
        return None, None
    left = asked[0] if asked[0] in numbers else numbers[-2]
    right = asked[1] if asked[1] in numbers else numbers[-1]
    return left, right


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _beginning(path: Path) -> tuple[str, bool]:
    try:
        body = read_named(path, _PATCH_BYTES_MAX + 1)
    except OSError:
        return "", False
    return body[:_PATCH_BYTES_MAX].decode("utf-8", "replace"), len(body) > _PATCH_BYTES_MAX


def _end(path: Path) -> str:
    try:
        with opened(path) as file:
            file.seek(max(0, _size(path) - _TAIL_BYTES_MAX))
            return file.read(_TAIL_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""


async def _is_picture(app: App, handle: str) -> bool:
    """What cannot be had is shown as a handle."""
    try:
        return (await evidence_of(app, handle)).startswith(_PICTURE_SIGNS)
    except (OSError, RecoupError):
        return False
