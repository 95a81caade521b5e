"""Handlers as people write them under `rescue`, `on_empty` and `always`."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, cast

from pydantic import Field

from recoup.documents.work_shape import Work, composed
from recoup.model.plan import Handler, WorkAction
from recoup.shapes.duration_shape import Duration
from recoup.shapes.shape import Shape
from recoup.steps.kind import StepKind


class HandlerShape(Work):
    kind: ClassVar[StepKind[Any]]

    timeout: Duration | None = Field(
        None, description="The longest that it may take. Default: as for the step.", examples=["5m"]
    )

    def value(self) -> Handler:
        return Handler(
            action=cast(WorkAction, self.action()),
            title=self.title,
            expect=self.checks(),
            env=dict(self.env),
            timeout_s=self.timeout,
        )


@cache
def handler_shape(kind: StepKind[Any]) -> type[Shape] | None:
    """A whole handler of this kind. None: a handler cannot be one."""
    return composed(kind, kind.shape, HandlerShape, "Handler") if kind.is_work else None
