"""What each stream looks for behind a place, and what of it is made once for all who are at the same place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from pathlib import Path
from typing import Annotated, Final

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.batches import CHUNK_BYTES_MAX, Batch, batch_of, message
from recoup.gateway.described import streams
from recoup.gateway.house import House, house_of
from recoup.gateway.routing import new_router
from recoup.gateway.runs import After
from recoup.gateway.streaming import stream
from recoup.model.ids import run_stream
from recoup.operations.events import read_events
from recoup.operations.logs import LOG_BYTES_MAX, log_piece
from recoup.operations.lookup import step_index
from recoup.operations.tail import Entry, Watch

router = new_router("streams")
PACE_S: Final = 0.1
"""Of streams that tell what changed, not every event: at most one message about a run in that time."""
_BATCH_MAX: Final = 200
_GROUP_EVENTS_MAX: Final = 1_000
_GROUPS_MAX: Final = 500
_LOOKS_MAX: Final = 20


@router.get("/api/runs/stream", responses=streams("run"))
async def stream_runs(request: Request, after: After = None) -> Response:
    """The document of every run that changed, as it changes. Places are numbers of events among all."""
    house = house_of(request)

    async def look(place: int) -> Batch:
        return await _shared(house, ("runs",), place, lambda: _documents(house, place))

    return await stream(request, house, Watch(), look, after or 0, pace_s=PACE_S)


@router.get("/api/stream", responses=streams("arrivals or place"))
async def stream_changes(
    request: Request,
    run: Annotated[str | None, Query(max_length=200, description="Of this run alone.")] = None,
    after: After = None,
) -> Response:
    """For consoles: which runs have something new, from now on. At most one message about a run in 100 ms, with how
    many events came and the type of the last. Places are numbers of events among all."""
    house = house_of(request)
    only = None if run is None else run_stream(await house.run(run))

    async def look(place: int) -> Batch:
        return await _shared(house, ("changes", only), place, lambda: _changes(house, place, only))

    return await stream(request, house, Watch(only), look, after, pace_s=PACE_S)


@router.get("/api/events/stream", responses=streams("the type of the event"))
async def stream_arrivals(request: Request, after: After = None) -> Response:
    """The events of all streams, as they come. Places are numbers of events among all."""
    house = house_of(request)

    async def made(place: int) -> Batch:
        came = await house.tail.behind(place, _BATCH_MAX)
        return batch_of((one.arrival.number, one.arrival.type, one.line) for one in came)

    async def look(place: int) -> Batch:
        return await _shared(house, ("events",), place, lambda: made(place))

    return await stream(request, house, Watch(), look, after or 0)


@router.get("/api/runs/{run_id}/events/stream", responses=streams("the type of the event"))
async def stream_events(request: Request, run_id: str, after: After = None) -> Response:
    """The facts of a run as they come, until it is over. Places are sequence numbers."""
    house = house_of(request)
    name = run_stream(await house.run(run_id))
    watch = Watch(name)
    over = _Over(house, run_id, watch)

    async def look(place: int) -> Batch:
        return await events_behind(house, watch, name, place, await over.at())

    return await stream(request, house, watch, look, after or 0)


@router.get("/api/runs/{run_id}/logs/{step}/stream", responses=streams("log"))
async def stream_log(request: Request, run_id: str, step: str, after: After = None) -> Response:
    """What a step prints, as it does, until the run is over. Places are bytes."""
    house = house_of(request)
    index = step_index(await house.states.shown(await house.run(run_id)), step)
    path = house.app.runs.files(run_id).log_path(index)
    watch = Watch(run_stream(run_id), path)
    over = _Over(house, run_id, watch)

    async def look(place: int) -> Batch:
        ended = await over.at() is not None  # before the log: what it says last must not be missed
        return _log_batch(path, place, ended)

    return await stream(request, house, watch, look, after or 0)


async def events_behind(house: House, watch: Watch, name: str, place: int, over_at: int | None) -> Batch:
    """It is over where its last event was told, and the tail may not have heard of that one yet: then the ledger is
    asked, and has them all."""
    is_behind = over_at is not None and over_at > place
    if house.tail.follows and watch.latest is not None and watch.latest <= place and not is_behind:
        return Batch(over=over_at is not None)
    batch = await _of_run(house, watch, name, place)
    return batch if batch.body else Batch(over=over_at is not None)


class _Over:
    """Where a run is over, if it is: asked at first, and when it has said that it ended."""

    def __init__(self, house: House, run_id: str, watch: Watch) -> None:
        self._house, self._run_id, self._watch = house, run_id, watch
        self._at: int | None = None

    async def at(self) -> int | None:
        if self._watch.may_be_over:
            self._watch.may_be_over = False
            self._at = await self._house.states.over_at(self._run_id)
        return self._at


async def _shared(
    house: House, kind: tuple[Hashable, ...], place: int, make: Callable[[], Awaitable[Batch]]
) -> Batch:
    """Nothing where nothing is new. Whoever is behind the ring is alone there."""
    head = house.tail.ring.head
    if house.tail.follows and head <= place:
        return Batch()
    key = (*kind, place, head)
    batch = house.made.get(key)
    if batch is not None:
        return batch
    made = await make()
    return house.made.keep(key, made) if made.body else made


async def _documents(house: House, place: int) -> Batch:
    last, head = await _last_of_each(house, place, None)
    runs = {name: one for name, one in last.items() if name.startswith("run:")}
    body, told = bytearray(), place
    for name, (_, entry) in runs.items():
        told = entry.arrival.number
        body += message(told, "run", await house.states.document(name.removeprefix("run:")))
        if len(body) >= CHUNK_BYTES_MAX:
            return Batch(bytes(body), told)
    return _up_to(body, told, head)


async def _changes(house: House, place: int, only: str | None) -> Batch:
    last, head = await _last_of_each(house, place, only)
    body, told = bytearray(), place
    for name, (count, entry) in last.items():
        one, told = entry.arrival, entry.arrival.number
        about = {
            "run": name.removeprefix("run:") if name.startswith("run:") else None,
            "workflow": await house.tail.workflow_of(name),
            **{"type": one.type, "stream": name, "seq": one.seq, "count": count},
        }
        body += message(told, "arrivals", about)
    return _up_to(body, told, head)


def _up_to(body: bytearray, told: int, head: int) -> Batch:
    """What was looked at and is not worth a message need not be looked at again."""
    if told < head:
        body += message(head, "place", {})
    return Batch(bytes(body), head)


async def _last_of_each(
    house: House, place: int, only: str | None
) -> tuple[dict[str, tuple[int, Entry]], int]:
    """The last event of each stream behind the place and how many there were, in the order of those; and how far that
    is. Who is cut off in the middle misses none: those that follow are told by events that follow."""
    found: dict[str, tuple[int, Entry]] = {}
    for _ in range(_LOOKS_MAX):
        entries = await house.tail.behind(place, _GROUP_EVENTS_MAX)
        for entry in entries:
            name = entry.arrival.stream
            if only in (None, name):
                found[name] = (found.pop(name, (0, entry))[0] + 1, entry)
        place = entries[-1].arrival.number if entries else place
        if len(entries) < _GROUP_EVENTS_MAX or len(found) >= _GROUPS_MAX:
            break
        await asyncio.sleep(0)  # others have something to do, too
    return found, place


async def _of_run(house: House, watch: Watch, name: str, place: int) -> Batch:
    """From the ring where it has them all; else from the ledger."""
    kept = house.tail.ring.of_stream(name, place, _BATCH_MAX) if watch.latest is not None else None
    if kept:
        key = (name, place, kept[-1].arrival.seq)
        told = ((one.arrival.seq, one.arrival.type, one.line) for one in kept)
        return house.made.get(key) or house.made.keep(key, batch_of(told))
    events = await read_events(house.app, name, place, _BATCH_MAX)
    if watch.latest is None and len(events) < _BATCH_MAX:
        watch.latest = events[-1].seq if events else place
    return batch_of((event.seq, event.type, msgspec.json.encode(event.line())) for event in events)


def _log_batch(path: Path, place: int, over: bool) -> Batch:
    offset, raw = log_piece(path, place, LOG_BYTES_MAX)
    if not raw:
        return Batch(over=over)
    end = offset + len(raw)
    return Batch(message(end, "log", {"offset": offset, "log": raw.decode("utf-8", "replace")}), end)
