"""Durations in the shapes of files."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from recoup.shapes.durations import DURATION_MAX_S, PATTERN, duration_s

DELAY_MAX_S = 86_400.0


def _duration(max_s: float) -> Any:
    written = {"type": "string", "pattern": PATTERN}
    number = {"type": "number", "exclusiveMinimum": 0, "maximum": max_s}
    return WithJsonSchema({"anyOf": [written, number]})


Duration = Annotated[float, BeforeValidator(duration_s), _duration(DURATION_MAX_S)]
Delay = Annotated[
    float, BeforeValidator(lambda written: duration_s(written, DELAY_MAX_S)), _duration(DELAY_MAX_S)
]
