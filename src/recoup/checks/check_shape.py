"""A check as people write it under `expect`."""

from __future__ import annotations

from abc import abstractmethod

from recoup.model.plan import Check
from recoup.shapes.shape import Shape


class CheckShape(Shape):
    """One mapping of the list, with the main key of its kind and what belongs to it."""

    @abstractmethod
    def value(self) -> Check: ...
