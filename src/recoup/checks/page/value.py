"""`value:` checks: what a form field holds."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from recoup.checks.kind import Shapes
from recoup.checks.page.kind import Answer, PageKind, filled_target, matched
from recoup.checks.spots import Fill, Spot
from recoup.checks.text_match import filled_match
from recoup.model.outcome import PageQuestion, PageSight
from recoup.model.plan import TextMatch, ValueCheck
from recoup.model.target import target_words


class ValueKind(PageKind[ValueCheck]):
    spots: Mapping[str, Spot] = {"matches": Spot.REGEX}

    def make_shapes(self) -> Shapes:
        from pydantic import Field, model_validator

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.forms import Regex
        from recoup.shapes.shape import AnyText
        from recoup.shapes.target_shape import TargetShape, target_of

        class HeldShape(TargetShape):
            """A form field, and its value."""

            equal: AnyText | None = Field(
                None, alias="is", description="Its whole value.", examples=["12.50", ""]
            )
            matches: Regex | None = Field(
                None,
                description="A regular expression (RE2 syntax) that matches in its value.",
                examples=["^[0-9]+$"],
            )
            checked: bool | None = Field(None, description="Whether a box is checked.", examples=[True])

            @model_validator(mode="after")
            def _says_one_thing(self) -> HeldShape:
                if sum(said is not None for said in (self.equal, self.matches, self.checked)) != 1:
                    raise ValueError("say what it must hold: exactly one of `is`, `matches` and `checked`")
                return self

        class ValueShape(CheckShape):
            held: HeldShape = Field(
                alias="value",
                description="A form field, and what it must hold.",
                examples=[{"label": "Amount", "is": "12.50"}, {"label": "I agree", "checked": True}],
            )

            def value(self) -> ValueCheck:
                held = self.held
                match = None if held.matches is None else TextMatch(regex=held.matches)
                return ValueCheck(target_of(held), match, held.checked, held.equal)

        return Shapes({"value": ValueShape}, {"value": HeldShape})

    def words(self, check: ValueCheck) -> str:
        return f"value: {target_words(check.target)}"

    def filled(self, check: ValueCheck, fill: Fill) -> ValueCheck:
        return msgspec.structs.replace(
            check,
            target=filled_target(check.target, fill),
            match=None if check.match is None else filled_match(check.match, fill),
            equals=None if check.equals is None else fill(check.equals, Spot.TEXT),
        )

    def question(self, check: ValueCheck) -> PageQuestion:
        return PageQuestion(answer=lambda sight: _held(check, sight), target=check.target, field=True)


def _held(check: ValueCheck, sight: PageSight) -> Answer:
    if sight.field is None or len(sight.elements) != 1:
        return False, f"{target_words(check.target)}: {len(sight.elements)} fields fit, wanted one"
    if check.checked is not None:
        is_checked = sight.field["checked"]
        return is_checked is check.checked, "checked" if is_checked else "not checked"
    if sight.elements[0].type == "password":
        return None, "a password field is not read"
    value = sight.field["holds"]
    if value is None:
        return None, f"{target_words(check.target)} is no field"
    if check.equals is not None:
        held = value == check.equals
    else:
        assert check.match is not None, "a check of a value says what it must be"
        held = matched(check.match, value, "the field", whole=True)[0]
    # What the field holds is not shown: it may be anything.
    return held, "it holds that" if held else "it holds something else"


CHECK = ValueKind()
