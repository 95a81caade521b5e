"""A probe as others see it: one document of what is known of it."""

from __future__ import annotations

from typing import Any

import msgspec

from recoup.kernel.probe import actions_in_a_day, due_in_s
from recoup.model.events import Event
from recoup.model.instant import Instant
from recoup.model.probe import ProbeState, ResourceState


def probe_document(state: ProbeState, now: Instant, *, running: bool, pid: int | None) -> dict[str, Any]:
    """`recoup probe status --json`."""
    return {
        "probe": state.probe_id,
        "running": running,
        "pid": pid,
        "lease_epoch": state.epoch,
        "config_digest": state.config_digest,
        "open_escalations": list(state.open_escalations),
        "resources": [_resource(state, one, now) for one in state.resources.values()],
    }


def probe_line(event: Event) -> dict[str, Any]:
    """One line of `recoup probe events --json`: the event line, with the fields of its payload beside it."""
    return {**msgspec.json.decode(event.raw), **event.line()}


def _resource(probe: ProbeState, state: ResourceState, now: Instant) -> dict[str, Any]:
    planned = state.planned
    return {
        "resource_id": state.resource_id,
        "phase": state.phase,
        "health": state.health,
        "reason": state.reason,
        "since": state.since.iso() if state.since else None,
        "retries": {name: _counting(state, name) for name in state.used},
        "actions_today": actions_in_a_day(probe, state, now),
        "exhausted": dict(state.exhausted),
        "mode": state.mode,
        "planned": None
        if planned is None
        else {
            "action": planned.action,
            "fault_class": planned.fault.fault_class,
            "retry_count": planned.retry_count,
            "backoff_seconds": planned.backoff_s,
            "due_in_seconds": round(due_in_s(state, now) or 0, 1),
        },
    }


def _counting(state: ResourceState, fault_class: str) -> int:
    """Of these retries, those that were not given back."""
    return sum(used.seq > state.given_back_seq for used in state.used[fault_class])
