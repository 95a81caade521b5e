"""When each event happened, in seconds since the first: by the boot clock where it measures, whatever the wall clock
was set to meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from recoup.kernel.elapsed import elapsed_s
from recoup.model.events import Event
from recoup.model.instant import Instant

_REBOOT_S_MAX = 30 * 86_400
"""A clock that was set anew while the machine was down says nothing beyond this."""


def moments(events: Sequence[Event], until: Instant | None = None) -> tuple[list[float], float]:
    """One for each event, and the end of the time that is shown."""
    found, at = [], 0.0
    for index, event in enumerate(events):
        if index:
            at += elapsed_s(events[index - 1].at, event.at, _REBOOT_S_MAX)
        found.append(at)
    left = 0.0 if until is None else elapsed_s(events[-1].at, until, _REBOOT_S_MAX)
    return found, at + left
