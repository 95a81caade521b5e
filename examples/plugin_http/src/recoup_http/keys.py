"""`http:` as people write it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

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


class RequestShape(Shape):
    url: Annotated[Text, AfterValidator(_address)] = Field(
        description="The address.", examples=["https://api.example/invoices"]
    )
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
