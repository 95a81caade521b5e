"""What the kernel returns: one recovery action or an end, always with a reason."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

import msgspec

from recoup.model.failure import FailureClass


class Strategy(StrEnum):
    """The name of a decision in events."""

    SOFT_RESET = "soft_reset"
    HARD_RESET = "hard_reset"
    RETRY = "retry"
    NONE = "none"


class Retry(msgspec.Struct, frozen=True, tag=True):
    """The same again after a wait that somebody else asked for (cooldown)."""

    reason: str
    cls: FailureClass
    delay_ms: int


class SoftReset(msgspec.Struct, frozen=True, tag=True):
    """A new process in the same workspace, told in a few lines what went wrong."""

    reason: str
    cls: FailureClass
    delay_ms: int


class HardReset(msgspec.Struct, frozen=True, tag=True):
    """A workspace restored aside from the last checkpoint, then as a soft reset there."""

    reason: str
    cls: FailureClass
    delay_ms: int


class GiveUp(msgspec.Struct, frozen=True, tag=True):
    """No more attempts in this delivery; `redeliver` says whether another delivery may help."""

    reason: str
    cls: FailureClass
    redeliver: bool
    exhausted: bool


class Escalate(msgspec.Struct, frozen=True, tag=True):
    """A person must decide."""

    reason: str
    cls: FailureClass


Decision = Retry | SoftReset | HardReset | GiveUp | Escalate


def strategy(decision: Decision) -> Strategy:
    match decision:
        case SoftReset():
            return Strategy.SOFT_RESET
        case HardReset():
            return Strategy.HARD_RESET
        case Retry():
            return Strategy.RETRY
        case GiveUp() | Escalate():
            return Strategy.NONE
        case _:  # pragma: no cover
            assert_never(decision)
