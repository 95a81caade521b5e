"""What a gateway knows of its probes, and the rules by which it takes more. No sockets: requests in, answers out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from recoup.model.probe_wire import (
    COMMANDS_AT_ONCE_MAX,
    PROBLEM_TYPE,
    Acknowledged,
    Envelope,
    EventBatch,
    Name,
    Problem,
)

Decoded = TypeVar("Decoded")
_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
}


class Refused(Exception):
    """The request changes nothing."""

    def __init__(self, status: int, code: str, detail: str, expected_seq: int | None = None) -> None:
        super().__init__(detail)
        self.problem = Problem(
            type=PROBLEM_TYPE + code,
            title=_TITLES[status],
            status=status,
            detail=detail,
            expected_seq=expected_seq,
        )


class CommandOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somebody at the gateway wants a probe to do something."""

    probe_id: Name
    command: dict[str, Any]


@dataclass(slots=True)
class ProbeRecord:
    """One probe, as far as it has told."""

    epoch: int = 0
    """The highest that a sender held."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """In order and without gaps: the first is number 1."""
    commands: dict[str, dict[str, Any]] = field(default_factory=dict)
    handled: set[str] = field(default_factory=set)


class GatewayBook:
    """Everything is kept here and nothing forgotten: a stand-in, not a store."""

    def __init__(self) -> None:
        self.probes: dict[str, ProbeRecord] = {}
        self.escalations: dict[str, dict[str, Any]] = {}
        self.duplicates = 0
        """Events that came again."""

    def ingest(self, body: bytes) -> Acknowledged:
        """The whole batch or nothing of it. Raises Refused."""
        batch = _decoded(body, EventBatch)
        record = self._of_sender(batch.probe_id, batch.lease_epoch)
        lines = [(_decoded(raw, Envelope), _decoded(raw, dict[str, Any])) for raw in batch.events]
        _check_order(batch, [envelope for envelope, _ in lines])
        new = _new(record, lines)
        record.epoch = batch.lease_epoch
        self.duplicates += len(lines) - len(new)
        for event in new:
            self._keep(batch.probe_id, record, event)
        return Acknowledged(acknowledged_seq=len(record.events))

    def waiting(self, probe_id: str, lease_epoch: int) -> list[dict[str, Any]]:
        """The commands whose fate is not known yet. Raises Refused."""
        record = self._of_sender(probe_id, lease_epoch)
        record.epoch = lease_epoch
        open_ones = [one for name, one in record.commands.items() if name not in record.handled]
        return open_ones[:COMMANDS_AT_ONCE_MAX]

    def order(self, body: bytes) -> None:
        """Once for each id. Raises Refused."""
        order = _decoded(body, CommandOrder)
        command_id = order.command.get("command_id")
        if not isinstance(command_id, str) or not command_id:
            raise Refused(400, "malformed", "a command needs a command_id")
        known = self._record(order.probe_id).commands.setdefault(command_id, order.command)
        if known != order.command:
            raise Refused(409, "conflict", f"command {command_id} was given before, with other words")

    def events(self, probe_id: str, after: int, limit: int) -> list[dict[str, Any]]:
        return self._record(probe_id).events[after : after + limit]

    def _record(self, probe_id: str) -> ProbeRecord:
        return self.probes.setdefault(probe_id, ProbeRecord())

    def _of_sender(self, probe_id: str, lease_epoch: int) -> ProbeRecord:
        record = self._record(probe_id)
        if lease_epoch < record.epoch:
            detail = f"probe {probe_id} is in epoch {record.epoch}: whoever speaks from {lease_epoch} lost it"
            raise Refused(409, "stale_epoch", detail)
        return record

    def _keep(self, probe_id: str, record: ProbeRecord, event: dict[str, Any]) -> None:
        record.events.append(event)
        if event["type"] == "Escalated" and isinstance(event.get("escalation_id"), str):
            self.escalations.setdefault(event["escalation_id"], {"probe_id": probe_id, **event})
        if event["type"] == "CommandHandled" and isinstance(event.get("command_id"), str):
            record.handled.add(event["command_id"])


def _decoded(raw: bytes | msgspec.Raw, kind: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "malformed", str(error)) from None


def _check_order(batch: EventBatch, events: Sequence[Envelope]) -> None:
    before: Envelope | None = None
    for event in events:
        if event.lease_epoch > batch.lease_epoch:
            raise Refused(400, "order", f"event {event.event_id} is of a later epoch than its sender")
        if before and event.monotonic_seq != before.monotonic_seq + 1:
            raise Refused(400, "order", f"event {event.event_id} does not follow {before.event_id}")
        if before and event.lease_epoch < before.lease_epoch:
            raise Refused(400, "order", f"event {event.event_id} is of an earlier epoch than the one before")
        before = event


def _new(record: ProbeRecord, lines: Sequence[tuple[Envelope, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Those that are not kept yet; those that are must say the same as before."""
    kept = len(record.events)
    if lines and lines[0][0].monotonic_seq > kept + 1:
        raise Refused(409, "gap", f"the next event must be number {kept + 1}", expected_seq=kept + 1)
    new = []
    for envelope, event in lines:
        if envelope.monotonic_seq > kept:
            new.append(event)
        elif record.events[envelope.monotonic_seq - 1] != event:
            detail = (
                f"event {envelope.monotonic_seq} came before with other words: are there two such probes?"
            )
            raise Refused(409, "conflict", detail)
    _check_joint(record, new)
    return new


def _check_joint(record: ProbeRecord, new: Sequence[dict[str, Any]]) -> None:
    if new and record.events and new[0]["lease_epoch"] < record.events[-1]["lease_epoch"]:
        raise Refused(400, "order", "the epoch falls behind that of the events that are kept")
    known = {event["event_id"] for event in record.events} if new else set()
    for event in new:
        if event["event_id"] in known:
            raise Refused(409, "conflict", f"event_id {event['event_id']} stands at another sequence")
        known.add(event["event_id"])
