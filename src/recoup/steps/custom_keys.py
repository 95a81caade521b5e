"""What people write in steps of kinds that other packages bring."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Final

from recoup.model.plan import CustomAction
from recoup.steps.kind import StepKind
from recoup.steps.kind_shape import KindShape

TAKEN: Final = frozenset(
    (
        *(
            "id",
            "title",
            "when",
            "expect",
            "env",
            "outputs",
            "repeat",
            "rebuild",
            "rescue",
            "on_empty",
            "always",
        ),
        *("timeout", "idle_timeout", "max_attempts", "retry", "no_progress_limit", "idle", "polls"),
        *("max_processes", "max_memory"),
    )
)
"""The keys that steps and handlers of all kinds have."""


class CustomKeys(KindShape):
    """The key of the kind, and what may stand under it."""

    kind: ClassVar[StepKind[Any]]

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """What the step is given, as JSON."""

    def action(self) -> CustomAction:
        return CustomAction(self.kind.key, self.arguments(), self.kind.package)
