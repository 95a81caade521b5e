"""Probes as a reader wants them, from their events as lines: those of this ledger and those that others reported have
the same fields. Values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from recoup.kernel.probe_events import wrong_field
from recoup.kernel.probe_gateway import RESTORE_PRIMARY
from recoup.model.events import Event
from recoup.model.probe import Action, CommandKind

_RESTORE_MEANS: Final = "Bring a channel that was downgraded back to its first mode."
_RESET_MEANS: Final = "Give it its retries back; what has failed stays so until it is acted on."


class Resource(msgspec.Struct, kw_only=True):
    """What a probe looks after, as far as its events say."""

    resource_id: str
    phase: str = "unknown"
    health: str = "unknown"
    reason: str = ""
    since: str | None = None
    retries: dict[str, int] = {}
    exhausted: tuple[str, ...] = ()
    mode: str | None = None
    planned: str = ""


class Line(msgspec.Struct, frozen=True):
    """One event of a probe."""

    seq: int
    at: str
    type: str
    resource_id: str
    words: str


class Order(msgspec.Struct, frozen=True):
    """Something that a probe was told to do, and what became of it."""

    command_id: str
    what: str
    by: str
    reason: str
    at: str
    outcome: str
    detail: str


def actions_for(is_local: bool) -> dict[str, str]:
    """What may be ordered. Only a probe of this ledger can be given its retries back from here."""
    actions = {**{str(action): action.means for action in Action}, RESTORE_PRIMARY: _RESTORE_MEANS}
    return {**actions, str(CommandKind.RESET_BUDGET): _RESET_MEANS} if is_local else actions


def told_by(events: Iterable[Event]) -> list[dict[str, Any]]:
    """The events of a probe as plain documents; those that others reported are unwrapped. One that cannot be read, or
    holds a value of a wrong type, is `unreadable` and says nothing else: it is listed and counts for nothing."""
    return [{**_told(event), "seq": event.seq, "at": event.at.iso()} for event in events]


def _told(event: Event) -> dict[str, Any]:
    if event.unreadable is not None:
        return {"type": event.type, "unreadable": event.unreadable}
    body = msgspec.json.decode(event.raw)
    inner = body.get("event") if event.type == "probe.reported" else {**body, "type": event.type}
    if not isinstance(inner, dict):
        return {"type": event.type, "unreadable": "it is not an object"}
    wrong = wrong_field(inner)
    return inner if wrong is None else {"type": str(inner.get("type")), "unreadable": wrong}


def resources_of(told: Iterable[dict[str, Any]]) -> list[Resource]:
    """Where each resource stood when its probe told last."""
    found: dict[str, Resource] = {}
    for event in told:
        name = event.get("resource_id")
        if isinstance(name, str) and name:
            _advance(found.setdefault(name, Resource(resource_id=name)), event)
    return list(found.values())


def _advance(resource: Resource, event: dict[str, Any]) -> None:
    match event["type"]:
        case "PhaseChanged":
            resource.phase, resource.health = str(event.get("phase")), str(event.get("health"))
            resource.reason, resource.since = str(event.get("reason") or ""), event["at"]
            resource.planned = ""
        case "RecoveryPlanned":
            resource.planned = str(event.get("action") or "")
        case "RecoveryAttempted":
            retries = {str(event.get("fault_class")): int(event.get("retry_count") or 0)}
            resource.retries, resource.planned = {**resource.retries, **retries}, ""
        case "Escalated":
            resource.exhausted = (*resource.exhausted, str(event.get("fault_class")))
            resource.phase = str(event.get("phase") or resource.phase)
        case "BudgetReset":
            resource.retries, resource.exhausted = {}, ()
        case "ChannelDowngraded":
            resource.mode = str(event.get("to"))
        case "ChannelRestored":
            resource.mode = None


def from_document(document: dict[str, Any]) -> list[Resource]:
    """`recoup probe status --json`."""
    return [
        Resource(
            resource_id=one["resource_id"],
            phase=str(one["phase"]),
            health=str(one["health"]),
            reason=one["reason"],
            since=one["since"],
            retries={name: count for name, count in one["retries"].items() if count},
            exhausted=tuple(one["exhausted"]),
            mode=one["mode"],
            planned=_planned(one["planned"]),
        )
        for one in document["resources"]
    ]


def _planned(planned: dict[str, Any] | None) -> str:
    return "" if planned is None else f"{planned['action']} in {planned['due_in_seconds']:g} s"


def lines_of(told: Sequence[dict[str, Any]], limit: int) -> list[Line]:
    """Newest first."""
    return [
        Line(one["seq"], one["at"], one["type"], str(one.get("resource_id") or ""), _words(one))
        for one in reversed(told[-limit:])
    ]


def _words(event: dict[str, Any]) -> str:
    if "unreadable" in event:
        return f"unreadable: {event['unreadable']}"
    parts = [str(event[key]) for key in ("action", "command", "outcome", "phase", "health") if event.get(key)]
    if event.get("from") and event.get("to"):
        parts.append(f"from {event['from']} to {event['to']}")
    reason = str(event.get("reason") or "")
    said = ", ".join(parts).replace("_", " ")
    return f"{said}: {reason}" if said and reason else said or reason


def orders_of(commands: Iterable[Event], told: Sequence[dict[str, Any]], limit: int) -> list[Order]:
    """What was ordered here or handled there, newest first."""
    answers = {
        name: one
        for one in told
        # Nobody holds a probe elsewhere to what an id is: one that is none answers no order.
        if one["type"] == "CommandHandled" and isinstance(name := one.get("command_id"), str)
    }
    made: dict[str, Order] = {}
    for event in commands:
        if event.unreadable is not None:
            continue
        body = msgspec.json.decode(event.raw)
        name = str(body.get("commandId", ""))
        if event.type == "probe.command.ordered":
            made[name] = _ordered(name, body, event.at.iso(), answers.get(name))
        elif event.type == "probe.command.handled" and name in made:
            made[name] = msgspec.structs.replace(made[name], outcome=str(body.get("outcome")))
    alone = {name: _handled(name, one) for name, one in answers.items() if name not in made}
    return sorted([*made.values(), *alone.values()], key=lambda one: one.at, reverse=True)[:limit]


def _ordered(name: str, body: dict[str, Any], at: str, answer: dict[str, Any] | None) -> Order:
    command = body.get("command") or {}
    what = f"{command.get('action', '')} {command.get('resource_id', '')}".strip()
    detail = str((answer or {}).get("reason") or "")
    return Order(name, what, str(body.get("by", "")), str(body.get("reason", "")), at, "waiting", detail)


def _handled(name: str, event: dict[str, Any]) -> Order:
    what = f"{event.get('command', '')} {event.get('resource_id', '')}".strip()
    by, reason, rule = (str(event.get(key) or "") for key in ("actor", "reason", "rule"))
    return Order(name, what, by, reason, event["at"], str(event.get("outcome")), rule)
