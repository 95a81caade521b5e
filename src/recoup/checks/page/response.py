"""`response:` checks: a response that came during the attempt."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from recoup.checks.kind import Shapes
from recoup.checks.page.kind import Answer, PageKind, glob
from recoup.checks.spots import Fill, Spot
from recoup.model.outcome import PageQuestion, PageSight
from recoup.model.plan import ResponseCheck


class ResponseKind(PageKind[ResponseCheck]):
    spots: Mapping[str, Spot] = {"response": Spot.ADDRESS}

    def make_shapes(self) -> Shapes:
        from typing import Annotated

        from pydantic import Field, Tag

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.forms import AddressPattern, list_or_text
        from recoup.shapes.shape import TAG, Shape, branch, text_or

        Status = Annotated[int, Field(ge=100, le=599)]

        class AnsweredShape(Shape):
            url: AddressPattern = Field(
                description="The address of the response: * and ** as for `url`.", examples=["**/api/approve"]
            )
            status: (
                Annotated[
                    Annotated[Status, Tag(TAG + "text")]
                    | Annotated[list[Status], Field(min_length=1, max_length=100), Tag(TAG + "list")],
                    branch(list_or_text),
                ]
                | None
            ) = Field(
                None,
                description="Its status, or several. Default: any below 400.",
                examples=[200, [200, 201]],
            )

            def statuses(self) -> tuple[int, ...]:
                if self.status is None:
                    return ()
                return (self.status,) if isinstance(self.status, int) else tuple(self.status)

        class ResponseShape(CheckShape):
            response: Annotated[
                Annotated[AnsweredShape, Tag(TAG + "answered")]
                | Annotated[AddressPattern, Tag(TAG + "text")],
                branch(text_or("answered")),
            ] = Field(
                description="A response that must have come during the attempt.",
                examples=[{"url": "**/api/approve", "status": 200}, "**/api/approve"],
            )

            def value(self) -> ResponseCheck:
                if isinstance(self.response, str):
                    return ResponseCheck(self.response)
                return ResponseCheck(self.response.url, self.response.statuses())

        return Shapes({"response": ResponseShape}, {TAG + "answered": AnsweredShape})

    def words(self, check: ResponseCheck) -> str:
        return f"response: {check.pattern}"

    def filled(self, check: ResponseCheck, fill: Fill) -> ResponseCheck:
        return msgspec.structs.replace(check, pattern=fill(check.pattern, Spot.ADDRESS))

    def question(self, check: ResponseCheck) -> PageQuestion:
        def answer(sight: PageSight) -> Answer:
            pattern = glob(check.pattern)
            statuses = [status for url, status in sight.responses if pattern.fullmatch(url)]
            fitting = [s for s in statuses if (s in check.status if check.status else s < 400)]
            if fitting:
                return True, f"status {fitting[-1]}"
            return False, f"only with status {statuses[-1]}" if statuses else "no such response came"

        return PageQuestion(answer=answer, responses=True)


CHECK = ResponseKind()
