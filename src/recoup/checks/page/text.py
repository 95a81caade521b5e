"""`text:` checks: words to be read on the page, or not."""

from __future__ import annotations

import msgspec

from recoup.checks.kind import Shapes
from recoup.checks.page.kind import Answer, PageKind, matched
from recoup.checks.spots import Fill
from recoup.checks.text_match import SPOTS, filled_match, match_words
from recoup.model.outcome import PageQuestion, PageSight
from recoup.model.plan import PageTextCheck


class TextKind(PageKind[PageTextCheck]):
    spots = SPOTS

    def make_shapes(self) -> Shapes:
        from pydantic import Field

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.forms import Match, match_value

        class PageTextShape(CheckShape):
            text: Match = Field(
                description="Text to be read on the page, or {regex: …}.",
                examples=["Approved", {"regex": "INV-[0-9]+"}],
            )
            absent: bool = Field(False, description="It must not be there instead.", examples=[True])

            def value(self) -> PageTextCheck:
                return PageTextCheck(match_value(self.text), self.absent)

        return Shapes({"text": PageTextShape})

    def words(self, check: PageTextCheck) -> str:
        return f"{'no text' if check.absent else 'text'}: {match_words(check.match)}"

    def filled(self, check: PageTextCheck, fill: Fill) -> PageTextCheck:
        return msgspec.structs.replace(check, match=filled_match(check.match, fill))

    def question(self, check: PageTextCheck) -> PageQuestion:
        wanted = match_words(check.match)

        def answer(sight: PageSight) -> Answer:
            held = any(matched(check.match, words, "the page")[0] for words in sight.texts)
            if check.absent:
                return not held, f"{wanted} is on the page" if held else "not on the page"
            return held, "found" if held else f"{wanted} is not on the page"

        return PageQuestion(answer=answer, texts=True, is_negative=check.absent)


CHECK = TextKind()
