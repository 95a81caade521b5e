"""The arguments of a tool that say which runs are meant: made from the fields of `RunFilter`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from inspect import Parameter
from typing import Annotated, Any, Final, TypeVar

from pydantic import AwareDatetime, Field

from recoup.kernel.listing import COLUMNS, FILTERS
from recoup.model.run_filter import NAME_CHARS_MAX, FilterKind
from recoup.model.storage import RunFilter

Tool = TypeVar("Tool", bound=Callable[..., Any])
_ARGUMENTS: Final = {COLUMNS.get(name, field.name): name for name, field in FILTERS.items()}
"""The name of each argument, and of its field."""


def takes_run_filters(tool: Tool) -> Tool:
    """Instead of `**filters` the tool has an argument for every field."""
    said = inspect.signature(tool, eval_str=True)
    own = [one for one in said.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    context, rest = own[:2], own[2:]
    filters = [_parameter(argument, name) for argument, name in _ARGUMENTS.items()]
    tool.__signature__ = said.replace(parameters=[*context, *filters, *rest])  # type: ignore[attr-defined]
    return tool


def _parameter(argument: str, name: str) -> Parameter:
    field = FILTERS[name]
    choices = f"One of {', '.join(field.choices)}." if field.choices is not None else ""
    about = Field(description=choices or field.about or None)
    text = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX), about]
    kind = Annotated[AwareDatetime, about] if field.kind is FilterKind.MOMENT else text
    return Parameter(argument, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind | None)


def run_filter(given: Mapping[str, Any]) -> RunFilter:
    """From the values of the arguments."""
    values = {_ARGUMENTS[argument]: value for argument, value in given.items() if value is not None}
    return RunFilter(**{name: _value(name, value) for name, value in values.items()})


def _value(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return round(value.timestamp() * 1e6)
    return (value,) if isinstance(getattr(RunFilter(), name), tuple) else value
