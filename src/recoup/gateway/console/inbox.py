"""Where the pages read what waits for a person: escalations of runs and probes, approvals. Nothing else of the console
asks for them, so that it is joined with the desk of the gateway in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from recoup.app import App
from recoup.errors import NotFound
from recoup.gateway.house import House
from recoup.model.ids import run_stream
from recoup.model.storage import Escalation, RunRow

STATES: Final = ("open", "acknowledged", "assigned", "resolved")
READ_MAX: Final = 500
_RUN: Final = run_stream("")
_WAITING: Final = ("escalated", "dead_letter")


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One escalation, whoever raised it."""

    number: int
    """In the order in which they came."""
    id: str
    source: str
    """run | probe."""
    state: str
    assignee: str | None
    reason: str
    run_id: str | None
    probe_id: str | None
    raised_at_us: int | None
    event: dict[str, Any]
    """As it was recorded."""

    @property
    def hint(self) -> str:
        said = self.event.get("hint")
        return said if isinstance(said, str) else ""


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Something that one person wants and another must agree to."""

    ref: str
    action: str
    target: str
    request: dict[str, Any]
    asked_by: str
    token_id: str
    """With which it was asked for."""
    reason: str
    asked_at: str
    expires_at: str
    state: str
    """waiting | approved | rejected | expired | done | refused."""
    decided_by: str | None = None
    decision_reason: str | None = None
    detail: str = ""


async def items(house: House, state: str | None, after: int, limit: int) -> list[Item]:
    """Oldest first, behind the number `after`."""
    found = [one for one in await _all(house.app) if state in (None, one.state) and one.number > after]
    return found[:limit]


async def item(house: House, escalation_id: str) -> Item:
    for one in await _all(house.app):
        if one.id == escalation_id:
            return one
    raise NotFound(f"there is no escalation {escalation_id!r}", hint="The inbox lists all that there are.")


async def open_count(house: House, limit: int) -> int:
    return len(await items(house, "open", 0, limit))


async def history(house: House, escalation_id: str) -> list[dict[str, Any]]:
    """What people did about it, in order."""
    events = await house.app.ledger.read(f"escalation:{escalation_id}", limit=READ_MAX)
    told = [(event, msgspec.json.decode(event.raw)) for event in events]
    return [
        {
            "at": event.at.iso(),
            "change": event.type.removeprefix("escalation."),
            "by": body.get("by", ""),
            "reason": body.get("reason", ""),
            "assignee": body.get("assignee"),
        }
        for event, body in told
    ]


async def approvals(_house: House, _limit: int) -> list[Approval]:
    """Newest first."""
    return []


async def webhooks(_house: House) -> list[dict[str, Any]]:
    """Where the gateway tells others what happened, and how that goes: `id`, `name`, `url`, `events`,
    `state` (on | off), `failed`, `trouble`, `cursor`."""
    return []


async def _all(app: App) -> list[Item]:
    """Those of runs that wait still, and those of probes."""
    waiting: dict[str, RunRow] = {}
    for status in _WAITING:
        waiting |= {row.run_id: row for row in await app.ledger.runs(status=status, limit=READ_MAX)}
    rows = await app.ledger.escalations(undelivered=False, limit=READ_MAX)
    return [_item(number, row, waiting) for number, row in enumerate(rows, 1)]


def _item(number: int, row: Escalation, waiting: Mapping[str, RunRow]) -> Item:
    of_run = row.stream.startswith(_RUN)
    run_id = row.stream.removeprefix(_RUN) if of_run else None
    run = waiting.get(run_id) if run_id is not None else None
    return Item(
        number=number,
        id=row.id,
        source="run" if of_run else "probe",
        state="open" if run is not None or not of_run else "resolved",
        assignee=None,
        reason=row.reason,
        run_id=run_id,
        probe_id=None if of_run else row.stream.partition(":")[2],
        raised_at_us=None if run is None else run.updated_at_us,
        event=msgspec.json.decode(row.body.data),
    )
