"""What a probe must not do, and the name of the rule that says so."""

from __future__ import annotations

from recoup.model.instant import Instant
from recoup.model.probe import (
    Action,
    Command,
    CommandKind,
    Phase,
    ProbeState,
    Refused,
    Resource,
    Rule,
)

RULES: dict[Rule, str] = {
    Rule.HOST_PLACEMENT: "a probe never changes on which host something runs",
    Rule.STABLE_ROUTE: "a probe never alters a stable route (workspace_id and agent_id)",
    Rule.DESIRED_STATE: "what should run, and how much of it, is not a probe's to change",
    Rule.PLATFORM_APPROVAL: "a probe never goes around an approval of the platform",
    Rule.SILENT_TERMINATION: "a probe never ends or archives a workload for good",
    Rule.ALLOWED_ACTIONS: "a probe may " + ", ".join(Action) + ", and nothing else",
}

_WORDS: dict[Rule, frozenset[str]] = {
    Rule.HOST_PLACEMENT: frozenset(
        ["host", "placement", "move", "migrate", "relocate", "reschedule", "evacuate", "drain", "node"]
    ),
    Rule.STABLE_ROUTE: frozenset(["route", "reroute", "routing", "workspace", "agent", "alias"]),
    Rule.DESIRED_STATE: frozenset(
        ["desired", "state", "scale", "replicas", "deploy", "upgrade", "rollback", "version"]
    ),
    Rule.PLATFORM_APPROVAL: frozenset(
        ["approve", "approval", "approvals", "bypass", "override", "sudo", "force"]
    ),
    Rule.SILENT_TERMINATION: frozenset(
        [
            "terminate",
            "termination",
            "kill",
            "archive",
            "delete",
            "destroy",
            "remove",
            "stop",
            "shutdown",
            "silence",
        ]
    ),
}

NAME_CHARS_MAX = 100
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-")
_NOT_A_NAME = f"must be at most {NAME_CHARS_MAX} letters, digits, `.`, `_`, `:` or `-`"

FORBIDDEN_KEYS: dict[str, Rule] = {
    "host_placement": Rule.HOST_PLACEMENT,
    "placement": Rule.HOST_PLACEMENT,
    "node": Rule.HOST_PLACEMENT,
    "node_selector": Rule.HOST_PLACEMENT,
    "route": Rule.STABLE_ROUTE,
    "stable_route": Rule.STABLE_ROUTE,
    "workspace_id": Rule.STABLE_ROUTE,
    "agent_id": Rule.STABLE_ROUTE,
    "desired_state": Rule.DESIRED_STATE,
    "desired_version": Rule.DESIRED_STATE,
    "replicas": Rule.DESIRED_STATE,
    "scale": Rule.DESIRED_STATE,
    "approval": Rule.PLATFORM_APPROVAL,
    "approvals": Rule.PLATFORM_APPROVAL,
    "bypass_approval": Rule.PLATFORM_APPROVAL,
    "skip_approval": Rule.PLATFORM_APPROVAL,
    "terminate": Rule.SILENT_TERMINATION,
    "archive": Rule.SILENT_TERMINATION,
    "silent_termination": Rule.SILENT_TERMINATION,
}
"""Keys of a probe file that would ask for it."""


def rule_against(asked: str) -> Rule | None:
    """None: it is an action. Otherwise the rule that its words offend; the closed list itself where none does."""
    if asked in frozenset(Action):
        return None
    words = set(asked.lower().replace("-", "_").replace(" ", "_").split("_"))
    return next((rule for rule, forbidden in _WORDS.items() if words & forbidden), Rule.ALLOWED_ACTIONS)


def refusal_words(asked: str, rule: Rule) -> str:
    return f"`{asked}` is refused by the rule {rule}: {RULES[rule]}"


def refuse_command(
    probe: ProbeState, resources: dict[str, Resource], command: Command, now: Instant
) -> Refused | None:
    """Why this command is not carried out. What it forbids comes first, then whether it is still meant for us."""
    return (
        _misnamed(command)
        or _forbidden(command)
        or _stale(probe, command, now)
        or _pointless(probe, resources, command)
    )


def is_name(text: str) -> bool:
    """It may stand in the ledger as it is: nothing that somebody says freely."""
    return 0 < len(text) <= NAME_CHARS_MAX and set(text) <= _NAME_CHARS


def _misnamed(command: Command) -> Refused | None:
    if not is_name(command.command_id):
        return Refused(rule="command_id", reason=_NOT_A_NAME)
    if command.fault_class is not None and not is_name(command.fault_class):
        return Refused(rule="fault_class", reason=_NOT_A_NAME)
    return None


def _forbidden(command: Command) -> Refused | None:
    if command.kind == CommandKind.RESTORE_MODE and not command.by_gateway:
        return Refused(rule="gateway_only", reason="only the gateway takes a downgrade back")
    asked = command.action or "" if command.kind == CommandKind.ACT else command.kind
    rule = None if asked in frozenset(CommandKind) else rule_against(asked)
    return None if rule is None else Refused(rule=rule, reason=refusal_words(asked, rule))


def _stale(probe: ProbeState, command: Command, now: Instant) -> Refused | None:
    if command.deadline_unix is not None and now.wall_us / 1e6 > command.deadline_unix:
        return Refused(rule="deadline_unix", reason="its deadline has passed")
    if command.lease_epoch is not None and command.lease_epoch != probe.epoch:
        reason = f"it is meant for epoch {command.lease_epoch}, and this is epoch {probe.epoch}"
        return Refused(rule="lease_epoch", reason=reason)
    if command.desired_version is not None and command.desired_version < probe.desired_version:
        reason = (
            f"version {command.desired_version} is older than {probe.desired_version}, which is known here"
        )
        return Refused(rule="desired_version", reason=reason)
    return None


def _pointless(probe: ProbeState, resources: dict[str, Resource], command: Command) -> Refused | None:
    resource = resources.get(command.resource_id)
    if resource is None:
        known = ", ".join(list(resources)[:20])
        reason = f"there is no resource {command.resource_id!r} here, but {known}"
        return Refused(rule="unknown_resource", reason=reason)
    state = probe.resources.get(command.resource_id)
    if command.kind == CommandKind.RESTORE_MODE and (state is None or state.mode is None):
        return Refused(rule="not_downgraded", reason=f"{command.resource_id} is not downgraded")
    if command.kind == CommandKind.ACT:
        return _out_of_place(resource, command)
    return None


def _out_of_place(resource: Resource, command: Command) -> Refused | None:
    fitting = resource.kind.ACTIONS
    if command.action in fitting:
        return None
    reason = f"{resource.id} cannot be told to {command.action}: it knows {', '.join(sorted(fitting))}"
    return Refused(rule="kind", reason=reason)


def may_be_acted_on(phase: Phase) -> bool:
    """By hand: not while it waits for what it needs, and not when the probe has stopped it."""
    return phase not in (Phase.WAITING, Phase.STOPPED)
