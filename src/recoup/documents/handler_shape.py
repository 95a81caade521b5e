"""Handlers as people write them under `rescue`, `on_empty` and `always`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, Tag

from recoup.documents.duration_shape import Duration
from recoup.documents.other_work_shape import AgentWork, BrowserWork, PythonWork
from recoup.documents.shape import TAG, branch
from recoup.documents.work_shape import RunWork, Work
from recoup.model.plan import Handler

HANDLER_KINDS = ("run", "python", "agent", "browser")


class HandlerShape(Work):
    timeout: Duration | None = Field(
        None, description="The longest that it may take. Default: as for the step.", examples=["5m"]
    )

    def value(self) -> Handler:
        return Handler(
            action=self.action(),
            title=self.title,
            expect=self.checks(),
            env=dict(self.env),
            timeout_s=self.timeout,
        )


class RunHandlerShape(RunWork, HandlerShape):
    """A handler that runs a command."""


class PythonHandlerShape(PythonWork, HandlerShape):
    """A handler that calls a Python function."""


class AgentHandlerShape(AgentWork, HandlerShape):
    """A handler that asks a coding agent."""


class BrowserHandlerShape(BrowserWork, HandlerShape):
    """A handler that does something in the browser."""


def _which_handler(value: Any) -> str:
    """Without any kind it counts as `run`, so that everything else in it is looked at too."""
    given = [kind for kind in HANDLER_KINDS if isinstance(value, dict) and kind in value]
    return f"{TAG}handler-{given[0] if given else 'run'}"


AnyHandler = Annotated[
    Annotated[RunHandlerShape, Tag(TAG + "handler-run")]
    | Annotated[PythonHandlerShape, Tag(TAG + "handler-python")]
    | Annotated[AgentHandlerShape, Tag(TAG + "handler-agent")]
    | Annotated[BrowserHandlerShape, Tag(TAG + "handler-browser")],
    branch(_which_handler),
]
