"""Copies of run states: a state that was handed out stays as it is while a copy is folded further."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from recoup.model.run import RunState

Mutable = TypeVar("Mutable", bound=msgspec.Struct)


def copied(state: RunState) -> RunState:
    """Equal, and sharing nothing that the fold changes in place. Frozen values are shared: the plan above all."""
    return _copied(state)


def _copied(value: Mutable) -> Mutable:
    made = copy(value)
    for name in _changing_fields(type(value)):
        setattr(made, name, _apart(getattr(value, name)))
    return made


def _apart(value: Any) -> Any:
    if isinstance(value, list):
        return [_apart(one) for one in value]
    if isinstance(value, dict):
        return {name: _apart(one) for name, one in value.items()}
    is_changing = isinstance(value, msgspec.Struct) and not value.__struct_config__.frozen
    return _copied(value) if is_changing else value


@cache
def _changing_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """By their types, so that a new one is not forgotten. Tuples hold frozen values alone."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if _may_change(field.type))


def _may_change(declared: Any) -> bool:
    if isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        return not declared.__struct_config__.frozen
    return (get_origin(declared) or declared) in (list, dict) or any(map(_may_change, get_args(declared)))
