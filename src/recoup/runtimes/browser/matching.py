"""What the runtime asks of those who know about elements: which one is meant, and what a screen is known by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from recoup.model.memory import Screen
from recoup.model.outcome import Looking
from recoup.model.target import Box, Element, Resolution, Target

Sketch = Callable[[str, Sequence[Element], Box, tuple[float, float], float], Screen]
"""What a screen is known by: of its title, elements, size, viewport and scale."""


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
