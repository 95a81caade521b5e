"""Facts about a key of the policy, and about the key by which a step sets one. They stand on the field itself."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class ValueRule(StrEnum):
    """Marks values whose written form has rules beyond their type; `documents/policy_file.py` checks them."""

    RETRIED = "retried"
    """A kind or a class of failure."""
    REDELIVERED = "redelivered"
    """A class of failure that may pass by itself."""
    APPROVAL = "approval"
    """An action that may need a second person."""
    EXIT_CODE = "exit_code"


class PolicyKey(msgspec.Struct, frozen=True):
    """One key of the policy."""

    description: str
    range: tuple[float, float] | None = None
    """The lowest and the highest value. None: not a number."""
    at_least: str = ""
    """Another key, whose value plus `plus` is the lower bound."""
    plus: int = 0
    replayed: bool = False
    """What-if can tell from a recorded run what a change of this key would have done."""
    example: Any = None
    """None: the default."""
    opens: str = ""
    """The heading over this key and those that follow it."""


class StepKey(msgspec.Struct, frozen=True):
    """A key of a plan's `defaults` or of a step that sets a key of the policy."""

    name: str
    sets: str
    examples: tuple[Any, ...]
    description: str = ""
    """Empty: that of the key that it sets."""
