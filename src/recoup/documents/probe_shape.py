"""A probe file as people write it: every key, its type, its limits, and what it is for; source of the JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from recoup.documents.hand_over_shape import AnyHandOver
from recoup.documents.probe_check_shape import CheckShape, HeartbeatShape, OutputShape
from recoup.documents.probe_forms import GatewayUrl
from recoup.documents.probe_kind_shape import (
    BindingShape,
    ChannelShape,
    DialogShape,
    EndpointShape,
    MountShape,
    ProcessShape,
    SshRemoteShape,
)
from recoup.model.probe import Action, AnyKind, Budget, Resource
from recoup.shapes.duration_shape import Duration
from recoup.shapes.forms import FieldName, VariableName, WorkflowName
from recoup.shapes.shape import Shape, Version

RESOURCES_MAX = 5_000
CHECKS_MAX = 20
_DEFAULT = Budget()

if TYPE_CHECKING:
    ActionName = str
else:  # what shapes are checked with
    ActionName = Literal[tuple(action.value for action in Action)]


class BudgetShape(Shape):
    max_retries: int = Field(
        _DEFAULT.max_retries,
        ge=0,
        le=100,
        description="Retries for one class of fault; the next one is refused and handed over.",
        examples=[3],
    )
    window_s: Duration = Field(
        _DEFAULT.window_s, description="How far back retries are counted at least.", examples=[600]
    )
    delays_s: Annotated[list[Duration], Field(min_length=1, max_length=100)] = Field(
        list(_DEFAULT.delays_s),
        description="The wait before each retry; lengthened by chance, never shortened.",
        examples=[[30, 90, 210]],
    )
    day_max: int = Field(
        _DEFAULT.day_max, ge=0, le=1_000, description="Actions on one resource in 24 hours.", examples=[12]
    )
    healthy_reset_s: Duration = Field(
        _DEFAULT.healthy_reset_s,
        description="Retries are given back after so long a time of health.",
        examples=[600],
    )

    def value(self) -> Budget:
        return Budget(
            max_retries=self.max_retries,
            window_s=self.window_s,
            delays_s=tuple(self.delays_s),
            day_max=self.day_max,
            healthy_reset_s=self.healthy_reset_s,
        )


KIND_KEYS = ("process", "channel", "mount", "binding", "endpoint")


class ResourceShape(Shape):
    id: WorkflowName = Field(description="Its name.", examples=["api"])
    process: ProcessShape | None = Field(
        None, description="A program that should run.", examples=[{"command": ["uvicorn", "app:app"]}]
    )
    channel: ChannelShape | None = Field(
        None, description="A connection that should be open.", examples=[{"tcp": "127.0.0.1:5432"}]
    )
    mount: MountShape | None = Field(
        None,
        description="A file system that should be mounted.",
        examples=[{"path": "./scratch", "command": ["mount", "./scratch"]}],
    )
    binding: BindingShape | None = Field(
        None,
        description="A port that should answer.",
        examples=[{"port": 8080, "forward_to": "127.0.0.1:8000"}],
    )
    endpoint: EndpointShape | None = Field(
        None,
        description="A file that should name a local address.",
        examples=[{"file": "./.env", "variable": "API_URL", "address": "http://127.0.0.1:8000"}],
    )
    health: Annotated[list[CheckShape], Field(max_length=CHECKS_MAX)] = Field(
        [], description="How it is looked at.", examples=[[{"tcp": "127.0.0.1:8000", "every": "5s"}]]
    )
    needs: Annotated[list[WorkflowName], Field(max_length=100)] = Field(
        [], description="What must be there first.", examples=[["database"]]
    )
    on_fault: Annotated[dict[FieldName, ActionName], Field(max_length=100)] = Field(
        {},
        description="The action for a class of fault, instead of the kind's own.",
        examples=[{"dialog_target_disconnected": "reconnect"}],
    )
    start_period: Duration = Field(
        30, description="How long it may take to become healthy after a start or an action.", examples=["30s"]
    )
    budget: BudgetShape | None = Field(
        None, description="A budget of its own.", examples=[{"max_retries": 1}]
    )

    @model_validator(mode="after")
    def _is_one_kind(self) -> ResourceShape:
        if sum(getattr(self, key) is not None for key in KIND_KEYS) != 1:
            raise ValueError(f"must be of one kind: {', '.join(KIND_KEYS)}")
        if self.process is None and any(one.exit or one.output for one in self.health):
            raise ValueError("only a process exits or prints: look at this in another way")
        if any(one.only_in for one in self.health) and not (self.channel and self.channel.ssh_remote):
            raise ValueError("`only_in` is about the modes of ssh_remote: remove it")
        if self.endpoint and self.endpoint.binding and self.endpoint.binding not in self.needs:
            raise ValueError(
                f"`binding` is only known when it is there: add {self.endpoint.binding} to `needs`"
            )
        for fault_class, action in self.on_fault.items():
            if action not in self.kind().ACTIONS:
                fitting = ", ".join(sorted(self.kind().ACTIONS))
                raise ValueError(f"on_fault.{fault_class}: {action} cannot be done here, only {fitting}")
        return self

    def kind(self) -> AnyKind:
        shape = next(getattr(self, key) for key in KIND_KEYS if getattr(self, key) is not None)
        kind: AnyKind = shape.value()
        return kind

    def value(self, budget: Budget) -> Resource:
        return Resource(
            id=self.id,
            kind=self.kind(),
            checks=tuple(check.value() for check in self.health),
            needs=tuple(dict.fromkeys(self.needs)),
            on_fault={name: Action(action) for name, action in self.on_fault.items()},
            budget=self.budget.value() if self.budget else budget,
            start_period_s=self.start_period,
        )


class ProbeShape(Shape):
    """What a probe looks after on this machine, and how far it may go."""

    editor_schema: str | None = Field(
        None, alias="$schema", description="For editors only.", examples=["probe.json"]
    )
    version: Version = Field(description="The version of the format: 1.", examples=[1])
    id: WorkflowName | None = Field(
        None, description="The probe's name. Default: that of the file.", examples=["devbox"]
    )
    gateway: GatewayUrl | None = Field(
        None,
        description="Who is told everything, and decides when the budget is spent. Its token: RECOUP_TOKEN.",
        examples=["http://127.0.0.1:8620"],
    )
    hand_over: AnyHandOver | None = Field(
        None, description="Who is told besides.", examples=[{"command": ["./page-me.sh"]}]
    )
    secrets: Annotated[list[VariableName], Field(max_length=1_000)] = Field(
        [], description="Variables whose values are never stored.", examples=[["API_TOKEN"]]
    )
    budget: BudgetShape | None = Field(
        None, description="How often the probe may act.", examples=[{"max_retries": 3}]
    )
    resources: Annotated[list[ResourceShape], Field(min_length=1, max_length=RESOURCES_MAX)] = Field(
        description="What it looks after.", examples=[[{"id": "api", "process": {"command": ["uvicorn"]}}]]
    )


SHAPES: dict[str, type[Shape]] = {
    "budget": BudgetShape,
    "resources": ResourceShape,
    "process": ProcessShape,
    "channel": ChannelShape,
    "ssh_remote": SshRemoteShape,
    "dialog": DialogShape,
    "mount": MountShape,
    "binding": BindingShape,
    "endpoint": EndpointShape,
    "health": CheckShape,
    "heartbeat": HeartbeatShape,
    "output": OutputShape,
}
