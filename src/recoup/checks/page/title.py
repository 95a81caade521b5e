"""`title:` checks: words in the title of the page."""

from __future__ import annotations

from recoup.checks.kind import Shapes
from recoup.checks.page.kind import PageKind, matched
from recoup.checks.spots import Fill
from recoup.checks.text_match import SPOTS, filled_match, match_words
from recoup.model.outcome import PageQuestion
from recoup.model.plan import TitleCheck


class TitleKind(PageKind[TitleCheck]):
    spots = SPOTS

    def make_shapes(self) -> Shapes:
        from pydantic import Field

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.forms import Match, match_value

        class TitleShape(CheckShape):
            title: Match = Field(
                description="Text in the title of the page, or {regex: …}.",
                examples=["Invoices", {"regex": "^Invoices"}],
            )

            def value(self) -> TitleCheck:
                return TitleCheck(match_value(self.title))

        return Shapes({"title": TitleShape})

    def words(self, check: TitleCheck) -> str:
        return f"title: {match_words(check.match)}"

    def filled(self, check: TitleCheck, fill: Fill) -> TitleCheck:
        return TitleCheck(filled_match(check.match, fill))

    def question(self, check: TitleCheck) -> PageQuestion:
        return PageQuestion(answer=lambda sight: matched(check.match, sight.title, "the title"), title=True)


CHECK = TitleKind()
