"""What became of a job, and how whoever waits for it hears of it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec


class Outcome(msgspec.Struct, frozen=True):
    """A value, or the error that the job alone met."""

    value: Any = None
    error: BaseException | None = None


def tell(future: asyncio.Future[Any], outcome: Outcome) -> None:
    """Unless he has gone."""
    if future.done():
        return
    if outcome.error:
        future.set_exception(outcome.error)
    else:
        future.set_result(outcome.value)
