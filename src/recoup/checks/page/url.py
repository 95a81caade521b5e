"""`url:` checks: where the page is."""

from __future__ import annotations

from collections.abc import Mapping

from recoup.checks.kind import Shapes
from recoup.checks.page.kind import Answer, PageKind, glob
from recoup.checks.spots import Fill, Spot
from recoup.model.outcome import PageQuestion, PageSight
from recoup.model.plan import UrlCheck


class UrlKind(PageKind[UrlCheck]):
    spots: Mapping[str, Spot] = {"url": Spot.ADDRESS}

    def make_shapes(self) -> Shapes:
        from pydantic import Field

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.forms import AddressPattern

        class UrlShape(CheckShape):
            url: AddressPattern = Field(
                description="Where the page is: * stands for a part of the path, ** for anything.",
                examples=["**/done", "https://shop.example/invoices/*"],
            )

            def value(self) -> UrlCheck:
                return UrlCheck(self.url)

        return Shapes({"url": UrlShape})

    def words(self, check: UrlCheck) -> str:
        return f"url: {check.pattern}"

    def filled(self, check: UrlCheck, fill: Fill) -> UrlCheck:
        return UrlCheck(fill(check.pattern, Spot.ADDRESS))

    def question(self, check: UrlCheck) -> PageQuestion:
        def answer(sight: PageSight) -> Answer:
            held = glob(check.pattern).fullmatch(sight.url) is not None
            return held, "it is there" if held else f"the address is {sight.url}"

        return PageQuestion(answer=answer)


CHECK = UrlKind()
