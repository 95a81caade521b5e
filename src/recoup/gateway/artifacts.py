"""What runs left behind: patches, reports, evidence, one attempt with all that is known of it.

Much of it was written by programs that nobody here vouches for, so nothing of it can run where it is shown: it is sent
with a policy that forbids everything, and with the type that it has. Names are looked up and never joined to a path: a
step is an index of the run's plan, evidence the digest of its content.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path as FilePath
from typing import Annotated, Any, Final

import msgspec
from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.errors import NotFound
from recoup.evidence.media import binary_type
from recoup.gateway.answering import document, is_known, tag_of
from recoup.gateway.described import answers, files
from recoup.gateway.house import House, house_of
from recoup.gateway.lists import iso
from recoup.gateway.routing import new_router
from recoup.gateway.runs import After
from recoup.kernel.rows import attempt_row_document
from recoup.model import events as ev
from recoup.model.answers.runs import AttemptDetail
from recoup.model.events import Event
from recoup.operations.events import run_event_pages
from recoup.operations.evidence import evidence_of
from recoup.operations.logs import attempt_section, log_piece, whole
from recoup.operations.lookup import step_index
from recoup.operations.reports import run_page
from recoup.operations.runs import attempts_of

router = new_router("artifacts")
PATCH_BYTES_MAX: Final = 1_000_000
ATTEMPT_LOG_BYTES_MAX: Final = 64_000
ATTEMPT_EVENTS_MAX: Final = 500
LOCKED: Final = "sandbox; default-src 'none'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
_PAGE_EVENTS: Final = 500
_SHOWN: Final = ("image/", "application/json", "text/plain")


@router.get("/api/runs/{run_id}/patches/{step}", responses=files("text/x-diff", "What the step changed."))
async def show_patch(
    request: Request,
    run_id: str,
    step: str,
    after: After = None,
    limit: Annotated[int, Query(ge=4, le=PATCH_BYTES_MAX)] = PATCH_BYTES_MAX,
) -> Response:
    """What a step changed, redacted, as far as it is kept where the gateway runs. `step` is an id or an index."""
    house = house_of(request)
    index = step_index(await house.states.shown(await house.run(run_id)), step)
    path = house.app.runs.files(run_id).patch_path(index)
    size = _size(path)
    if size is None:
        raise NotFound(
            f"no patch of step {step!r} is kept here",
            hint="It changed nothing, has not passed, or was driven on another machine.",
        )
    offset, raw = log_piece(path, min(after or 0, size), limit)
    told = {
        "Recoup-Offset": str(offset),
        "Recoup-Next-Offset": str(offset + len(raw)),
        "Recoup-Size": str(size),
        "Content-Disposition": f'attachment; filename="{run_id}-step-{index:04d}.patch"',
    }
    return _locked(request, raw, "text/x-diff; charset=utf-8", told)


@router.get(
    "/api/runs/{run_id}/report", responses=files("text/html", "The page that `recoup report` writes.")
)
async def show_report(request: Request, run_id: str) -> Response:
    """One page about the run, made now. It needs no script and no other request, and may have neither."""
    from recoup.reports.html import content_policy

    house = house_of(request)
    await house.run(run_id)
    async with house.reporting:
        page = await run_page(house.app, run_id)
    policy = f"sandbox; {content_policy()}; frame-ancestors 'self'"
    return _locked(request, page.encode(), "text/html; charset=utf-8", {"Content-Security-Policy": policy})


@router.get(
    "/api/evidence/{handle}", responses=files("*/*", "The evidence; its type is told by its content.")
)
async def show_evidence(
    request: Request, handle: Annotated[str, Path(pattern=r"^sha256:[0-9a-f]{64}$")]
) -> Response:
    """By the handle that an event cites. Whoever may look may see every event, and only an event tells a handle."""
    data = await evidence_of(house_of(request).app, handle)
    media = media_of(data)
    shown = "inline" if media.startswith(_SHOWN) else "attachment"
    name = handle.removeprefix("sha256:")[:16]
    return _locked(request, data, media, {"Content-Disposition": f'{shown}; filename="evidence-{name}"'})


@router.get("/api/runs/{run_id}/attempts/{step}/{attempt}", responses=answers(AttemptDetail))
async def show_attempt(
    request: Request, run_id: str, step: str, attempt: Annotated[int, Path(ge=1, le=1_000_000)]
) -> Response:
    """Everything that is known about one attempt: its events, what it was judged by, and the end of what it printed."""
    house = house_of(request)
    index = step_index(await house.states.shown(await house.run(run_id)), step)
    rows = {one.attempt: one for one in await attempts_of(house.app, run_id) if one.step_index == index}
    if attempt not in rows:
        raise NotFound(f"step {step!r} has no attempt {attempt}", hint=f"It has {len(rows)}.")
    events, left_out = await _events_of(house, run_id, index, attempt)
    begun = {number: iso(row.started_at_us) for number, row in rows.items()}
    log = await asyncio.to_thread(_section, house.app.runs.files(run_id).log_path(index), attempt, begun)
    told = {
        **msgspec.to_builtins(attempt_row_document(rows[attempt])),
        **_ending(events),
        "events": [event.line() for event in events],
        "eventsLeftOut": left_out,
        "log": log,
    }
    return document(request, told)


def media_of(data: bytes) -> str:
    """By what it is, and never by what somebody called it. What is shown as text cannot be a page."""
    if (binary := binary_type(data)) is not None:
        return binary
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        if data.lstrip()[:1] in (b"{", b"["):
            msgspec.json.decode(data)
            return "application/json"
    return "text/plain; charset=utf-8"


def _locked(request: Request, body: bytes, media: str, headers: dict[str, str]) -> Response:
    told = {"Content-Security-Policy": LOCKED, **headers, "ETag": tag_of(body)}
    if is_known(request, told["ETag"]):
        return Response(None, 304, told)
    answer = Response(body, 200, told)
    answer.headers["Content-Type"] = media  # starlette would name a charset of its own
    return answer


async def _events_of(house: House, run_id: str, index: int, attempt: int) -> tuple[list[Event], int]:
    """The first of them, and how many more there are."""
    found: list[Event] = []
    left_out = 0
    async for events in run_event_pages(house.app, run_id, _PAGE_EVENTS):
        found += [one for one in events if _is_of(one, index, attempt)]
        left_out += max(0, len(found) - ATTEMPT_EVENTS_MAX)
        del found[ATTEMPT_EVENTS_MAX:]
    return found, left_out


def _is_of(event: Event, index: int, attempt: int) -> bool:
    said = event.payload
    return isinstance(said, ev.StepPayload) and (said.step_index, said.attempt) == (index, attempt)


def _ending(events: list[Event]) -> dict[str, Any]:
    """What its last event says about it, as it is stored."""
    told: dict[str, Any] = {}
    for event in events:
        if isinstance(event.payload, ev.AttemptFinished | ev.AttemptFailed):
            told = msgspec.json.decode(event.raw)
    facts = told.get("facts")
    return {
        "durationMs": told.get("durationMs", (facts or {}).get("durationMs")),
        "exitCode": told.get("exitCode", (facts or {}).get("exitCode")),
        "summary": told.get("summary"),
        "facts": facts,
        "changedFiles": told.get("changedFiles", []),
        "changedFilesCount": told.get("changedFilesCount", 0),
        "evidence": told.get("evidence", []),
    }


def _section(path: FilePath, attempt: int, begun: dict[int, str]) -> dict[str, Any] | None:
    found = attempt_section(path, attempt, begun)
    if found is None:
        return None
    begin, end = found
    place = max(begin, end - ATTEMPT_LOG_BYTES_MAX)
    _, raw = log_piece(path, place, end - place)
    if place > begin:  # from the next line on, where there is one
        raw = raw[raw.find(b"\n") + 1 :]
    return {"offset": begin, "size": end - begin, "text": whole(raw).decode("utf-8", "replace")}


def _size(path: FilePath) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
