"""`unchanged:` checks: a part of the page looks as it did before the attempt."""

from __future__ import annotations

from typing import Final

import msgspec

from recoup.checks.kind import Shapes
from recoup.checks.page.kind import Answer, PageKind, filled_target
from recoup.checks.spots import Fill
from recoup.model.outcome import PageQuestion, PageSight
from recoup.model.plan import RegionCheck
from recoup.model.target import target_words

WHOLE_PAGE: Final = "page"


class RegionKind(PageKind[RegionCheck]):
    def make_shapes(self) -> Shapes:
        from typing import Annotated

        from pydantic import Field, Tag

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.shape import TAG, branch, text_or
        from recoup.shapes.target_shape import MaybeTargetShape, TargetText, target_of

        class RegionShape(MaybeTargetShape):
            """What must look as before; what is in view, where nothing is named."""

            tolerance: Annotated[float, Field(ge=0, le=1)] = Field(
                0.01, description="The share of its pixels that may differ.", examples=[0.01]
            )

        class UnchangedShape(CheckShape):
            unchanged: Annotated[
                Annotated[RegionShape, Tag(TAG + "region")] | Annotated[TargetText, Tag(TAG + "text")],
                branch(text_or("region")),
            ] = Field(
                description="What must look as before the attempt: an element, or `page` for what is in view.",
                examples=["page", {"role": "table", "tolerance": 0.02}],
            )

            def value(self) -> RegionCheck:
                if self.unchanged == WHOLE_PAGE:
                    return RegionCheck()
                if isinstance(self.unchanged, str):
                    return RegionCheck(target_of(self.unchanged))
                return RegionCheck(self.unchanged.target(), float(self.unchanged.tolerance))

        return Shapes({"unchanged": UnchangedShape}, {TAG + "region": RegionShape})

    def words(self, check: RegionCheck) -> str:
        return f"region: {target_words(check.target) if check.target else 'what is in view'}"

    def filled(self, check: RegionCheck, fill: Fill) -> RegionCheck:
        if check.target is None:
            return check
        return msgspec.structs.replace(check, target=filled_target(check.target, fill))

    def question(self, check: RegionCheck) -> PageQuestion:
        def answer(sight: PageSight) -> Answer:
            if not sight.was_pictured:
                return None, "there is no picture from before the attempt"
            if sight.difference is None:
                return False, "it is no longer there"
            held = sight.difference <= check.tolerance
            return held, f"{100 * sight.difference:.2f} % of the pixels differ"

        return PageQuestion(answer=answer, target=check.target, difference=True, is_negative=True)


CHECK = RegionKind()
