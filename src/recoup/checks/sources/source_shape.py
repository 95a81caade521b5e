"""An output as people write it under `outputs`."""

from __future__ import annotations

from abc import abstractmethod

from pydantic import Field

from recoup.model.plan import Output
from recoup.shapes.shape import Shape

SECRET = Field(False, description="Keep the value encrypted and show it nowhere.", examples=[True])


class SourceShape(Shape):
    """The mapping under the name of an output."""

    @abstractmethod
    def value(self) -> Output: ...
