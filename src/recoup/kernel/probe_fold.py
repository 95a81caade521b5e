"""From events to what is known of a probe: `fold_probe` is the pure function, `advance_probe` its step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.instant import Instant
from recoup.model.probe import (
    Attempted,
    Fault,
    OpenEscalation,
    Planned,
    ProbeState,
    ResourceState,
    Used,
)

USED_MAX = 1_000
"""Of one class: more than any limit can ask for."""
COMMANDS_MAX = 1_000
ESCALATIONS_MAX = 1_000
CLASSES_MAX = 100
"""Of one resource. Whoever makes up names of faults loses the oldest ones."""


def fold_probe(probe_id: str, events: Iterable[Event]) -> ProbeState:
    state = ProbeState(probe_id=probe_id)
    for event in events:
        advance_probe(state, event.payload, event.at, event.seq)
    return state


def advance_probe(probe: ProbeState, payload: ev.Payload, at: Instant, seq: int) -> None:
    """One event further."""
    assert seq == probe.seq + 1, f"probe {probe.probe_id}: event {seq} follows {probe.seq}"
    probe.seq = seq
    if not isinstance(payload, ev.ProbePayload):
        return
    if payload.resource_id:
        state = probe.resources.setdefault(
            payload.resource_id, ResourceState(resource_id=payload.resource_id)
        )
        _advance_resource(state, payload, at, seq)
        state.last_event_id = payload.event_id
    _advance_itself(probe, payload, at, seq)


def _advance_itself(probe: ProbeState, payload: ev.ProbePayload, at: Instant, seq: int) -> None:
    match payload:
        case ev.ProbeStarted():
            probe.epoch, probe.config_digest = payload.lease_epoch, payload.config_digest
            probe.instance = payload.instance
            if probe.boot_seen is None or probe.boot_seen.boot_id != at.boot_id:
                probe.boot_seen = at
        case ev.ProbeEscalated():
            opened = OpenEscalation(escalation_id=payload.escalation_id, seq=seq)
            probe.open_escalations[payload.escalation_id] = opened
            _forget_oldest(probe.open_escalations, ESCALATIONS_MAX)
        case ev.EscalationDelivered():
            _tell(probe, payload)
        case ev.CommandHandled():
            probe.commands[payload.command_id] = payload.outcome
            _forget_oldest(probe.commands, COMMANDS_MAX)
            if payload.outcome == "accepted" and payload.desired_version is not None:
                probe.desired_version = max(probe.desired_version, payload.desired_version)


def _tell(probe: ProbeState, payload: ev.EscalationDelivered) -> None:
    known = probe.open_escalations.pop(payload.escalation_id, None)
    if known is not None and not payload.complete:
        told = replace(known, told=(*known.told, payload.outbox))
        probe.open_escalations[payload.escalation_id] = told


def _forget_oldest(known: dict[str, Any], most: int) -> None:
    while len(known) > most:
        del known[next(iter(known))]


def _advance_resource(state: ResourceState, payload: ev.ProbePayload, at: Instant, seq: int) -> None:
    if payload.correlation_id:
        state.correlation_id = payload.correlation_id
    match payload:
        case ev.PhaseChanged():
            state.phase, state.health, state.reason = payload.phase, payload.health, payload.reason
            state.since, state.fault_class = at, payload.fault_class
            state.planned = None
        case ev.RecoveryPlanned():
            state.planned = _planned(payload, at)
        case ev.RecoveryAttempted():
            state.planned, state.attempted = None, _attempted(payload)
            _use(state, payload.fault_class or "", Used(at, seq))
        case ev.RecoverySucceeded() | ev.RecoveryFailed():
            state.attempted = None
        case ev.ProbeEscalated():
            exhausted = {**state.exhausted, payload.fault_class or "": payload.escalation_id}
            _forget_oldest(exhausted, CLASSES_MAX)
            state.exhausted = exhausted
            state.escalations += 1
        case ev.ProcessLaunched():
            state.keeper = payload.keeper
        case ev.ChannelDowngraded():
            state.mode = payload.to_mode
        case ev.ChannelRestored():
            state.mode = None
        case ev.BudgetReset():
            _give_back(state, payload, seq)


def _use(state: ResourceState, fault_class: str, used: Used) -> None:
    of_class = (*state.used.get(fault_class, ()), used)[-USED_MAX:]
    others = {name: known for name, known in state.used.items() if name != fault_class}
    kept = dict(list(others.items())[-(CLASSES_MAX - 1) :])
    state.used = {**kept, fault_class: of_class}


def _give_back(state: ResourceState, payload: ev.BudgetReset, seq: int) -> None:
    if payload.automatic:
        state.given_back_seq, state.exhausted = seq, {}
    elif payload.fault_class is None:
        state.used, state.exhausted = {}, {}
    else:
        state.used = {name: used for name, used in state.used.items() if name != payload.fault_class}
        state.exhausted = {name: by for name, by in state.exhausted.items() if name != payload.fault_class}


def _fault(payload: ev.RecoveryPayload) -> Fault:
    return Fault(fault_class=payload.fault_class or "", reason=payload.reason, error_code=payload.error_code)


def _planned(payload: ev.RecoveryPlanned, at: Instant) -> Planned:
    assert payload.action is not None, "a plan names its action"
    return Planned(
        action=payload.action,
        fault=_fault(payload),
        retry_count=payload.retry_count,
        backoff_s=payload.backoff_seconds,
        wait_s=payload.wait_seconds,
        since=at,
        event_id=payload.event_id,
    )


def _attempted(payload: ev.RecoveryAttempted) -> Attempted:
    assert payload.action is not None, "an attempt names its action"
    return Attempted(
        action=payload.action,
        fault=_fault(payload),
        retry_count=payload.retry_count,
        backoff_s=payload.backoff_seconds,
        event_id=payload.event_id,
        manual=payload.manual,
    )
