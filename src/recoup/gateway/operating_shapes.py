"""What stands in requests and answers about what workflows have learned, policies that might be, probes and retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from recoup.gateway.shapes import NUMERIC, Name, Reason, Shape
from recoup.kernel.probe_gateway import ORDERS

if TYPE_CHECKING:
    OrderName = str
else:  # what a request is checked with
    OrderName = Literal[tuple(map(str, ORDERS))]

# Requests


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


# Answers


class MemoryChange(BaseModel):
    """Named as `recoup memory diff --json` names it."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["added", "removed", "changed"]
    step_id: str
    element: str
    origin: str
    successes: int
    failures: int


class MemoryDiff(Shape):
    items: list[MemoryChange]
    next_cursor: str | None


class WhatIfAnswer(Shape):
    """As `recoup simulate --policy FILE --json` prints it."""

    same: bool
    policy_digest: str
    runs: int
    cut: bool
    complete: Annotated[
        bool, Field(description="False: time was up before all of these runs were looked at.")
    ]
    workflows: list[dict[str, Any]]
    modes: list[dict[str, Any]]
    different: list[dict[str, Any]]
    most_different: list[str]
    unseen_keys: list[str]
    unreadable: list[str]
    """Runs that were left out: an event of theirs cannot be read."""


class ProbeActed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    command_id: str
    outcome: str
    rule: str | None
    reason: str
