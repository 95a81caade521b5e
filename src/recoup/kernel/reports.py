"""What a gateway takes from probes elsewhere: which events are new, which contradict what is kept, which commands wait.

A probe tells everything in order, at least once. What it has told before must be the same; what it skips is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.probe_wire import Envelope

IDS_KEPT: Final = 1_000
"""Of the last events of a probe, so that none of their ids stands for another."""
COMMANDS_WAITING_MAX: Final = 1_000
COMMANDS_KNOWN_MAX: Final = 10_000


class Refusal(msgspec.Struct, frozen=True):
    """Nothing of the request is taken."""

    status: int
    code: str
    detail: str
    expected_seq: int | None = None


class Told(msgspec.Struct, frozen=True):
    """One event as it came."""

    envelope: Envelope
    digest: str
    event: dict[str, Any]


class Reports(msgspec.Struct):
    """As far as a probe has told: a fold of its stream, of which the last events are enough."""

    seq: int = 0
    event_epoch: int = 0
    ids: dict[str, int] = {}
    """Of the last events, with their sequences."""


class Commands(msgspec.Struct):
    """What a probe is to do: a fold of the stream of its commands."""

    seq: int = 0
    waiting: dict[str, dict[str, Any]] = {}
    """As they were given, in order, until the probe has said what became of them."""
    desired_version: int = 1
    """The highest that was wanted: what asks for a lower one would be refused."""
    known: dict[str, str] = {}
    """The digest of each command by its id; empty: it was never given here. The oldest ones are forgotten."""


def advance_reports(reports: Reports, event: Event) -> None:
    if event.seq <= reports.seq:
        return
    reports.seq = event.seq
    if isinstance(event.payload, ev.ProbeReported):
        told = event.payload.event
        reports.event_epoch = told["lease_epoch"]
        reports.ids[told["event_id"]] = event.seq
    while len(reports.ids) > IDS_KEPT:
        del reports.ids[next(iter(reports.ids))]


def advance_commands(commands: Commands, event: Event) -> None:
    if event.seq <= commands.seq:
        return
    commands.seq = event.seq
    match event.payload:
        case ev.ProbeCommandOrdered() as ordered:
            if ordered.command_id not in commands.known:
                commands.waiting[ordered.command_id] = ordered.command
                commands.desired_version = max(commands.desired_version, _version(ordered.command))
            commands.known[ordered.command_id] = ordered.digest
        case ev.ProbeCommandHandled() as handled:
            commands.waiting.pop(handled.command_id, None)
            commands.known.setdefault(handled.command_id, "")
        case _:
            pass
    _forget_oldest(commands)


def _version(command: Mapping[str, Any]) -> int:
    wanted = command.get("desired_version")
    return wanted if isinstance(wanted, int) else 0


def judge_batch(
    reports: Reports, epoch: int, sender: int, told: Sequence[Told], kept: Mapping[int, str]
) -> Refusal | Sequence[Told]:
    """What of it is new. `epoch` is the latest under which the probe spoke, `sender` the one of this batch; `kept` has
    the digests of those events that came before."""
    return (
        stale(epoch, sender)
        or _out_of_order(sender, told)
        or _gap(reports, told)
        or _contradiction(reports, told, kept)
        or [one for one in told if one.envelope.monotonic_seq > reports.seq]
    )


def foreign(holder: str | None, token_id: str | None) -> Refusal | None:
    """A probe belongs to the token that spoke for it first: with that of one machine nobody speaks for another, or
    shuts it out by a lease that is far ahead."""
    if holder is None or holder == token_id:
        return None
    return Refusal(403, "role", "another token speaks for this probe")


def stale(epoch: int, sender: int) -> Refusal | None:
    if sender >= epoch:
        return None
    return Refusal(
        409, "stale_epoch", f"this probe is in epoch {epoch}: whoever speaks from {sender} lost it"
    )


def judge_order(commands: Commands, command_id: str, digest: str) -> Refusal | None:
    """Why the command is not taken; None: it is, or was."""
    known = commands.known.get(command_id, "")
    if known and known != digest:
        return Refusal(409, "conflict", f"command {command_id} was given before, with other words")
    if command_id not in commands.known and len(commands.waiting) >= COMMANDS_WAITING_MAX:
        return Refusal(
            409, "full", f"{COMMANDS_WAITING_MAX} commands wait for this probe, which is the limit"
        )
    return None


def _out_of_order(sender: int, told: Sequence[Told]) -> Refusal | None:
    before: Envelope | None = None
    for one in told:
        event = one.envelope
        if event.lease_epoch > sender:
            return _order(f"event {event.event_id} is of a later epoch than its sender")
        if before is not None and event.monotonic_seq != before.monotonic_seq + 1:
            return _order(f"event {event.event_id} does not follow {before.event_id}")
        if before is not None and event.lease_epoch < before.lease_epoch:
            return _order(f"event {event.event_id} is of an earlier epoch than the one before")
        before = event
    return None


def _gap(reports: Reports, told: Sequence[Told]) -> Refusal | None:
    wanted = reports.seq + 1
    if not told or told[0].envelope.monotonic_seq <= wanted:
        return None
    return Refusal(409, "gap", f"the next event must be number {wanted}", wanted)


def _contradiction(reports: Reports, told: Sequence[Told], kept: Mapping[int, str]) -> Refusal | None:
    ids = dict(reports.ids)
    for one in told:
        event = one.envelope
        if event.monotonic_seq <= reports.seq:
            if kept.get(event.monotonic_seq) != one.digest:
                return _conflict(
                    f"event {event.monotonic_seq} came before with other words: are there two such probes?"
                )
            continue
        if event.monotonic_seq == reports.seq + 1 and event.lease_epoch < reports.event_epoch:
            return _order("the epoch falls behind that of the events that are kept")
        if event.event_id in ids:
            return _conflict(f"event_id {event.event_id} stands at another sequence")
        ids[event.event_id] = event.monotonic_seq
    return None


def _order(detail: str) -> Refusal:
    return Refusal(400, "order", detail)


def _conflict(detail: str) -> Refusal:
    return Refusal(409, "conflict", detail)


def _forget_oldest(commands: Commands) -> None:
    """One that waits stays: it was given, and nobody has answered."""
    if len(commands.known) <= COMMANDS_KNOWN_MAX:
        return
    oldest = next(name for name in commands.known if name not in commands.waiting)
    del commands.known[oldest]
