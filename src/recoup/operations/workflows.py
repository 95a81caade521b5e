"""Workflows, for whoever asks: which ones there are, their modes, and an operator's word about one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from recoup.engine.forcing import force_mode, known_workflows
from recoup.errors import EventUnreadable, NotFound
from recoup.kernel.modes import mode_document, unreadable_mode_document
from recoup.model.ids import EVERY_WORKFLOW
from recoup.model.mode import Health, Mode
from recoup.model.run import Unreadable
from recoup.model.storage import RunFilter, StreamAppend

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.answers.workflows import ModeDocument
    from recoup.model.instant import Instant
    from recoup.model.policy import Policy
    from recoup.ports import Redactor

ALL: Final = "-"
"""Where a workflow is named in an address or to a tool: all of them together."""
NAMES_MAX: Final = 20


class ModeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The mode that a workflow, or every one of them, is put into."""

    workflow: str
    mode: Mode
    reason: str
    for_s: float | None = None
    """How long it lasts; None: until somebody says otherwise."""


async def workflows(app: App) -> list[str]:
    """Those that have a history of their own, and all of them together where that has one."""
    return await known_workflows(app.ledger)


async def exact_workflow(app: App, name: str, lists_workflows: str = "") -> str:
    """Raises NotFound: a name that was mistyped must look neither well nor as if it were paused now. `lists_workflows`:
    where this edge lists them; otherwise they are named."""
    known = await workflows(app)
    if name in known or (await app.ledger.runs(RunFilter(workflow=name), limit=1)).rows:
        return name
    names = ", ".join([one for one in known if one != EVERY_WORKFLOW][:NAMES_MAX])
    hint = f"Known: {names}." if names else "It is known from its first run on."
    hint = f"List them: {lists_workflows}" if lists_workflows else hint
    raise NotFound(f"no workflow {name!r} has ever run here", hint=hint)


async def modes(app: App, names: Sequence[str]) -> list[ModeDocument]:
    """By the policy as it is seen: who only looks makes no generation of their file."""
    (policy, _), now = await app.generations.seen(), app.world.clock.now()
    return [await _mode(app, name, policy, now) for name in names]


async def _mode(app: App, workflow: str, policy: Policy, now: Instant) -> ModeDocument:
    try:
        return mode_document(workflow, (await app.ledger.workflow_state(workflow)).health, policy, now)
    except EventUnreadable as error:
        unreadable = Unreadable(error.seq, error.event_type, error.reason)
        return unreadable_mode_document(workflow, unreadable, policy, now)


async def health_of(app: App, workflow: str) -> Health:
    """What the breaker has counted."""
    return (await app.ledger.workflow_state(workflow)).health


async def mode(app: App, workflow: str) -> ModeDocument:
    (document,) = await modes(app, [workflow])
    return document


async def set_mode(
    app: App,
    request: ModeRequest,
    actor: str,
    approval_ref: str | None = None,
    beside: tuple[StreamAppend, ...] = (),
) -> list[str]:
    """Returns what went wrong beside it, in words. The reason is redacted by what the workflow's last run knows as
    secret, as far as that is kept here: nobody must be kept from stopping a workflow because a run's files are gone or
    on another machine. What is `beside` it is written with it, or neither is."""
    names = [request.workflow] if request.workflow != EVERY_WORKFLOW else await workflows(app)
    reason = request.reason
    for redactor in [await _redactor_of_last_run(app, name) for name in names]:
        reason = redactor.redact(reason).text
    policy, now = await app.policy(), app.world.clock.now()
    changed = await force_mode(
        *(app.ledger, app.redactor, request.workflow, request.mode),
        reason=reason,
        actor=actor,
        for_s=request.for_s,
        policy=policy,
        now=now,
        approval_ref=approval_ref,
        beside=beside,
    )
    if (metrics := app.metrics.collector()) is not None:
        metrics.event(changed)
    return await app.chores.run()


async def _redactor_of_last_run(app: App, workflow: str) -> Redactor:
    rows = (await app.ledger.runs(RunFilter(workflow=workflow), limit=1)).rows
    return await app.redactor_of(rows[0].run_id if rows else None)
