"""The inbox of escalations: which events put one there, what may be done about it, and how it is shown."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from recoup.kernel.canonical import digest
from recoup.kernel.probe_rules import is_name
from recoup.model import events as ev
from recoup.model.answers import inbox as answers
from recoup.model.events import Event, Payload
from recoup.model.instant import Instant
from recoup.model.redacted import Redacted
from recoup.model.storage import Escalation, EscalationRow

OPEN_OF_SENDER_MAX: Final = 20
"""Open entries of one probe's token; more are counted in the last of them."""
STATES = ("open", "acknowledged", "assigned", "resolved")
ACKNOWLEDGE, ASSIGN, RESOLVE = "acknowledge", "assign", "resolve"
_RUN, _REPORTED = "run:", "reported:"
_MAY_FOLLOW: dict[str, frozenset[str]] = {
    ACKNOWLEDGE: frozenset({"open"}),
    ASSIGN: frozenset({"open", "acknowledged", "assigned"}),
    RESOLVE: frozenset({"open", "acknowledged", "assigned"}),
}


def raised(stream: str, payload: Payload, body: Redacted) -> Escalation | None:
    """The entry that this event of this stream makes; None: it makes none."""
    if isinstance(payload, ev.Escalated | ev.ProbeEscalated):
        return Escalation(payload.escalation_id, stream, payload.reason, body)
    if not isinstance(payload, ev.ProbeReported) or payload.merged_into is not None:
        return None
    if (name := told_id(payload)) is None:
        return None
    reason = payload.event.get("reason")
    return Escalation(
        inbox_id(stream.removeprefix(_REPORTED), name),
        stream,
        reason if isinstance(reason, str) else "",
        body,
    )


def told_id(payload: ev.ProbeReported) -> str | None:
    """What a probe elsewhere calls the escalation that it reports; None: it reports something else."""
    name = payload.event.get("escalation_id")
    return name if payload.event.get("type") == "Escalated" and isinstance(name, str) else None


def inbox_id(probe_id: str, escalation_id: str) -> str:
    """Probes name their escalations themselves: two of them may choose the same name."""
    name = escalation_id if is_name(escalation_id) else digest(escalation_id)[7:39]
    return f"{probe_id}~{name}"


def refuse_move(row: EscalationRow, move: str) -> str | None:
    """Why this cannot be done about it now; None: it can."""
    if row.state in _MAY_FOLLOW[move]:
        return None
    whom = f" to {row.assignee}" if row.state == "assigned" else ""
    return f"escalation {row.id} is {row.state}{whom} already"


def escalation_document(row: EscalationRow) -> answers.Escalation:
    """As it is listed. What a probe said of it keeps the names that it has between probes and gateways."""
    event = _recorded(row)
    of_run = row.stream.startswith(_RUN)
    return answers.Escalation(
        id=row.id,
        source="run" if of_run else "probe",
        state=cast(answers.EscalationState, row.state),
        assignee=row.assignee,
        reason=row.reason,
        raised_at=Instant(row.raised_at_us, 0, "").iso(),
        run_id=row.stream.removeprefix(_RUN) if of_run else None,
        probe_id=None if of_run else row.stream.partition(":")[2],
        escalation_id=row.id if of_run else event.get("escalation_id", row.id),
        event=event,
    )


def _recorded(row: EscalationRow) -> dict[str, Any]:
    """The event that raised it; why it cannot be read, where its copy is damaged."""
    try:
        told = msgspec.json.decode(row.body.data, type=dict[str, Any])
        event = told["event"] if row.stream.startswith(_REPORTED) else told
    except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError) as error:
        return {"unreadable": " ".join(str(error).split())}
    return event if isinstance(event, dict) else {"unreadable": "it is not an object"}


def merged_count(events: list[Event]) -> int:
    """How many more escalations this entry stands for."""
    return sum(one.payload.count for one in events if isinstance(one.payload, ev.EscalationMerged))


def history(events: list[Event]) -> list[answers.EscalationChange]:
    """What people did about it, in order."""
    return [
        answers.EscalationChange(
            at=event.at.iso(),
            change=cast(answers.EscalationMove, event.type.removeprefix("escalation.")),
            by=event.payload.by,
            reason=event.payload.reason,
            assignee=getattr(event.payload, "assignee", None),
        )
        for event in events
        if isinstance(event.payload, ev.EscalationPayload)
    ]
