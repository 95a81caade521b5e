"""What the shapes of all files share: strict mappings, and text that may be written as a number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    WithJsonSchema,
)

from recoup.shapes.scalars import WrittenFloat, WrittenInt

TAG = "\0"
"""Begins the name of every branch of a union: no key of a file can, so places are told from branches."""


class Shape(BaseModel):
    """A mapping with these keys and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)

    @classmethod
    def keys(cls) -> dict[str, Any]:
        """Every key as it is written, with its field."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}


def as_written(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.written
    return str(value) if isinstance(value, int | float) else value


def said(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def matching(pattern: str, rule: str) -> AfterValidator:
    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(f"must be {rule}")
        return text

    return AfterValidator(check)


def at_most(chars_max: int) -> AfterValidator:
    def check(text: str) -> str:
        if len(text) > chars_max:
            raise ValueError(f"is longer than {chars_max:,} characters: say it more briefly")
        return text

    return AfterValidator(check)


def one_of(names: Iterable[str]) -> Any:
    """The type of a value that is one of these."""
    literal: Any = Literal
    return literal[tuple(str(name) for name in names)]


def scalar_schema(**more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": ["string", "number", "boolean"], **more})


AnyText = Annotated[str, BeforeValidator(as_written), scalar_schema()]
Text = Annotated[str, BeforeValidator(as_written), AfterValidator(said), scalar_schema(minLength=1)]


Version = Annotated[int, Field(ge=1, le=1), WithJsonSchema({"const": 1})]


def branch(choose: Callable[[Any], str | None], error_type: str = "shape") -> Discriminator:
    """`choose` names the branch of a union by looking at the value; with None the error is of this type."""
    return Discriminator(choose, custom_error_type=error_type, custom_error_message=error_type)


def text_or(tag: str) -> Callable[[Any], str]:
    """The branch of a union: a mapping has this tag, everything else counts as text."""
    return lambda value: TAG + (tag if isinstance(value, dict) else "text")
