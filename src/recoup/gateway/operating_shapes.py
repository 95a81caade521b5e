"""The bodies of requests about other policies and about probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field

from recoup.gateway.shapes import NUMERIC, Name, Reason, Shape
from recoup.kernel.probe_gateway import ORDERS

if TYPE_CHECKING:
    OrderName = str
else:  # what a request is checked with
    OrderName = Literal[tuple(map(str, ORDERS))]


class WhatIfRequest(Shape):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"policy": "step_max_attempts: 5", "workflow": "invoices", "limit": 20}]
        }
    )
    policy: Annotated[str, Field(max_length=262_144, description="The text of a policy file, YAML or JSON.")]
    workflow: Name | None = None
    limit: Annotated[int, Field(ge=1, le=50, description="So many of the last runs."), NUMERIC] = 20


class ProbeActRequest(Shape):
    """An order for a probe."""

    resource_id: Name
    action: OrderName
    reason: Reason
