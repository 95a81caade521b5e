"""Checks that look at the page of the run's browser, as people write them under `expect`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, Tag, model_validator

from recoup.model.plan import (
    PageTextCheck,
    RegionCheck,
    ResponseCheck,
    TargetCheck,
    TargetState,
    TextMatch,
    TitleCheck,
    UrlCheck,
    ValueCheck,
)
from recoup.shapes.forms import Match, Regex, list_or_text, match_value
from recoup.shapes.page_keys import PAGE_CHECK_KEYS
from recoup.shapes.shape import TAG, AnyText, Shape, Text, at_most, branch, text_or
from recoup.shapes.target_shape import (
    AnyTarget,
    MaybeTargetShape,
    TargetShape,
    TargetText,
    target_of,
)

PATTERN_CHARS_MAX = 20_000
ELEMENTS_MAX = 1_000_000
WHOLE_PAGE = "page"

AddressPattern = Annotated[Text, at_most(PATTERN_CHARS_MAX)]


class UrlShape(Shape):
    url: AddressPattern = Field(
        description="Where the page is: * stands for a part of the path, ** for anything.",
        examples=["**/done", "https://shop.example/invoices/*"],
    )

    def value(self) -> UrlCheck:
        return UrlCheck(self.url)


class TitleShape(Shape):
    title: Match = Field(
        description="Text in the title of the page, or {regex: …}.",
        examples=["Invoices", {"regex": "^Invoices"}],
    )

    def value(self) -> TitleCheck:
        return TitleCheck(match_value(self.title))


class PageTextShape(Shape):
    text: Match = Field(
        description="Text to be read on the page, or {regex: …}.",
        examples=["Approved", {"regex": "INV-[0-9]+"}],
    )
    absent: bool = Field(False, description="It must not be there instead.", examples=[True])

    def value(self) -> PageTextCheck:
        return PageTextCheck(match_value(self.text), self.absent)


class VisibleShape(Shape):
    visible: AnyTarget = Field(
        description="An element that must be seen.",
        examples=["Approved", {"role": "status", "name": "Approved"}],
    )

    def value(self) -> TargetCheck:
        return TargetCheck(target_of(self.visible))


class HiddenShape(Shape):
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


class CountShape(Shape):
    count: CountedShape = Field(
        description="Elements, and how many of them there must be.", examples=[{"role": "row", "is": 3}]
    )

    def value(self) -> TargetCheck:
        return TargetCheck(target_of(self.count), TargetState.COUNT, self.count.number)


class HeldShape(TargetShape):
    """A form field, and its value."""

    equal: AnyText | None = Field(None, alias="is", description="Its whole value.", examples=["12.50", ""])
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


class ValueShape(Shape):
    held: HeldShape = Field(
        alias="value",
        description="A form field, and what it must hold.",
        examples=[{"label": "Amount", "is": "12.50"}, {"label": "I agree", "checked": True}],
    )

    def value(self) -> ValueCheck:
        held = self.held
        match = None if held.matches is None else TextMatch(regex=held.matches)
        return ValueCheck(target_of(held), match, held.checked, held.equal)


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
    ) = Field(None, description="Its status, or several. Default: any below 400.", examples=[200, [200, 201]])

    def statuses(self) -> tuple[int, ...]:
        if self.status is None:
            return ()
        return (self.status,) if isinstance(self.status, int) else tuple(self.status)


class ResponseShape(Shape):
    response: Annotated[
        Annotated[AnsweredShape, Tag(TAG + "answered")] | Annotated[AddressPattern, Tag(TAG + "text")],
        branch(text_or("answered")),
    ] = Field(
        description="A response that must have come during the attempt.",
        examples=[{"url": "**/api/approve", "status": 200}, "**/api/approve"],
    )

    def value(self) -> ResponseCheck:
        if isinstance(self.response, str):
            return ResponseCheck(self.response)
        return ResponseCheck(self.response.url, self.response.statuses())


class RegionShape(MaybeTargetShape):
    """What must look as before; what is in view, where nothing is named."""

    tolerance: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01, description="The share of its pixels that may differ.", examples=[0.01]
    )


class UnchangedShape(Shape):
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


def _which_page_check(value: Any) -> str:
    """There is exactly one such key where this is asked."""
    return TAG + "page-" + next(key for key in PAGE_CHECK_KEYS if key in value)


PageCheckShape = Annotated[
    Annotated[UrlShape, Tag(TAG + "page-url")]
    | Annotated[TitleShape, Tag(TAG + "page-title")]
    | Annotated[PageTextShape, Tag(TAG + "page-text")]
    | Annotated[VisibleShape, Tag(TAG + "page-visible")]
    | Annotated[HiddenShape, Tag(TAG + "page-hidden")]
    | Annotated[CountShape, Tag(TAG + "page-count")]
    | Annotated[ValueShape, Tag(TAG + "page-value")]
    | Annotated[ResponseShape, Tag(TAG + "page-response")]
    | Annotated[UnchangedShape, Tag(TAG + "page-unchanged")],
    branch(_which_page_check),
]
