"""Frozen values with other fields than events have given them."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

Value = TypeVar("Value", bound=msgspec.Struct)


def altered(value: Value, **changes: Any) -> Value:
    """`hold__paused` names the field `paused` of the part `hold`."""
    for name, change in changes.items():
        part, _, field = name.partition("__")
        other = altered(getattr(value, part), **{field: change}) if field else change
        value = replace(value, **{part: other})
    return value
