"""A policy as a reader wants it: every value with its meaning, what was changed, and what each generation changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from recoup.kernel.policies import stored_policy
from recoup.model.events import Event, PolicyGeneration, PolicyRefused
from recoup.model.policy import POLICY_KEYS, Policy

_VALUE_CHARS_MAX: Final = 400


class Value(msgspec.Struct, frozen=True):
    key: str
    value: str
    default: str
    meaning: str
    span: str
    changed: bool


class Group(msgspec.Struct, frozen=True):
    name: str
    values: list[Value]


def groups(policy: Policy) -> list[Group]:
    now, usual = _plain(policy), _plain(Policy())
    made: list[Group] = []
    for name, key in POLICY_KEYS.items():
        if key.opens:
            made.append(Group(key.opens, []))
        made[-1].values.append(_value(name, now, usual))
    return made


def _plain(policy: Policy) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(policy, str_keys=True)
    return found


def _value(key: str, now: Mapping[str, Any], usual: Mapping[str, Any]) -> Value:
    facts, changed = POLICY_KEYS[key], now[key] != usual[key]
    span = "" if facts.range is None else " … ".join(map(_number, facts.range))
    return Value(key, spoken_value(now[key]), spoken_value(usual[key]), facts.description, span, changed)


def spoken_value(value: Any) -> str:
    match value:
        case bool():
            text = "yes" if value else "no"
        case int() | float():
            text = _number(value)
        case list() | tuple():
            text = ", ".join(spoken_value(one) for one in value) or "none"
        case dict():
            text = ", ".join(f"{key}: {spoken_value(one)}" for key, one in value.items()) or "none"
        case _:
            text = str(value)
    return text if len(text) <= _VALUE_CHARS_MAX else text[: _VALUE_CHARS_MAX - 1] + "…"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


class Generation(msgspec.Struct, frozen=True):
    """One entry of the history."""

    number: int
    at: str
    source: str
    digest: str
    refused: str
    """Why the file was not followed; empty: it is."""
    changes: list[tuple[str, str, str]]
    """Key, before, after."""
    known: bool
    """False: what it said is of another version of Recoup."""


def history(events: Sequence[Event], bodies: Mapping[str, bytes]) -> list[Generation]:
    """Newest first; each against the one before it, the first against the defaults."""
    made: list[Generation] = []
    before: Policy | None = Policy()
    for event in events:
        told = event.payload
        if isinstance(told, PolicyRefused):
            made.append(
                Generation(
                    *(event.seq, event.at.iso(), told.source, told.file_digest, told.reason),
                    changes=[],
                    known=True,
                )
            )
        elif isinstance(told, PolicyGeneration):
            now = _read(bodies.get(told.policy_digest))
            found = [] if now is None or before is None else changed_keys(before, now)
            digest = told.policy_digest
            made.append(
                Generation(event.seq, event.at.iso(), told.source, digest, "", found, now is not None)
            )
            before = now
    return made[::-1]


def changed_keys(before: Policy, now: Policy) -> list[tuple[str, str, str]]:
    old, new = _plain(before), _plain(now)
    return [(key, spoken_value(old[key]), spoken_value(new[key])) for key in new if old[key] != new[key]]


def _read(body: bytes | None) -> Policy | None:
    try:
        return None if body is None else stored_policy(body)
    except msgspec.MsgspecError:
        return None
