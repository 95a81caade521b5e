"""`approve:` steps: gates. The run waits until an operator says yes or no."""

from __future__ import annotations

from collections.abc import Mapping

from recoup.kernel.template import substitute
from recoup.model.plan import ApproveAction
from recoup.steps.kind import Data, StepKind, Values, Way


class ApproveStep(StepKind[ApproveAction]):
    """A question is asked in the open: no secret may be in it, and private values are shown as records have them."""

    key = "approve"
    keys = "recoup.steps.approve.keys:ApproveKeys"
    is_work = False
    filled = (("approve",),)
    filled_words = ("message",)

    def open_to_others(self, data: Data) -> Mapping[Way, str]:
        del data
        return {("approve",): "leave it out"}

    def written_at(self, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
        return (self.key, *path[1:])

    def texts(self, action: ApproveAction) -> tuple[str, ...]:
        return (action.message,)

    def fill(self, action: ApproveAction, values: Values) -> tuple[ApproveAction, dict[str, str]]:
        values.refuse_secrets(action.message)
        return ApproveAction(substitute(action.message, values.recorded())), {}

    def instructions(self, action: ApproveAction) -> str:
        return action.message


STEP = ApproveStep()
