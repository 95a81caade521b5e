"""What a probe and its gateway send each other, as JSON over HTTP. Both sides read and write these values."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

EVENTS_PATH = "/api/probe/events"
COMMANDS_PATH = "/api/probe/commands"
ESCALATIONS_PATH = "/api/escalations"
BODY_BYTES_MAX = 1 << 20
"""Of a request and of an answer. A gateway must take as much; what is longer it refuses with 413."""
EVENTS_AT_ONCE_MAX = 500
COMMANDS_AT_ONCE_MAX = 100
WAIT_S_MAX = 30.0
"""How long a gateway may be asked to wait for a command before it says that there is none."""
PROBLEM_TYPE = "urn:recoup:problem:"
PROBLEM_MEDIA_TYPE = "application/problem+json"

Name = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}\Z")]
Epoch = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Seq = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What every event says, whatever else it holds."""

    type: Name
    event_id: Name
    resource_id: str
    """Empty: the probe itself."""
    lease_epoch: Epoch
    monotonic_seq: Seq
    timestamp_unix: float
    correlation_id: str
    causation_id: str | None


class EventBatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events of one probe in order, sent by the one who holds its lease. Kept whole or not at all."""

    probe_id: Name
    lease_epoch: Epoch
    """Of the sender; the events may be older."""
    events: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(max_length=EVENTS_AT_ONCE_MAX)]


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """Everything up to this sequence is kept for good and need not be sent again."""

    acknowledged_seq: int


class Commands(msgspec.Struct, frozen=True, kw_only=True):
    """What the probe has yet to carry out or refuse, in the order in which it was asked."""

    commands: Annotated[tuple[dict[str, Any], ...], msgspec.Meta(max_length=COMMANDS_AT_ONCE_MAX)]


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request was refused (RFC 9457)."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    expected_seq: int | None = None
    """With `gap`: where the gateway wants the events to go on."""

    @property
    def code(self) -> str:
        """gap | stale_epoch | conflict | ...; empty: not one of ours."""
        return self.type.removeprefix(PROBLEM_TYPE) if self.type.startswith(PROBLEM_TYPE) else ""
