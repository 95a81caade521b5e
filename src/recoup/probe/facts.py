"""The facts of a minder, from what it knows. Values in, values out: the recorder puts them into their envelopes."""

from __future__ import annotations

from typing import Any

from recoup.model import events as ev
from recoup.model.probe import (
    Action,
    Attempted,
    Command,
    Downgrade,
    Escalate,
    Fault,
    Health,
    Phase,
    ResourceState,
    Retry,
)


def entered(
    state: ResourceState,
    phase: Phase,
    reason: str,
    health: Health = Health.UNKNOWN,
    correlation_id: str = "",
) -> ev.PhaseChanged:
    return ev.PhaseChanged(
        resource_id=state.resource_id,
        phase=phase,
        previous=state.phase,
        health=health,
        reason=reason,
        correlation_id=correlation_id,
    )


def faulty(
    state: ResourceState, phase: Phase, fault: Fault, reason: str = "", correlation_id: str = ""
) -> ev.PhaseChanged:
    """Into a phase because of a fault."""
    return ev.PhaseChanged(
        resource_id=state.resource_id,
        phase=phase,
        previous=state.phase,
        health=Health.UNHEALTHY,
        reason=reason or fault.reason,
        fault_class=fault.fault_class,
        error_code=fault.error_code,
        correlation_id=correlation_id,
    )


def planned(state: ResourceState, step: Retry) -> ev.RecoveryPlanned:
    return ev.RecoveryPlanned(
        resource_id=state.resource_id,
        **_about(step.action, step.fault),
        retry_count=step.retry_count,
        backoff_seconds=step.backoff_s,
        wait_seconds=step.wait_s,
        phase=Phase.RECOVERING,
    )


def attempted(
    state: ResourceState,
    action: Action,
    fault: Fault,
    retry_count: int,
    backoff_s: float,
    command: Command | None,
) -> ev.RecoveryAttempted:
    """With a command: somebody asked for it."""
    return ev.RecoveryAttempted(
        resource_id=state.resource_id,
        **_about(action, fault),
        retry_count=retry_count,
        backoff_seconds=backoff_s,
        phase=Phase.RECOVERING,
        manual=command is not None,
        actor=command.actor if command else None,
        command_id=command.command_id if command else None,
    )


def succeeded(state: ResourceState, attempt: Attempted, reason: str) -> ev.RecoverySucceeded:
    return ev.RecoverySucceeded(
        resource_id=state.resource_id,
        action=attempt.action,
        fault_class=attempt.fault.fault_class,
        reason=reason,
        retry_count=attempt.retry_count,
        backoff_seconds=attempt.backoff_s,
        phase=Phase.RUNNING,
        result="succeeded",
    )


def failed(state: ResourceState, fault: Fault) -> tuple[ev.RecoveryFailed, ...]:
    """The action that is under way, if one is: this is what came of it."""
    attempt = state.attempted
    if attempt is None:
        return ()
    fact = ev.RecoveryFailed(
        resource_id=state.resource_id,
        action=attempt.action,
        fault_class=attempt.fault.fault_class,
        reason=fault.reason,
        error_code=fault.error_code,
        retry_count=attempt.retry_count,
        backoff_seconds=attempt.backoff_s,
        phase=Phase.RECOVERING,
        result="failed",
    )
    return (fact,)


def escalated(state: ResourceState, probe_id: str, step: Escalate) -> ev.ProbeEscalated:
    """The number makes the id one of this exhaustion alone, and the same for every telling of it."""
    return ev.ProbeEscalated(
        resource_id=state.resource_id,
        **_about(step.action, step.fault),
        retry_count=step.retry_count,
        phase=Phase.FAILED,
        result="escalated_to_gateway",
        escalation_id=f"{probe_id}:{state.resource_id}:{state.escalations + 1}",
        limit=step.limit,
        hint=_hint(state.resource_id, step),
    )


def downgraded(state: ResourceState, step: Downgrade) -> ev.ChannelDowngraded:
    return ev.ChannelDowngraded(
        resource_id=state.resource_id,
        from_mode=step.from_mode,
        to_mode=step.to_mode,
        reason_code=step.reason_code,
        reason=step.fault.reason,
        fault_class=step.fault.fault_class,
    )


def given_back(command: Command) -> ev.BudgetReset:
    """By somebody, for a class of faults or for all."""
    return ev.BudgetReset(
        resource_id=command.resource_id,
        fault_class=command.fault_class,
        automatic=False,
        reason=command.reason,
        actor=command.actor,
    )


def restored(state: ResourceState, mode: str, command: Command) -> ev.ChannelRestored:
    return ev.ChannelRestored(
        resource_id=state.resource_id,
        from_mode=state.mode or "",
        to_mode=mode,
        reason=command.reason,
        actor=command.actor,
    )


def handled(
    command: Command, outcome: str, reason: str, rule: str | None = None, *, known: bool = True
) -> ev.CommandHandled:
    """`known`: there is such a resource."""
    return ev.CommandHandled(
        resource_id=command.resource_id if known else "",
        command_id=command.command_id,
        command=command.kind if command.action is None else f"{command.kind} {command.action}",
        outcome=outcome,
        rule=rule,
        reason=reason,
        actor=command.actor,
        desired_version=command.desired_version,
    )


def _about(action: Action, fault: Fault) -> dict[str, Any]:
    return {
        "action": action,
        "fault_class": fault.fault_class,
        "reason": fault.reason,
        "error_code": fault.error_code,
    }


def _hint(resource_id: str, step: Escalate) -> str:
    again = f"recoup probe act {resource_id} {step.action} --reason '...'"
    if step.limit == "final":
        return f"Look why {resource_id} ended so; then: {again}"
    given_back = f"recoup probe reset-budget {resource_id} --reason '...'"
    return f"Mend what is wrong with {resource_id}; then: {given_back}, and {again}"
