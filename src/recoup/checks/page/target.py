"""`visible:`, `hidden:` and `count:` checks: how an element is, as it was written."""

from __future__ import annotations

from typing import Final

import msgspec

from recoup.checks.kind import Shapes
from recoup.checks.page.kind import Answer, PageKind, filled_target
from recoup.checks.spots import Fill
from recoup.model.outcome import PageQuestion, PageSight
from recoup.model.plan import TargetCheck, TargetState
from recoup.model.target import target_words

ELEMENTS_MAX: Final = 1_000_000


class TargetKind(PageKind[TargetCheck]):
    def make_shapes(self) -> Shapes:
        from typing import Annotated

        from pydantic import Field

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.target_shape import AnyTarget, TargetShape, target_of

        class VisibleShape(CheckShape):
            visible: AnyTarget = Field(
                description="An element that must be seen.",
                examples=["Approved", {"role": "status", "name": "Approved"}],
            )

            def value(self) -> TargetCheck:
                return TargetCheck(target_of(self.visible))

        class HiddenShape(CheckShape):
            hidden: AnyTarget = Field(
                description="An element that must not be seen, or not be there.", examples=[{"role": "alert"}]
            )

            def value(self) -> TargetCheck:
                return TargetCheck(target_of(self.hidden), TargetState.HIDDEN)

        class CountedShape(TargetShape):
            """What is counted, and how many there must be."""

            number: Annotated[int, Field(ge=0, le=ELEMENTS_MAX)] = Field(
                alias="is", description="How many there must be.", examples=[3]
            )

        class CountShape(CheckShape):
            count: CountedShape = Field(
                description="Elements, and how many of them there must be.",
                examples=[{"role": "row", "is": 3}],
            )

            def value(self) -> TargetCheck:
                return TargetCheck(target_of(self.count), TargetState.COUNT, self.count.number)

        return Shapes(
            {"visible": VisibleShape, "hidden": HiddenShape, "count": CountShape}, {"count": CountedShape}
        )

    def words(self, check: TargetCheck) -> str:
        how = check.state if check.count is None else f"{check.count} of"
        return f"{how}: {target_words(check.target)}"

    def filled(self, check: TargetCheck, fill: Fill) -> TargetCheck:
        return msgspec.structs.replace(check, target=filled_target(check.target, fill))

    def question(self, check: TargetCheck) -> PageQuestion:
        def answer(sight: PageSight) -> Answer:
            visible = sum(element.visible for element in sight.elements)
            words = f"{visible} to be seen"
            match check.state:
                case TargetState.VISIBLE:
                    return bool(visible), words
                case TargetState.HIDDEN:
                    return not visible, words
                case TargetState.COUNT:
                    return visible == (check.count or 0), words

        is_negative = check.state is not TargetState.VISIBLE
        return PageQuestion(answer=answer, target=check.target, is_negative=is_negative)


CHECK = TargetKind()
