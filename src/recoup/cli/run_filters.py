"""The options that say which runs are meant: made from the fields of `RunFilter`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from recoup.errors import UsageError
from recoup.kernel.listing import FILTERS
from recoup.model.run_filter import FilterKind, RunFilterField
from recoup.model.storage import RunFilter

Command = TypeVar("Command", bound=Callable[..., Any])
_AGE_MAX_S = 3_650 * 86_400.0


def run_filter_options(command: Command) -> Command:
    """An option for every field that has a help text; the command gets them by the names of the fields."""
    for name, field in reversed(FILTERS.items()):
        if field.help:
            command = _option(name, field)(command)
    return command


def _option(name: str, field: RunFilterField) -> Callable[[Command], Command]:
    choices = None if field.choices is None else click.Choice([choice.value for choice in field.choices])
    default = getattr(RunFilter(), name)
    return click.option(
        f"--{field.name}",
        name,
        multiple=isinstance(default, tuple),
        default=default if isinstance(default, str) else None,
        type=choices,
        metavar=field.metavar,
        callback=_age_s if field.kind is FilterKind.MOMENT else None,
        help=field.help,
    )


def _age_s(_: click.Context, option: click.Parameter, duration: str | None) -> float | None:
    from recoup.shapes.durations import duration_s

    try:
        return None if duration is None else duration_s(duration, _AGE_MAX_S)
    except ValueError as error:
        name = option.opts[0]
        raise UsageError(f"{name} {duration} {error}", hint=f"For example: {name} 2h") from None


def run_filter(given: Mapping[str, Any], now_us: int) -> RunFilter:
    """From the values of the options."""
    said = {name: value for name, value in given.items() if value is not None}
    moments = {
        name: now_us - round(age_s * 1e6)
        for name, age_s in said.items()
        if FILTERS[name].kind is FilterKind.MOMENT
    }
    return RunFilter(**{**said, **moments})
