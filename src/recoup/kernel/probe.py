"""What a probe does about a fault: act after a while, work in a lesser way, or hand it over.

A retry counts from the moment it is begun, whoever asked for it and whatever came of it. It comes back only when it has
left the sliding window *and* the resource was healthy for long enough since: neither time without health nor a short
recovery gives anything back.
"""

from __future__ import annotations

from recoup.kernel.elapsed import elapsed_s
from recoup.model.instant import Instant
from recoup.model.probe import (
    COMPLETED,
    DAY_S,
    Action,
    Budget,
    ChannelKind,
    Downgrade,
    Escalate,
    Fault,
    Finish,
    Leave,
    ProbeState,
    Resource,
    ResourceState,
    Retry,
    Step,
    Used,
)

MANUAL = "manual"
"""The class of an action that somebody asked for while nothing was wrong."""


def decide_fault(
    probe: ProbeState, state: ResourceState, resource: Resource, fault: Fault, now: Instant, chance: float
) -> Step:
    """`chance`, from 0 to 1, says how much of the jitter is added."""
    assert 0 <= chance <= 1, "chance is a share"
    if fault.fault_class == COMPLETED:
        return Finish(fault=fault)
    action = action_for(resource, fault.fault_class)
    if fault.fault_class in state.exhausted:
        return Leave(fault=fault, reason=f"handed over before: {state.exhausted[fault.fault_class]}")
    retry_count = retries_used(probe, state, fault.fault_class, resource.budget, now) + 1
    limit = "final" if fault.final else spent_limit(probe, state, fault.fault_class, resource.budget, now)
    if limit is None:
        backoff_s = delay_s(retry_count, resource.budget)
        wait_s = backoff_s * (1 + resource.budget.jitter * chance)
        return Retry(action=action, fault=fault, retry_count=retry_count, backoff_s=backoff_s, wait_s=wait_s)
    if limit != "final" and (lesser := _lesser_mode(state, resource)):
        return Downgrade(
            fault=fault, from_mode=lesser[0], to_mode=lesser[1], reason_code=f"budget_spent:{limit}"
        )
    return Escalate(action=action, fault=fault, retry_count=retry_count, limit=limit)


def action_for(resource: Resource, fault_class: str) -> Action:
    """The one that the file names for this class of fault, or else the kind's own."""
    by_kind = resource.kind.ON_FAULT.get(fault_class, resource.kind.ACTION)
    return resource.on_fault.get(fault_class, by_kind)


def spent_limit(
    probe: ProbeState, state: ResourceState, fault_class: str, budget: Budget, now: Instant
) -> str | None:
    """The limit that forbids another action; None: there is room for one."""
    if retries_used(probe, state, fault_class, budget, now) >= budget.max_retries:
        return "max_retries"
    if actions_in_a_day(probe, state, now) >= budget.day_max:
        return "day_max"
    return None


def retries_used(
    probe: ProbeState, state: ResourceState, fault_class: str, budget: Budget, now: Instant
) -> int:
    return sum(
        used.seq > state.given_back_seq or _age_s(probe, used, now, budget.window_s) < budget.window_s
        for used in state.used.get(fault_class, ())
    )


def actions_in_a_day(probe: ProbeState, state: ResourceState, now: Instant) -> int:
    every = (used for of_class in state.used.values() for used in of_class)
    return sum(_age_s(probe, used, now, DAY_S) < DAY_S for used in every)


def delay_s(retry_count: int, budget: Budget) -> float:
    assert retry_count >= 1, "retries are 1-based"
    return budget.delays_s[min(retry_count, len(budget.delays_s)) - 1]


def due_in_s(state: ResourceState, now: Instant) -> float | None:
    """How long the planned action has still to wait, also if it was planned by a probe that is gone; None: there is
    none."""
    if state.planned is None:
        return None
    waits_s = state.planned.wait_s
    return max(0.0, waits_s - elapsed_s(state.planned.since, now, waits_s))


def gives_back(state: ResourceState, resource: Resource, healthy_s: float) -> bool:
    """After so long a time of health the budget is given back, if any of it was used."""
    if healthy_s < resource.budget.healthy_reset_s:
        return False
    uncounted = all(used.seq <= state.given_back_seq for of_class in state.used.values() for used in of_class)
    return bool(state.exhausted) or not uncounted


def _lesser_mode(state: ResourceState, resource: Resource) -> tuple[str, str] | None:
    kind = resource.kind
    if not isinstance(kind, ChannelKind) or not kind.fallback or state.mode is not None:
        return None
    return (kind.mode, kind.fallback)


def _age_s(probe: ProbeState, used: Used, now: Instant, period_s: float) -> float:
    """After a reboot the wall clock may say anything; what has passed since the probe came back is certain."""
    age_s = elapsed_s(used.at, now, period_s)
    if used.at.boot_id == now.boot_id or probe.boot_seen is None:
        return age_s
    return max(age_s, elapsed_s(probe.boot_seen, now, period_s))
