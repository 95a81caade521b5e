"""What people write in checks that other packages bring."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from recoup.checks.check_shape import CheckShape
from recoup.checks.kind import Shapes
from recoup.model.plan import CustomCheck
from recoup.shapes.shape import Shape

if TYPE_CHECKING:
    from recoup.checks.custom import CustomKind


class CustomShape(CheckShape):
    """The key of the kind, and what may stand under it."""

    kind: ClassVar[CustomKind]

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """What the check is given, as JSON."""

    @classmethod
    def shapes(cls) -> Mapping[str, type[Shape]]:
        """The shapes inside, by the key or the branch under which each stands."""
        return {}

    def value(self) -> CustomCheck:
        return self.kind.check(self.arguments())


def shapes_of(kind: CustomKind) -> Shapes:
    shape: type[CustomShape] = resolve_name(kind.keys)
    shape.kind = kind
    return Shapes({kind.key: shape}, shape.shapes())
