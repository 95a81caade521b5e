"""What a probe looks after on this machine, what it may do about a fault, and how far it may go.

The list of actions is closed: what is not in `Action` cannot be asked for, recorded or performed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from recoup.model.ident import Ident
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant

DAY_S = 86_400
COMPLETED = "completed"
"""As the class of a fault: none at all. The resource ended as it should."""


class Action(StrEnum):
    """All that a probe may do. To add one: a member with its words here, in the `ACTIONS` of the kinds that know it
    (below), and what their holders do for it (`probe/kinds/`). Files, commands and pages read the rest from here."""

    means: str
    """What it does to a resource, for people who order it."""
    phrase: str
    """As a verb in a sentence."""

    def __new__(cls, name: str, means: str = "", phrase: str = "") -> Action:
        action = str.__new__(cls, name)
        action._value_ = name
        action.means, action.phrase = means, phrase or name
        return action

    RESTART = "restart", "Stop it and start it again."
    RECONNECT = "reconnect", "Close the channel and open it again."
    REMOUNT = "remount", "Take the mount away and bring it back."
    REBIND = "rebind", "Free the address and take it again."
    REFRESH_LOCAL_ENDPOINT = (
        "refresh_local_endpoint",
        "Write the address as it is now.",
        "refresh a local endpoint",
    )


class Rule(StrEnum):
    """Why something that is not an `Action` is refused."""

    HOST_PLACEMENT = "host_placement"
    STABLE_ROUTE = "stable_route"
    DESIRED_STATE = "desired_state"
    PLATFORM_APPROVAL = "platform_approval"
    SILENT_TERMINATION = "silent_termination"
    ALLOWED_ACTIONS = "allowed_actions"
    """It is none of those, and no action either."""


class Phase(StrEnum):
    """Where a resource is in its life."""

    WAITING = "waiting"
    """For what it needs."""
    STARTING = "starting"
    RUNNING = "running"
    RECOVERING = "recovering"
    FAILED = "failed"
    """Left alone: a person or the gateway decides."""
    STOPPED = "stopped"


class Health(StrEnum):
    """What the checks say."""

    UNKNOWN = "unknown"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    """It works, but a check has failed lately, or it does its work in a lesser way."""
    UNHEALTHY = "unhealthy"


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How often a probe may act on one resource for one class of fault."""

    max_retries: int = 3
    window_s: float = 600
    delays_s: tuple[float, ...] = (30, 90, 210)
    """Before each retry; before those that come after the last one, the last."""
    day_max: int = 12
    """In 24 hours, over all classes of fault of the resource: slow flapping is flapping too."""
    healthy_reset_s: float = 600
    """Retries come back after so long a time of health, and not before."""
    jitter: float = 0.1
    """A delay is lengthened by up to this share, never shortened."""


# Checks


class Check(msgspec.Struct, frozen=True, kw_only=True, tag_field="check"):
    """How often a resource is looked at in one way, and what is made of it."""

    FAULT_CLASS: ClassVar[str] = "unhealthy"
    every_s: float = 10
    timeout_s: float = 5
    failures: int = 3
    """So many in a row are a fault."""
    successes: int = 1
    """So many in a row are health, after a fault."""
    only_in: Ident = ""
    """Of a channel with modes: looked at in this one alone, and good in the other. Empty: in both."""


class ExitCheck(Check, frozen=True, kw_only=True, tag="exit"):
    """The process lives. Always on for processes, noticed at once."""

    FAULT_CLASS: ClassVar[str] = "process_exited"


class TcpCheck(Check, frozen=True, kw_only=True, tag="tcp"):
    """Something accepts connections there."""

    FAULT_CLASS: ClassVar[str] = "tcp_unreachable"
    host: str
    port: int


class HttpCheck(Check, frozen=True, kw_only=True, tag="http"):
    """A request is answered with one of these statuses."""

    FAULT_CLASS: ClassVar[str] = "http_unhealthy"
    url: str
    status: tuple[int, ...] = ()
    """None given: any below 400."""


class CommandCheck(Check, frozen=True, kw_only=True, tag="command"):
    """A command ends with exit code 0."""

    FAULT_CLASS: ClassVar[str] = "command_failed"
    command: tuple[str, ...]


class HeartbeatCheck(Check, frozen=True, kw_only=True, tag="heartbeat"):
    """A file was written not longer ago than that."""

    FAULT_CLASS: ClassVar[str] = "heartbeat_stale"
    path: str
    max_age_s: float


class OutputCheck(Check, frozen=True, kw_only=True, tag="output"):
    """A line of the output that matches says that something is wrong (`fault`) or that all is well (`ready`)."""

    FAULT_CLASS: ClassVar[str] = "output_pattern"
    fault: str | None = None
    ready: str | None = None
    within_s: float | None = None
    """With `ready`: such a line must come at least so often; None: once after the start."""


AnyCheck = ExitCheck | TcpCheck | HttpCheck | CommandCheck | HeartbeatCheck | OutputCheck


# Kinds


class ProcessKind(msgspec.Struct, frozen=True, kw_only=True, tag="process"):
    """A process that should run for as long as the probe does."""

    ACTION: ClassVar[Action] = Action.RESTART
    ACTIONS: ClassVar[frozenset[Action]] = frozenset({Action.RESTART})
    ON_FAULT: ClassVar[Mapping[str, Action]] = {}
    command: tuple[str, ...]
    cwd: str = "."
    env: dict[str, str] = {}
    stop_grace_s: float = 10
    never_restart_on: tuple[int, ...] = ()
    """Exit codes after which only a person may start it again. With 0 among them, that exit means: done."""
    settle_s: float = 1
    """Without another check it counts as healthy when it has lived so long."""
    log_bytes_max: int = 10 << 20


class ChannelKind(msgspec.Struct, frozen=True, kw_only=True, tag="channel"):
    """A connection that is kept open, or opened again: one of the transports below."""

    ACTION: ClassVar[Action] = Action.RECONNECT
    ACTIONS: ClassVar[frozenset[Action]] = frozenset({Action.RECONNECT, Action.RESTART})
    ON_FAULT: ClassVar[Mapping[str, Action]] = {"ssh_remote_attach_failed": Action.RESTART}
    """Where the kind's own action is not the one."""
    transport: Ident
    """tcp | http | websocket | unix | ssh_remote | dialog."""
    address: str = ""
    """host:port, a URL or a path, as the transport wants it."""
    host: str = ""
    port: int = 0
    user: str = ""
    identity_file: str = ""
    known_hosts_file: str = ""
    forwards: tuple[str, ...] = ()
    """ssh_remote, in ide_primary alone: local ports that lead to the other machine, as ssh's -L has them."""
    mode: Ident = ""
    """ssh_remote: ide_primary | terminal_fallback."""
    fallback: Ident = ""
    """ssh_remote: what it is downgraded to, once, before anybody is asked."""
    command: tuple[str, ...] = ()
    """What holds the connection, where a program of its own does."""
    pings: bool = True
    """dialog: the other side answers pings."""
    connect_timeout_s: float = 10
    """For an answer too."""
    every_s: float = 10
    """So often it is looked at."""


class MountKind(msgspec.Struct, frozen=True, kw_only=True, tag="mount"):
    """A file system at a path."""

    ACTION: ClassVar[Action] = Action.REMOUNT
    ACTIONS: ClassVar[frozenset[Action]] = frozenset({Action.REMOUNT})
    ON_FAULT: ClassVar[Mapping[str, Action]] = {}
    path: str
    command: tuple[str, ...]
    unmount: tuple[str, ...] = ()
    timeout_s: float = 30
    every_s: float = 30


class BindingKind(msgspec.Struct, frozen=True, kw_only=True, tag="binding"):
    """A local port that answers: bound by a command, or forwarded to another one."""

    ACTION: ClassVar[Action] = Action.REBIND
    ACTIONS: ClassVar[frozenset[Action]] = frozenset({Action.REBIND, Action.RESTART})
    ON_FAULT: ClassVar[Mapping[str, Action]] = {}
    host: str = "127.0.0.1"
    port: int
    """0, with `forward_to`: any that is free."""
    command: tuple[str, ...] = ()
    forward_to: str = ""
    """host:port that connections are passed on to, where no command does it."""
    timeout_s: float = 30
    every_s: float = 10


HOST_AND_PORT = "{host}:{port}"


class EndpointKind(msgspec.Struct, frozen=True, kw_only=True, tag="endpoint"):
    """A file that names a local address, alone or as the value of a variable in it."""

    ACTION: ClassVar[Action] = Action.REFRESH_LOCAL_ENDPOINT
    ACTIONS: ClassVar[frozenset[Action]] = frozenset({Action.REFRESH_LOCAL_ENDPOINT})
    ON_FAULT: ClassVar[Mapping[str, Action]] = {}
    file: str
    variable: str = ""
    """The name in a file of NAME=value lines; empty: the whole file is the address."""
    command: tuple[str, ...] = ()
    """Prints the address as it is now."""
    address: str = ""
    """The address, where it never changes."""
    port_file: str = ""
    """A file that holds host:port, or a port alone, as it is now."""
    binding: Ident = ""
    """A binding of the same probe, whose address it is."""
    format: str = HOST_AND_PORT
    """What is made of a port file's or a binding's host and port."""
    timeout_s: float = 30
    every_s: float = 10


AnyKind = ProcessKind | ChannelKind | MountKind | BindingKind | EndpointKind


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a probe looks after."""

    id: Ident
    kind: AnyKind
    checks: tuple[AnyCheck, ...] = ()
    needs: tuple[Ident, ...] = ()
    """Started after these, stopped before them, and started again with them."""
    on_fault: dict[Ident, Action] = {}
    """Instead of the kind's own action."""
    budget: Budget = Budget()
    start_period_s: float = 30
    """How long it may take to become healthy after it was started or acted on."""


class ProbeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one probe looks after."""

    id: Ident
    resources: tuple[Resource, ...]
    folder: str
    """Relative paths and commands start here."""
    gateway: str | None = None
    hand_over: dict[str, Any] = {}
    """Whom escalations are told besides: the settings of each notifier, by its key."""
    secrets: tuple[Ident, ...] = ()
    """Names of variables whose values are never stored."""


# What is known of a resource


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something is wrong with a resource: which class of fault, and words about it."""

    fault_class: Ident
    reason: str
    error_code: Ident | None = None
    final: bool = False
    """Acting would not help, or must not be tried: hand it over at once."""


class Used(msgspec.Struct, frozen=True):
    """One action that was begun. It counts even if nothing is known of its result."""

    at: Instant
    seq: int


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """An action that waits for its time."""

    action: Action
    fault: Fault
    retry_count: int
    backoff_s: float
    wait_s: float
    """The backoff with what chance has added."""
    since: Instant
    event_id: Ident


class Attempted(msgspec.Struct, frozen=True, kw_only=True):
    """An action that was begun and whose result is not known yet."""

    action: Action
    fault: Fault
    retry_count: int
    backoff_s: float
    event_id: Ident
    manual: bool = False


class ResourceState(msgspec.Struct, kw_only=True):
    """What the events say of one resource. Changed by `kernel.probe_fold` alone."""

    resource_id: Ident
    phase: Phase = Phase.STOPPED
    health: Health = Health.UNKNOWN
    reason: str = ""
    since: Instant | None = None
    """In this phase."""
    fault_class: Ident | None = None
    """Why it is recovering or has failed; None: it is neither."""
    used: dict[str, tuple[Used, ...]] = {}
    """By fault class: the actions since its budget was last given back by hand."""
    given_back_seq: int = 0
    """Actions before this event count only while they are within the window."""
    exhausted: dict[str, str] = {}
    """By fault class: the escalation that says so."""
    escalations: int = 0
    planned: Planned | None = None
    attempted: Attempted | None = None
    keeper: ProcessIdentity | None = None
    mode: str | None = None
    """Of a channel: what it was downgraded to."""
    correlation_id: Ident = ""
    """Of the fault that is being dealt with, or was last."""
    last_event_id: Ident | None = None


class OpenEscalation(msgspec.Struct, frozen=True, kw_only=True):
    """One that somebody has yet to be told of."""

    escalation_id: Ident
    seq: int
    told: tuple[Ident, ...] = ()
    """The outboxes that have taken it."""


class ProbeState(msgspec.Struct, kw_only=True):
    """What the events of one probe come to."""

    probe_id: Ident
    seq: int = 0
    epoch: int = 0
    config_digest: Ident = ""
    instance: Ident = ""
    desired_version: int = 0
    """Of the last command that named one."""
    boot_seen: Instant | None = None
    """When a probe first started in the boot that is known last: from there its clock measures."""
    resources: dict[str, ResourceState] = {}
    commands: dict[str, str] = {}
    """The outcomes of the last commands, by id."""
    open_escalations: dict[str, OpenEscalation] = {}


class CommandKind(StrEnum):
    """What a person or the gateway may tell a probe."""

    ACT = "act"
    RESET_BUDGET = "reset_budget"
    RESTORE_MODE = "restore_mode"
    """Take a downgrade of a channel back: the gateway's alone."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Something a probe is told to do, once: the id makes a second telling harmless."""

    command_id: Ident
    kind: str
    """A `CommandKind`; anything else is refused by name."""
    resource_id: str
    action: str | None = None
    """With `act`: an `Action`; anything else is refused by the name of the rule that forbids it."""
    fault_class: str | None = None
    reason: str
    actor: str
    by_gateway: bool = False
    desired_version: int | None = None
    lease_epoch: int | None = None
    deadline_unix: float | None = None


# What follows


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """Act, after a while."""

    action: Action
    fault: Fault
    retry_count: int
    backoff_s: float
    wait_s: float


class Downgrade(msgspec.Struct, frozen=True, kw_only=True):
    """The budget is spent, but the channel can still do its work in a lesser way: once, instead of asking somebody."""

    fault: Fault
    from_mode: Ident
    to_mode: Ident
    reason_code: Ident


class Escalate(msgspec.Struct, frozen=True, kw_only=True):
    """The next action is refused: somebody else decides."""

    action: Action
    fault: Fault
    retry_count: int
    limit: Ident
    """max_retries | day_max | final."""


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """It has done what it was there for."""

    fault: Fault


class Leave(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing: this was handed over before."""

    fault: Fault
    reason: str


Step = Retry | Downgrade | Escalate | Finish | Leave
"""What a probe does about a fault."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Why a command is not carried out."""

    rule: Ident
    reason: str
