"""What is answered about what waits for people, about probes elsewhere, and about webhooks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from recoup.model.answers.answer import Answer, PlainAnswer
from recoup.model.probe_wire import COMMANDS_AT_ONCE_MAX


class Acknowledged(PlainAnswer, frozen=True, kw_only=True):
    acknowledged_seq: int


class Reported(PlainAnswer, frozen=True, kw_only=True):
    events: list[dict[str, Any]]


class Commands(PlainAnswer, frozen=True, kw_only=True):
    commands: Annotated[list[dict[str, Any]], Meta(max_length=COMMANDS_AT_ONCE_MAX)]


class Ordered(Answer, frozen=True, kw_only=True):
    command_id: str


class Released(Answer, frozen=True, kw_only=True):
    probe_id: str


class ProbeActed(PlainAnswer, frozen=True, kw_only=True):
    command_id: str
    outcome: str
    rule: str | None
    reason: str


EscalationState = Literal["open", "acknowledged", "assigned", "resolved"]


class Escalation(Answer, frozen=True, kw_only=True):
    id: str
    source: Literal["run", "probe"]
    state: EscalationState
    assignee: str | None
    reason: str
    raised_at: str
    run_id: str | None
    probe_id: str | None = msgspec.field(name="probe_id")
    escalation_id: Annotated[str, Meta(description="As the run or the probe calls it.")] = msgspec.field(
        name="escalation_id"
    )
    event: Annotated[dict[str, Any], Meta(description="The `Escalated` event as it was recorded.")]


class EscalationPage(Answer, frozen=True, kw_only=True):
    escalations: list[Escalation]
    next_cursor: str | None


EscalationMove = Literal["acknowledged", "assigned", "resolved", "merged"]


class EscalationChange(Answer, frozen=True, kw_only=True):
    at: str
    change: EscalationMove
    by: str
    reason: str
    assignee: str | None


class EscalationDocument(Escalation, frozen=True, kw_only=True):
    merged: Annotated[int, Meta(description="How many more escalations of the same sender it stands for.")]
    history: list[EscalationChange]


ApprovalState = Literal["waiting", "approved", "rejected", "expired", "done", "refused"]


class Approval(Answer, frozen=True, kw_only=True):
    """Something that waits until somebody with another token agrees, or did."""

    approval_ref: str
    state: ApprovalState
    action: str
    target: str
    asked_by: str
    asked_at: str
    reason: str
    expires_at: str
    decided_by: str | None
    decision_reason: str | None
    detail: Annotated[str, Meta(description="What came of it.")]


class ApprovalList(Answer, frozen=True, kw_only=True):
    items: list[Approval]
    next_cursor: str | None


class Pinned(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """How things stood when it was asked for."""

    plan_digest: str | None = None
    step_id: str | None = None
    delivery: int | None = None
    invalidations: int = 0


class ApprovalDocument(Approval, frozen=True, kw_only=True):
    request: Annotated[dict[str, Any], Meta(description="What exactly was asked for.")]
    pinned: Annotated[Pinned, Meta(description="If this is otherwise when it is approved, it is refused.")]


class Webhook(Answer, frozen=True, kw_only=True):
    id: str
    name: str
    url: Annotated[str, Meta(description="Without path and query.")]
    events: list[str]
    made_at: str
    cursor: Annotated[int, Meta(description="The number of the last event that is dealt with.")]
    failed: Annotated[int, Meta(description="Times in a row.")]
    trouble: str
    state: Literal["on", "off"]
    off_at: str | None


class WebhookAdded(Webhook, frozen=True, kw_only=True):
    secret: Annotated[str, Meta(description="Signs every delivery. It is not told again.")]


class WebhookList(Answer, frozen=True, kw_only=True):
    items: list[Webhook]
    next_cursor: str | None


class Delivered(Answer, frozen=True, kw_only=True):
    ok: bool
    detail: str
