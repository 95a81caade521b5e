"""`http:`, `answers:` and `chat:` as people write them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from recoup.checks.custom_shape import CustomShape
from recoup.kernel.references import OPENING
from recoup.model.plan import Repeat
from recoup.shapes.shape import AnyText, Shape, Text
from recoup.steps.custom_keys import CustomKeys
from recoup_http import SAFE

HEADERS_MAX = 100


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://", OPENING)):
        raise ValueError("must be a whole address: begin with https:// or http://")
    return url


Address = Annotated[Text, AfterValidator(_address)]


class RequestShape(Shape):
    url: Address = Field(description="The address.", examples=["https://api.example/invoices"])
    method: Literal["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"] = Field(
        "GET", description="The HTTP method.", examples=["POST"]
    )
    headers: dict[str, AnyText] = Field(
        {},
        max_length=HEADERS_MAX,
        description="Headers; a secret may stand here.",
        examples=[{"Authorization": "Bearer ${{ inputs.token }}"}],
    )
    body: Any = Field(
        None,
        alias="json",
        description="Sent as JSON; a secret may stand here.",
        examples=[{"month": "2026-11"}],
    )
    status: list[Annotated[int, Field(ge=100, le=599)]] = Field(
        [], description="The statuses that mean success. Default: any below 300.", examples=[[200, 404]]
    )


class HttpKeys(CustomKeys):
    phrase = "calls an HTTP endpoint"
    http: RequestShape = Field(
        description="An HTTP request.", examples=[{"url": "https://api.example/invoices"}]
    )

    def arguments(self) -> dict[str, Any]:
        return self.http.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def usual_repeat(self) -> Repeat:
        return Repeat.SAFE if self.http.method in SAFE else Repeat.NEVER

    @classmethod
    def shapes(cls) -> dict[str, type[Shape]]:
        return {"http": RequestShape}


class AnswerShape(Shape):
    url: Address = Field(description="The address.", examples=["https://shop.example/health"])
    contains: Text | None = Field(None, description="Text that must occur in the answer.", examples=["ok"])


class AnswersKeys(CustomShape):
    answers: AnswerShape = Field(
        description="An address that must answer with a status below 400.",
        examples=[{"url": "https://shop.example/health"}],
    )

    def arguments(self) -> dict[str, Any]:
        return self.answers.model_dump(mode="json", exclude_defaults=True)

    @classmethod
    def shapes(cls) -> dict[str, type[Shape]]:
        return {"answers": AnswerShape}


class ChatShape(Shape):
    """A chat that is told in one line."""

    url: Address = Field(description="Where to post.", examples=["https://chat.example/hooks/ops"])
    prefix: AnyText = Field("", description="Written before each line.", examples=["devbox: "])
