"""Elements of a page as people name them: in short, or recorded in full, or just by their text."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, Tag, model_validator

from recoup.kernel.references import OPENING
from recoup.model.target import SHORT, TEXT_MAX, Box, Element, Target
from recoup.shapes.aria_roles import MEANT, ROLES
from recoup.shapes.forms import TEMPLATE
from recoup.shapes.page_keys import CHOOSING, NAMING
from recoup.shapes.shape import (
    TAG,
    AnyText,
    Shape,
    Text,
    as_written,
    at_most,
    branch,
    said,
    scalar_schema,
    text_or,
)
from recoup.shapes.tree import clipped
from recoup.shapes.wording import described, suggestion

WORDS_MAX = 500
"""Characters of one word of a target: what is collected from a page is cut there, too."""
NTH_MAX = 10_000
LIST_MAX = 200
ANCESTORS_MAX = 8
PATH_MAX = 4_000
PIXELS_MAX = 10_000_000
FRAMES_MAX = 20

Words = Annotated[Text, at_most(WORDS_MAX)]


def _role(role: str) -> str:
    if role in ROLES or OPENING in role:
        return role
    meant = MEANT.get(role.lower()) or (role.lower() if role.lower() in ROLES else None)
    words = f"did you mean `{meant}`?" if meant else suggestion(role, sorted(ROLES))
    raise ValueError(
        f"`{clipped(role)}` is no role of ARIA: {words or 'such are `button`, `link`, `textbox`, `row`'}"
    )


def _css(css: str) -> str:
    if re.match(r"\(*\.{0,2}/|xpath=", css):
        raise ValueError("is XPath: write CSS, or name the element by `role`, `name`, `text` or `label`")
    if found := re.match(r"(text|role|label|id|data-testid)=", css):
        raise ValueError(f"is no CSS: {_ENGINES[found[1]]}")
    return css


_ENGINES = {
    "text": "write `text: …` instead",
    "role": "write `role: …` instead",
    "label": "write `label: …` instead",
    "id": "write `#…` for an id",
    "data-testid": "write `test_id: …` instead",
}


def _counted(nth: int) -> int:
    if nth == 0:
        raise ValueError("counts from 1, and from -1 backwards: 0 is none of them")
    return nth


class BoxShape(Shape):
    """Where it was, in CSS pixels of the whole page."""

    x: float = Field(
        ge=-PIXELS_MAX, le=PIXELS_MAX, description="From the left edge of the page.", examples=[120]
    )
    y: float = Field(ge=-PIXELS_MAX, le=PIXELS_MAX, description="From the top of the page.", examples=[640.5])
    width: float = Field(ge=0, le=PIXELS_MAX, description="How wide it was.", examples=[96])
    height: float = Field(ge=0, le=PIXELS_MAX, description="How high it was.", examples=[32])

    def value(self) -> Box:
        return Box(float(self.x), float(self.y), float(self.width), float(self.height))


Noted = Annotated[AnyText, at_most(TEXT_MAX)]
_Path = Annotated[AnyText, at_most(PATH_MAX)]


class RecordedShape(Shape):
    """An element in full, as it was when the plan was recorded."""

    tag: Annotated[Words, AfterValidator(str.lower)] = Field(description="Its tag.", examples=["button"])
    role: Noted = Field("", description="Its role, as ARIA computes it.", examples=["button"])
    type: Noted = Field("", description="The type of an input or a button.", examples=["submit"])
    name: Noted = Field("", description="Its accessible name.", examples=["Approve"])
    text: Noted = Field("", description="What is to be read in it.", examples=["Approve"])
    id: Noted = Field("", description="Its id.", examples=["approve-1001"])
    test_id: Noted = Field("", description="Its test id.", examples=["approve"])
    name_attribute: Noted = Field("", description="Its attribute `name`.", examples=["approve"])
    classes: list[Noted] = Field(
        [], max_length=LIST_MAX, description="Its classes.", examples=[["btn", "primary"]]
    )
    href: _Path = Field("", description="Where it leads, as it is written.", examples=["/invoices/1001"])
    alt: Noted = Field("", description="Its alternative text.", examples=["Logo"])
    title: Noted = Field("", description="Its title.", examples=["Approve this invoice"])
    placeholder: Noted = Field("", description="Its placeholder.", examples=["Search"])
    label: Noted = Field("", description="The words of its label.", examples=["Amount"])
    attributes: dict[str, _Path] = Field(
        {}, max_length=LIST_MAX, description="Further attributes.", examples=[{"aria-controls": "menu"}]
    )
    box: BoxShape | None = Field(
        None, description="Where it was.", examples=[{"x": 120, "y": 640, "width": 96, "height": 32}]
    )
    neighbours: list[Noted] = Field(
        [],
        max_length=LIST_MAX,
        description="Words around it, nearest first.",
        examples=[["INV-1001", "12.50"]],
    )
    container: Noted = Field(
        "", description="Words that tell its list item, row or card from the others.", examples=["INV-1001"]
    )
    ancestors: list[Noted] = Field(
        [],
        max_length=ANCESTORS_MAX,
        description="Roles or tags around it, from the parent upwards.",
        examples=[["cell", "row", "table"]],
    )
    xpath: _Path = Field(
        "", description="The way to it from the root.", examples=["/html/body/main/button[2]"]
    )
    id_xpath: _Path = Field(
        "",
        description="The way to it from the nearest element with an id.",
        examples=['//*[@id="list"]/button'],
    )
    frame: list[Annotated[int, Field(ge=0, le=NTH_MAX)]] = Field(
        [],
        max_length=FRAMES_MAX,
        description="In which frame, by numbers from the page down.",
        examples=[[0]],
    )
    visible: bool = Field(True, description="Whether it was to be seen.", examples=[True])
    enabled: bool = Field(True, description="Whether it could be used.", examples=[True])

    def value(self) -> Element:
        said_of_it = {name: getattr(self, name) for name in self.model_fields_set - {"box"}}
        lists = {name: tuple(value) for name, value in said_of_it.items() if isinstance(value, list)}
        element = Element(**{**said_of_it, **lists})
        return element if self.box is None else msgspec.structs.replace(element, box=self.box.value())


class TargetShape(Shape):
    """An element: all that is said of it must hold."""

    role: Annotated[Words, AfterValidator(_role)] | None = Field(
        None, description="Its role in ARIA.", examples=["button", "link", "textbox"]
    )
    name: Words | None = Field(None, description="Its accessible name.", examples=["Approve"])
    text: Words | None = Field(None, description="What is to be read in it.", examples=["Approve"])
    label: Words | None = Field(None, description="The words of a field's label.", examples=["Amount"])
    placeholder: Words | None = Field(None, description="The placeholder of a field.", examples=["Search"])
    test_id: Words | None = Field(None, description="Its test id (data-testid).", examples=["approve"])
    css: Annotated[Text, at_most(PATH_MAX), AfterValidator(_css)] | None = Field(
        None, description="A CSS selector.", examples=["#approve", "form .primary"]
    )
    near: Words | None = Field(
        None,
        description="Whole, visible words in the same row, card or list item; elsewhere, close to it.",
        examples=["INV-1001"],
    )
    inside: Words | None = Field(
        None,
        description="Only within the smallest list item, row, card or section with these words, in no other row.",
        examples=["INV-1001"],
    )
    nth: Annotated[int, Field(ge=-NTH_MAX, le=NTH_MAX), AfterValidator(_counted)] | None = Field(
        None, description="Of several that fit, which one, from 1; negative from the end.", examples=[2, -1]
    )
    frame: Words | None = Field(
        None, description="The name of its frame, or CSS of it.", examples=["payment", "iframe.bank"]
    )
    recorded: RecordedShape | None = Field(
        None,
        description="The element in full, as it was recorded.",
        examples=[{"tag": "button", "name": "Approve"}],
    )

    @model_validator(mode="after")
    def _names_something(self) -> TargetShape:
        if self.target() is None:
            raise ValueError(self._unnamed())
        return self

    def target(self) -> Target | None:
        """None: nothing names an element."""
        if all(getattr(self, key) is None for key in NAMING):
            return None
        words = {key: getattr(self, key) for key in SHORT}
        recorded = None if self.recorded is None else self.recorded.value()
        return Target(**words, nth=self.nth, recorded=recorded)

    def _unnamed(self) -> str:
        keys = ", ".join(f"`{key}`" for key in NAMING[:-2])
        choosing = [f"`{key}`" for key in CHOOSING if getattr(self, key) is not None]
        if choosing:
            verb = "chooses" if len(choosing) == 1 else "choose"
            return f"{' and '.join(choosing)} only {verb} among several: say what it is, by {keys} or `css`"
        return f"names no element: say what it is, by {keys} or `css`"


class MaybeTargetShape(TargetShape):
    """An element, or none."""

    @model_validator(mode="after")
    def _names_something(self) -> MaybeTargetShape:
        if self.target() is None and any(getattr(self, key) is not None for key in CHOOSING):
            raise ValueError(self._unnamed())
        return self


def _target_text(value: Any) -> Any:
    """Anything but text cannot be meant: better words than those for text alone."""
    if isinstance(value, list):
        raise ValueError(
            f"must be text or a mapping such as {{role: button, name: Approve}}, not {described(value)}"
        )
    return as_written(value)


TargetText = Annotated[
    str, BeforeValidator(_target_text), AfterValidator(said), at_most(WORDS_MAX), scalar_schema(minLength=1)
]
AnyTarget = Annotated[
    Annotated[TargetShape, Tag(TAG + "target")] | Annotated[TargetText, Tag(TAG + "text")],
    branch(text_or("target")),
]


def target_of(written: TargetShape | str) -> Target:
    target = Target(text=written) if isinstance(written, str) else written.target()
    assert target is not None, "the shape has refused targets that name nothing"
    return target


def without_references(text: str) -> str:
    """What stands there while it is not known what `${{ … }}` will stand for."""
    return TEMPLATE.sub("x", text)
