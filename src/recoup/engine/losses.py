"""A database that lost what it had acknowledged: the ledger and its runs say so, and nothing is repeated unasked."""

from __future__ import annotations

import asyncio
from typing import Any

from recoup.engine.breaking import stored_draft
from recoup.engine.desk import Desk
from recoup.engine.world import World
from recoup.errors import Conflict
from recoup.model import events as ev
from recoup.model.ids import LEDGER_STREAM, run_stream
from recoup.model.storage import Append, Loss, StreamAppend, Suspicion

EPOCHS_LEAP = 100
"""Epochs leap by this much when a loss is noticed: up to here none was since the run was claimed first."""
_LOOK_BACK_EVENTS = 1_000


async def tell_losses(world: World) -> list[Loss]:
    """Append each loss to the stream `ledger`, once. Returns those that were appended here."""
    appended = []
    for loss in await world.ledger.untold_losses():
        try:
            if await _append_once(world, loss):
                appended.append(loss)
        except Conflict:
            break  # another process appends at this moment: the next look sees what
        await world.ledger.tell_loss(loss)
    return appended


async def _append_once(world: World, loss: Loss) -> bool:
    """False: it was there. Raises Conflict."""
    head = await world.ledger.head(LEDGER_STREAM)
    newest = await world.ledger.read(LEDGER_STREAM, max(0, head - _LOOK_BACK_EVENTS))
    if any(isinstance(one.payload, ev.LedgerEventsLost) and one.payload.loss_id == loss.id for one in newest):
        return False
    draft = stored_draft(world.redactor, ev.LedgerEventsLost(**_about(loss), runs=loss.runs))
    part = StreamAppend(LEDGER_STREAM, (draft,), head)
    await world.ledger.append(Append(at=world.clock.now(), streams=(part,)))
    return True


async def record_loss(desk: Desk) -> None:
    """Events of this run may be missing: record that before anything else is done. A driver whose claim was lost may
    still run a step elsewhere, until its lease runs out."""
    ledger, run_id = desk.world.ledger, desk.job.run_id
    if desk.epoch <= EPOCHS_LEAP:
        return
    suspicion = await ledger.suspicion(run_id)
    if suspicion is None:
        return
    await tell_losses(desk.world)
    await desk.world.clock.wait(asyncio.Event(), desk.world.lease_ttl_s - suspicion.age_s)
    await desk.recorder.record(_events_lost(run_id, suspicion))
    await ledger.end_suspicion(run_id, suspicion.loss)


def _events_lost(run_id: str, suspicion: Suspicion) -> ev.RunEventsLost:
    loss = suspicion.loss
    is_own = loss.stream == run_stream(run_id)
    return ev.RunEventsLost(
        loss_id=loss.id,
        evidence=loss.evidence,
        reason=f"the database lost events that it had acknowledged: {loss.detail}",
        acknowledged_seq=loss.seq if is_own else None,
        found_seq=loss.found_seq if is_own else None,
    )


def _about(loss: Loss) -> dict[str, Any]:
    return {
        "loss_id": loss.id,
        "evidence": loss.evidence,
        "reason": loss.detail,
        "noticed_at": loss.noticed_at,
        "lost_stream": loss.stream,
        "acknowledged_seq": loss.seq,
        "found_seq": loss.found_seq,
    }
