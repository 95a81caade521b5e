"""`answers:` checks: an address answers, perhaps with a text in it."""

from __future__ import annotations

from recoup.checks.custom import FunctionCheck
from recoup.model.plan import CustomCheck


class AnswersCheck(FunctionCheck):
    """Holds when the address answers with a status below 400."""

    key = "answers"
    keys = "recoup_http.keys:AnswersKeys"
    target = "recoup_http.call:must_answer"
    world = True

    def words(self, check: CustomCheck) -> str:
        return f"answers: {check.arguments['url']}"


CHECK = AnswersCheck()
