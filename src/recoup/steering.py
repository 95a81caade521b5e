"""Controls, for people at any edge: sent to whoever drives a run, and carried out here where nobody does."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import msgspec

from recoup.errors import Conflict, NotFound, SettingsError, StateError, UsageError
from recoup.model.ids import run_stream
from recoup.model.storage import Control

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.events import Event
    from recoup.ports import Redactor

ACCEPTED: Final = "accepted"
LOOK_AGAIN: Final = "See how the run stands now, and what is possible: recoup show RUN"
_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_POLL_S: Final = 0.1
_PAGE_EVENTS: Final = 100
_EVENTS_BACK_MAX: Final = 10_000


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants of a run."""

    run_id: str
    action: str
    reason: str
    actor: str
    step_id: str | None = None
    argument: str | None = None
    id: str | None = None
    """Sending the same id again changes nothing."""


async def send(app: App, wish: Wish) -> Control:
    """Into the run's inbox; whoever drives it, or the next who does, will answer."""
    redactor = await _redactor_of(app, wish)
    _must_be_an_id(redactor, wish.id)
    await app.ledger.lease(
        wish.run_id
    )  # where it cannot be read, nobody will answer: nothing must be left to wait
    control = Control(
        id=wish.id or f"ctl-{secrets.token_hex(8)}",
        run_id=wish.run_id,
        action=wish.action,
        reason=redactor.redact(wish.reason).text,
        actor=wish.actor,
        at=app.world.clock.now(),
        step_id=wish.step_id,
        argument=wish.argument,
    )
    if not await app.ledger.send_control(control):
        await _must_be_the_same(app, control)
    return control


async def answered(app: App, sent: Control, patience_s: float) -> Control | None:
    """The driver's answer; where none lives, be the one who answers. None: there was none in time."""
    for _ in range(round(patience_s / _POLL_S)):
        current = await app.ledger.control(sent.id)
        assert current is not None, "a control that was sent is there"
        if current.outcome is not None:
            return current
        with contextlib.suppress(Conflict):  # its driver was still writing: look again
            await app.driving.carry_out(sent)
        await asyncio.sleep(_POLL_S)
    return None


async def detail_of(app: App, control: Control) -> str:
    """What was said about it when it was answered."""
    from recoup.model.events import ControlHandled

    if control.outcome is None:
        return ""
    async for event in _newest_first(app, control.run_id):
        told = event.payload
        if isinstance(told, ControlHandled) and told.command_id == control.id:
            return told.detail
    return ""


async def _newest_first(app: App, run_id: str) -> AsyncIterator[Event]:
    """So far back as somebody may still ask what was said."""
    stream = run_stream(run_id)
    end = await app.ledger.head(stream)
    oldest = max(0, end - _EVENTS_BACK_MAX)
    while end > oldest:
        begin = max(oldest, end - _PAGE_EVENTS)
        for event in reversed(await app.ledger.read(stream, begin, end - begin)):
            yield event
        end = begin


async def must_have_step(app: App, run_id: str, step: str | None) -> None:
    if step is None:
        return
    known = [record.step_id for record in (await app.runs.beginning(run_id)).steps]
    if step not in known:
        raise NotFound(f"run {run_id} has no step {step!r}", hint=f"Its steps: {', '.join(known[:20])}.")


async def _redactor_of(app: App, wish: Wish) -> Redactor:
    try:
        return await app.hiding.of_run_with_id(wish.run_id)
    except (SettingsError, NotFound, StateError):
        if wish.action != "cancel":  # nobody must be kept from ending a run because its secrets are elsewhere
            raise
        return await app.hiding.as_far_as_known(wish.run_id)


def _must_be_an_id(redactor: Redactor, control_id: str | None) -> None:
    fits = control_id is None or (_ID.fullmatch(control_id) and not redactor.found_in(control_id.encode()))
    if not fits:
        raise UsageError("--id must be 1 to 64 letters, digits, dots, dashes or colons, and no secret")


async def _must_be_the_same(app: App, wish: Control) -> None:
    """An id that was used before must have meant the same."""
    before = await app.ledger.control(wish.id)
    assert before is not None, "a control that was refused as known is known"
    meant = [(one.run_id, one.action, one.step_id, one.argument) for one in (before, wish)]
    if meant[0] != meant[1]:
        raise UsageError(
            f"--id {wish.id} was used before for another control: {before.action} of run {before.run_id}",
            hint="Leave --id out, or give a new one.",
        )
