"""Steer a run, for whoever asks at any edge: a control is sent to the driver of the run, and carried out here where
nobody drives it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from recoup.errors import Conflict, NotFound, SettingsError, StateError, UsageError
from recoup.kernel.controls import CONTROLS
from recoup.kernel.controls.kind import FORCE, ControlKind
from recoup.model.events import ControlHandled
from recoup.model.ids import run_stream
from recoup.model.storage import Control
from recoup.operations.lookup import step_index
from recoup.operations.runs import show_run_or_forgotten

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.kernel.preview import Preview
    from recoup.model.events import Event
    from recoup.model.run import RunState
    from recoup.ports import Redactor

    ControlName = str
    ControlAnswerName = str
else:  # what shapes of requests are checked with
    ControlName = Literal[tuple(CONTROLS)]
    ControlAnswerName = Literal[
        tuple(dict.fromkeys(a for kind in CONTROLS.values() for a in kind.takes.answers))
    ]

ACCEPTED: Final = "accepted"
LOOK_AGAIN: Final = "See how the run stands now, and what is possible: recoup show RUN"
_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_POLL_S: Final = 0.1
_PAGE_EVENTS: Final = 100
_EVENTS_BACK_MAX: Final = 10_000


class ControlRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants of a run."""

    run_id: str
    action: str
    reason: str
    actor: str
    step_id: str | None = None
    answer: str | None = None
    force: bool = False
    held_to: str | None = None
    """What the answer of a second person was pinned to."""
    id: str | None = None
    """Sending the same id again changes nothing."""

    @property
    def argument(self) -> str | None:
        return FORCE if self.force else self.answer or self.held_to


class ControlAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What became of it."""

    control_id: str
    action: str
    outcome: str | None
    """accepted | refused; null: its driver has not answered yet."""
    epoch: int | None
    detail: str
    run: dict[str, Any]


class Spelling(msgspec.Struct, frozen=True, kw_only=True):
    """How one edge calls what is given with a control, in messages about it."""

    needs_step: str
    needs_answer: str
    """`{}` stands for an answer."""
    answer: str
    force: str
    lists_steps: str
    """Where the steps of a run are listed."""
    shows_step: str
    """Behind what to do first: where the step in question is named."""
    leave_out: str = ""
    """What to do about something that does not belong; `{}` stands for the control."""


class Mistake(msgspec.Struct, frozen=True):
    """What is missing or does not belong, and what to do about it."""

    message: str
    hint: str = ""


def mistake_in(request: ControlRequest, spelling: Spelling) -> Mistake | None:
    """What each control takes, held to by every edge in its own words."""
    kind = CONTROLS[request.action]
    return _missing(kind, request, spelling) or _unwanted(kind, request, spelling)


async def control(app: App, request: ControlRequest, patience_s: float) -> ControlAnswer:
    """Sends it and waits for the answer, at most so long. The same id again is the same control."""
    sent = await send(app, request)
    handled = await answered(app, sent, patience_s) or sent
    return ControlAnswer(
        control_id=handled.id,
        action=handled.action,
        outcome=handled.outcome,
        epoch=handled.epoch,
        detail=await detail_of(app, handled),
        run=await show_run_or_forgotten(app, handled.run_id),
    )


async def serve(app: App, request: ControlRequest, patience_s: float) -> ControlAnswer:
    """The same for a server. Raises UsageError where it was refused."""
    answer = await control(app, request, patience_s)
    must_be_accepted(answer)
    troubles = "".join(f" ({trouble})" for trouble in await app.chores.run())
    return msgspec.structs.replace(answer, detail=f"{answer.detail}{troubles}".strip())


def must_be_accepted(answer: ControlAnswer) -> None:
    """Or not answered yet."""
    if answer.outcome not in (None, ACCEPTED):
        raise UsageError(f"{answer.action} was {answer.outcome}: {answer.detail}", hint=LOOK_AGAIN)


async def foresee(app: App, request: ControlRequest) -> Preview:
    """What it would do now. Nothing is sent."""
    return await app.driving.foresee(request.run_id, request.action, request.step_id, request.argument)


async def possible_controls(app: App, state: RunState, step: str | None = None) -> list[Preview]:
    """Every control: whether it is possible now or why not, and exactly what it would do; with a step also what can be
    done with that. Raises NotFound."""
    from recoup.kernel.preview import previews, previews_of_step, previews_of_unknown_step

    policy, driven = await app.driving.shown_policy_of(state), await app.driving.is_driven(state.run_id)
    found = previews(state, policy, driven)
    if step is not None and state.unreadable is not None and not state.steps:
        found += previews_of_unknown_step(state, step)
    elif step is not None:
        found += previews_of_step(state, step_index(state, step), policy, driven)
    return found


async def send(app: App, request: ControlRequest) -> Control:
    """Into the run's inbox; whoever drives it, or the next who does, will answer."""
    redactor = await _redactor_of(app, request)
    _must_be_an_id(redactor, request.id)
    # Where the lease cannot be read, nobody will answer: nothing must be left to wait.
    await app.ledger.lease(request.run_id)
    control = Control(
        id=request.id or f"ctl-{secrets.token_hex(8)}",
        run_id=request.run_id,
        action=request.action,
        reason=redactor.redact(request.reason).text,
        actor=request.actor,
        at=app.world.clock.now(),
        step_id=request.step_id,
        argument=request.argument,
    )
    if not await app.ledger.send_control(control):
        await _must_be_the_same(app, control)
    return control


async def sent_control(app: App, control_id: str) -> Control | None:
    """None: none was sent under this id."""
    return await app.ledger.control(control_id)


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
    if control.outcome is None:
        return ""
    async for event in _newest_first(app, control.run_id):
        payload = event.payload
        if isinstance(payload, ControlHandled) and payload.command_id == control.id:
            return payload.detail
    return ""


async def must_have_step(app: App, run_id: str, step: str | None) -> None:
    if step is None:
        return
    known = [record.step_id for record in (await app.runs.beginning(run_id)).steps]
    if step not in known:
        raise NotFound(f"run {run_id} has no step {step!r}", hint=f"Its steps: {', '.join(known[:20])}.")


# What a control takes


def _missing(kind: ControlKind, request: ControlRequest, spelling: Spelling) -> Mistake | None:
    takes = kind.takes
    lacks_step = takes.step.is_required and request.step_id is None
    if not lacks_step and (not takes.answers or request.answer is not None):
        return None
    needs = [spelling.needs_step] if takes.step.is_required else []
    if takes.answers:
        needs.append(" or ".join(dict.fromkeys(map(spelling.needs_answer.format, takes.answers))))
    hint = f"{takes.look_first}{spelling.shows_step}" if takes.answers else spelling.lists_steps
    return Mistake(f"{kind.name} needs {' and '.join(needs)}", hint)


def _unwanted(kind: ControlKind, request: ControlRequest, spelling: Spelling) -> Mistake | None:
    if request.force and not kind.takes.beyond:
        return _does_not_belong(spelling.force, forced_kinds(), kind, spelling)
    if request.answer is not None and not kind.takes.answers:
        return _does_not_belong(spelling.answer, answering_kinds(), kind, spelling)
    return None


def _does_not_belong(name: str, fitting: list[str], kind: ControlKind, spelling: Spelling) -> Mistake:
    return Mistake(f"{name} is for {' and '.join(fitting)} only", spelling.leave_out.format(kind.name))


def stepping_kinds() -> list[str]:
    """Controls that must name a step."""
    return [kind.name for kind in CONTROLS.values() if kind.takes.step.is_required]


def answering_kinds() -> list[str]:
    """Controls that take an answer."""
    return [kind.name for kind in CONTROLS.values() if kind.takes.answers]


def forced_kinds() -> list[str]:
    """Controls that can be forced."""
    return [kind.name for kind in CONTROLS.values() if kind.takes.beyond]


def beyond_words() -> str:
    """Whom force is for, and beyond what it goes."""
    forced = [kind for kind in CONTROLS.values() if kind.takes.beyond]
    return ". ".join(f"For {kind.name}: beyond {kind.takes.beyond}" for kind in forced)


# Sending


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


async def _redactor_of(app: App, request: ControlRequest) -> Redactor:
    try:
        return await app.hiding.of_run_with_id(request.run_id)
    except (SettingsError, NotFound, StateError):
        if CONTROLS[request.action].needs_secrets:
            raise
        return await app.hiding.as_far_as_known(request.run_id)


def _must_be_an_id(redactor: Redactor, control_id: str | None) -> None:
    fits = control_id is None or (_ID.fullmatch(control_id) and not redactor.found_in(control_id.encode()))
    if not fits:
        raise UsageError("--id must be 1 to 64 letters, digits, dots, dashes or colons, and no secret")


async def _must_be_the_same(app: App, sent: Control) -> None:
    """An id that was used before must have meant the same."""
    before = await app.ledger.control(sent.id)
    assert before is not None, "a control that was refused as known is known"
    meant = [(one.run_id, one.action, one.step_id, one.argument) for one in (before, sent)]
    if meant[0] != meant[1]:
        raise UsageError(
            f"--id {sent.id} was used before for another control: {before.action} of run {before.run_id}",
            hint="Leave --id out, or give a new one.",
        )
