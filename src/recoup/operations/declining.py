"""What the desk does not take, and how the asker is told."""

from __future__ import annotations

from recoup.errors import UsageError
from recoup.kernel.reports import Refusal


class Declined(UsageError):
    """The request changes nothing."""

    def __init__(self, refusal: Refusal, hint: str = "") -> None:
        super().__init__(refusal.detail, hint=hint)
        self.refusal = refusal


def malformed(detail: str) -> Declined:
    return Declined(Refusal(400, "malformed", detail))
