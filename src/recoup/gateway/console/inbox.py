"""Where the pages read what waits for a person: escalations of runs and probes, approvals; and whom the gateway tells.
Nothing else of the console asks the desk for them."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.requests import Request

from recoup.gateway.console.menu import SHOWN_MAX
from recoup.gateway.hooks import hook_document
from recoup.gateway.house import House, house_of
from recoup.kernel import escalations as kernel
from recoup.kernel.approvals import approval_document, urgent_first
from recoup.model.answers.inbox import Webhook
from recoup.model.storage import EscalationRow
from recoup.operations.escalations import EscalationFilter, find_escalation, list_escalations
from recoup.operations.escalations import open_count as count_open

STATES: Final = kernel.STATES


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
    rows, _ = await list_escalations(house.app, EscalationFilter(state=state), limit, after)
    return [_item(row) for row in rows]


async def item(house: House, escalation_id: str) -> Item:
    return _item(await find_escalation(house.app, escalation_id))


async def open_count(request: Request) -> int:
    """Open escalations, as far as the menu shows a number."""
    return await count_open(house_of(request).app, SHOWN_MAX + 1)


async def approvals(house: House, limit: int) -> list[Approval]:
    """Those that wait first, whatever was decided since; then newest first."""
    now = house.app.world.clock.now()
    made = []
    for one in urgent_first(await house.approvals.all(), now)[:limit]:
        told, asked = approval_document(one, now), await house.approvals.wanted(one)
        made.append(
            Approval(
                ref=one.ref,
                action=one.action,
                target=one.target,
                request=asked.request,
                asked_by=one.asked_by,
                token_id=one.token_id,
                reason=one.reason,
                asked_at=one.asked_at,
                expires_at=told.expires_at,
                state=told.state,
                decided_by=one.decided_by,
                decision_reason=one.decision_reason,
                detail=one.detail,
            )
        )
    return made


async def webhooks(house: House) -> list[Webhook]:
    """Where the gateway tells others what happened, and how that goes."""
    return [hook_document(one) for one in house.hooks.book.all()]


def _item(row: EscalationRow) -> Item:
    told = kernel.escalation_document(row)
    return Item(
        number=row.number,
        id=row.id,
        source=told.source,
        state=row.state,
        assignee=row.assignee,
        reason=row.reason,
        run_id=told.run_id,
        probe_id=told.probe_id,
        raised_at_us=row.raised_at_us,
        event=told.event,
    )
