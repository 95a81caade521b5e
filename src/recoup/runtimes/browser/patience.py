"""How long the target of an attempt is waited for, and when its page is worth keeping for the next attempt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import msgspec

from recoup.model.failure import FailureKind
from recoup.model.plan import BrowserAction
from recoup.model.policy import Policy

RETRY_FACTOR: Final = 5
"""How many times `page_target_s` a target may take on one page, counted over the attempts that look for it there."""
REPORT_S: Final = 2.0
"""Of the step's time, what is left for evidence and the reason when its target was not found."""
REPORT_SHARE: Final = 0.1
"""The same of a short time, as a share."""
ATTEMPTS_ON_A_PAGE: Final = 2
"""Then another look at the same document is worth less than loading it again."""
_LATE: Final = frozenset(
    {FailureKind.TARGET_NOT_FOUND, FailureKind.LOW_CONFIDENCE, FailureKind.TARGET_BLOCKED}
)
"""Failures that more time may cure, on a page that is good."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long one attempt waits for its target. Times are those of the monotonic clock."""

    since_s: float
    """When the target was first looked for on this page."""
    rest_s: float
    """At least so long on a page at rest."""
    until_s: float = -math.inf
    """And until then, as long as nothing on the page is what is written."""
    end_s: float = math.inf
    """Never longer: what is left of the step's time is for reporting."""
    is_second_look: bool = False
    """An earlier attempt has looked for it on the same page."""

    def is_used_up(self, now_s: float) -> bool:
        """The target had all the time that it gets on its page; a first short look is not all."""
        return math.isfinite(self.until_s) and now_s >= self.until_s

    def at_least_s(self, now_s: float, least_s: float) -> float:
        """How long something else about the target may take: so long, or as long as the target itself."""
        return max(0.001, min(max(least_s, self.until_s - now_s), self.end_s - now_s))


def patience(
    policy: Policy, *, began_s: float, since_s: float, is_second_look: bool, has_own_timeout: bool
) -> Patience:
    """Of an attempt that began then. A step with a timeout of its own waits until shortly before it; another one waits
    for `page_target_s`, and on a page that an earlier attempt has looked at for five times that in all."""
    step_s = policy.step_timeout_seconds
    end_s = began_s + step_s - min(REPORT_S, REPORT_SHARE * step_s)
    until_s = -math.inf
    if has_own_timeout:
        until_s = end_s
    elif is_second_look:
        until_s = min(end_s, since_s + RETRY_FACTOR * policy.page_target_s)
    return Patience(
        since_s=since_s,
        rest_s=policy.page_target_s,
        until_s=until_s,
        end_s=end_s,
        is_second_look=is_second_look,
    )


@dataclass
class Visit:
    """The attempts of one action on one document."""

    step_id: str = ""
    action: BrowserAction | None = None
    attempts: int = 0
    since_s: float | None = None
    """When its target was first looked for there. None: it was not, or the action was performed since."""
    was_there: bool = False
    """The target has been found since then."""
    failed_by: FailureKind | None = None
    """How the last attempt ended; None also where it was what the step expects that did not hold."""
    is_used_up: bool = False
    """The target had all the time that it gets on this document."""

    def is_of(self, step_id: str, action: BrowserAction) -> bool:
        return (self.step_id, self.action) == (step_id, action)

    def began_waiting(self, now_s: float) -> None:
        """Its target is looked for; where an earlier attempt has begun that, it goes on."""
        if self.since_s is None:
            self.since_s = now_s

    def restart(self, now_s: float) -> None:
        """The page went on to another document, perhaps in the midst of an attempt: that is the first one there."""
        self.attempts, self.failed_by, self.is_used_up = min(1, self.attempts), None, False
        self.since_s, self.was_there = None if self.since_s is None else now_s, False

    def performed(self) -> None:
        """Whatever comes now is not about waiting for the target."""
        self.since_s, self.was_there = None, False

    @property
    def was_late(self) -> bool:
        """The last attempt might have found its target if it had waited longer."""
        return self.failed_by in _LATE

    @property
    def is_worth_another(self) -> bool:
        """Another attempt on the same document may end otherwise."""
        good = self.failed_by is None or self.was_late
        return good and not self.is_used_up and self.attempts < ATTEMPTS_ON_A_PAGE
