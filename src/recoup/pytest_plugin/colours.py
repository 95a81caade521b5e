"""Playwright has two colours, and what is decided about an action is written once, for both.

The core is asynchronous and is typed as if Playwright always were. The synchronous API has the same names, but gives
the answers themselves: then nothing in the core ever waits, and it is done after one push.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from inspect import isawaitable
from typing import Any, TypeVar

T = TypeVar("T")


async def answered(asked: Awaitable[T]) -> T:
    """What Playwright answers, at once or in time."""
    __tracebackhide__ = True
    said: Any = asked
    answer: T = await said if isawaitable(said) else said
    return answer


def at_once(core: Coroutine[Any, Any, T]) -> T:
    """The core, for those who wait for each call."""
    __tracebackhide__ = True
    try:
        core.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    core.close()
    raise AssertionError("what the synchronous API answers is never waited for")
