"""What the runtime asks of a resolver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from recoup.model.outcome import Looking
from recoup.model.target import Element, Resolution, Target


class Resolver(Protocol):
    """Finds the element that a target means."""

    def resolve(
        self,
        target: Target,
        elements: Sequence[Element],
        looking: Looking,
        css_matches: Sequence[int] | None,
    ) -> Resolution:
        """The one element, or why there is none."""
        ...

    def matches(
        self, target: Target, elements: Sequence[Element], css_matches: Sequence[int] | None
    ) -> Sequence[int]:
        """Every element that is exactly as the target is written, in the order of the page; nothing healed."""
        ...
