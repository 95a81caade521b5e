"""What stands in requests and answers about what waits at the desk. Probes and gateways speak with underscores."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from recoup.gateway.shapes import Name, Reason, Shape
from recoup.model.probe_wire import COMMANDS_AT_ONCE_MAX, EVENTS_AT_ONCE_MAX


class Wire(BaseModel):
    """Between probes and gateways, names are as they are written here."""

    model_config = ConfigDict(extra="forbid")


class EventBatch(Wire):
    """See docs/reference/probe-gateway.md."""

    probe_id: Name
    lease_epoch: Annotated[int, Field(ge=1)]
    events: Annotated[list[dict[str, Any]], Field(max_length=EVENTS_AT_ONCE_MAX)]


class CommandOrder(Wire):
    probe_id: Name
    command: dict[str, Any]


class Acknowledged(Wire):
    acknowledged_seq: int


class Reported(Wire):
    events: list[dict[str, Any]]


class Commands(Wire):
    commands: Annotated[list[dict[str, Any]], Field(max_length=COMMANDS_AT_ONCE_MAX)]


class Ordered(Shape):
    command_id: str


class Released(Shape):
    probe_id: str


class SaidRequest(Shape):
    reason: Reason


class AssignRequest(Shape):
    reason: Reason
    assignee: Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]


class Escalation(Shape):
    model_config = ConfigDict(extra="forbid")
    id: str
    source: Literal["run", "probe"]
    state: Literal["open", "acknowledged", "assigned", "resolved"]
    assignee: str | None
    reason: str
    raised_at: str
    run_id: str | None
    probe_id: Annotated[str | None, Field(alias="probe_id")]
    escalation_id: Annotated[
        str, Field(alias="escalation_id", description="As the run or the probe calls it.")
    ]
    event: Annotated[dict[str, Any], Field(description="The `Escalated` event as it was recorded.")]


class EscalationPage(Shape):
    escalations: list[Escalation]
    next_cursor: str | None


class EscalationChange(Shape):
    at: str
    change: Literal["acknowledged", "assigned", "resolved", "merged"]
    by: str
    reason: str
    assignee: str | None


class EscalationDocument(Escalation):
    merged: Annotated[int, Field(description="How many more escalations of the same sender it stands for.")]
    history: list[EscalationChange]


class Approval(Shape):
    """Something that waits until somebody with another token agrees, or did."""

    approval_ref: str
    state: Literal["waiting", "approved", "rejected", "expired", "done", "refused"]
    action: str
    target: str
    asked_by: str
    asked_at: str
    reason: str
    expires_at: str
    decided_by: str | None
    decision_reason: str | None
    detail: Annotated[str, Field(description="What came of it.")]


class ApprovalList(Shape):
    items: list[Approval]
    next_cursor: str | None


class Pinned(Shape):
    """How things stood when it was asked for."""

    plan_digest: str | None = None
    step_id: str | None = None
    delivery: int | None = None
    invalidations: int = 0


class ApprovalDocument(Approval):
    request: Annotated[dict[str, Any], Field(description="What exactly was asked for.")]
    pinned: Annotated[Pinned, Field(description="If this is otherwise when it is approved, it is refused.")]


class WebhookRequest(Shape):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"url": "https://hooks.example/x", "name": "ops", "events": ["Escalated", "task.run.*"]}
            ]
        }
    )
    url: Annotated[str, Field(min_length=1, max_length=2_000, description="https, or http on this machine.")]
    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"\S")]
    events: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=101)]],
        Field(
            min_length=1, max_length=50, description="Types of events; with a * at the end, how they begin."
        ),
    ]
    reason: Reason | None = None


class Webhook(Shape):
    id: str
    name: str
    url: Annotated[str, Field(description="Without path and query.")]
    events: list[str]
    made_at: str
    cursor: Annotated[int, Field(description="The number of the last event that is dealt with.")]
    failed: Annotated[int, Field(description="Times in a row.")]
    trouble: str
    state: Literal["on", "off"]
    off_at: str | None


class WebhookAdded(Webhook):
    secret: Annotated[str, Field(description="Signs every delivery. It is not told again.")]


class WebhookList(Shape):
    items: list[Webhook]
    next_cursor: str | None


class Delivered(Shape):
    ok: bool
    detail: str
