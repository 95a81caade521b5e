"""The limits that a plan or a step may set."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from recoup.documents.retry_shape import ATTEMPTS_MAX, RetryShape
from recoup.model.plan import Limits
from recoup.model.policy import IdleBy
from recoup.shapes.duration_shape import Duration
from recoup.shapes.shape import Shape
from recoup.shapes.sizes import PATTERN as SIZE_PATTERN
from recoup.shapes.sizes import SIZE_MAX_BYTES, SIZE_MIN_BYTES, size_bytes

PROCESSES_MAX = 1_000_000

Size = Annotated[
    int,
    BeforeValidator(size_bytes),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": SIZE_PATTERN},
                {"type": "integer", "minimum": SIZE_MIN_BYTES, "maximum": SIZE_MAX_BYTES},
            ]
        }
    ),
]


class LimitsShape(Shape):
    timeout: Duration | None = Field(
        None, description="The longest that one attempt may take.", examples=["15m", "1h30m", 90]
    )
    idle_timeout: Duration | None = Field(
        None, description="The longest that one attempt may go without progress.", examples=["5m"]
    )
    max_attempts: int | None = Field(
        None,
        ge=1,
        le=ATTEMPTS_MAX,
        description="Attempts of a step in one delivery, the first included, for every failure that may pass.",
        examples=[3],
    )
    retry: RetryShape | None = Field(
        None,
        description="How often a failed step is tried, how far apart, and after which failures.",
        examples=[{"attempts": 5, "delay": "30s", "backoff": 2}],
    )
    no_progress_limit: int | None = Field(
        None,
        ge=2,
        le=ATTEMPTS_MAX,
        description="So many equal failures of a step, the first included, count as stuck.",
        examples=[2],
    )
    idle: Literal["output", "activity"] | None = Field(
        None,
        description="What counts as progress: output only, or also CPU time and writes in the workspace.",
        examples=["activity"],
    )
    polls: bool | None = Field(
        None,
        description="The step waits for something and may fail the same way many times.",
        examples=[True],
    )
    max_processes: int | None = Field(
        None,
        ge=1,
        le=PROCESSES_MAX,
        description="How many processes one attempt may have at once.",
        examples=[200],
    )
    max_memory: Size | None = Field(
        None,
        description="How much memory the processes of one attempt may take together.",
        examples=["2GB", "512MiB"],
    )

    @model_validator(mode="after")
    def _one_number_of_attempts(self) -> Self:
        if self.max_attempts is not None and self.retry is not None and self.retry.attempts is not None:
            raise ValueError("say the number of attempts once: `max_attempts` or `attempts` under `retry`")
        return self

    def limits(self) -> Limits:
        return Limits(
            timeout_s=self.timeout,
            idle_timeout_s=self.idle_timeout,
            max_attempts=self.max_attempts,
            no_progress_limit=self.no_progress_limit,
            idle=None if self.idle is None else IdleBy(self.idle),
            polls=self.polls,
            max_processes=self.max_processes,
            max_memory_bytes=self.max_memory,
            retry=None if self.retry is None else self.retry.value(),
        )
