"""The bodies of requests to the inbox, and about webhooks. Probes and gateways speak with underscores."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from recoup.gateway.shapes import Name, Reason, Shape
from recoup.model.probe_wire import EVENTS_AT_ONCE_MAX


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


class SaidRequest(Shape):
    reason: Reason


class AssignRequest(Shape):
    reason: Reason
    assignee: Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]


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
