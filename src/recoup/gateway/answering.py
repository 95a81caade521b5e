"""Documents as answers: JSON with an ETag, pages with a cursor."""

from __future__ import annotations

import base64
import binascii
import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.problems import Refused

PAGE_MAX: Final = 500
PLACE_MAX: Final = 10**18 - 1
"""No database counts further, whatever it adds."""
Place = Annotated[int, msgspec.Meta(ge=0, le=PLACE_MAX)]
_CURSOR_CHARS_MAX: Final = 400
Shape = TypeVar("Shape")
Row = TypeVar("Row")
JSON: Final = "application/json"


def document(
    request: Request, body: Any, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """304 where the asker has it already."""
    raw = msgspec.json.encode(body)
    tag = tag_of(raw)
    told = {**(headers or {}), "ETag": tag}
    if is_known(request, tag):
        return Response(None, 304, told)
    return Response(raw, status, told, JSON)


def page(request: Request, items: Sequence[Any], next_cursor: str | None) -> Response:
    return document(request, {"items": items, "nextCursor": next_cursor})


def cut(
    rows: Sequence[Row], behind: Callable[[Row], Any], after: Any, limit: int
) -> tuple[Sequence[Row], bool]:
    """Of rows in the order of `behind`, those of a page, and whether there are more. None: from the first one on."""
    begin = 0 if after is None else bisect_right(rows, after, key=behind)
    return rows[begin : begin + limit], begin + limit < len(rows)


def cursor_of(*parts: str | int) -> str:
    """Opaque: what is in it may change."""
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


def read_cursor(cursor: str, shape: type[Shape]) -> Shape:
    try:
        if len(cursor) > _CURSOR_CHARS_MAX:
            raise ValueError
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return msgspec.json.decode(raw, type=shape)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise Refused(
            400, "this cursor was not given by this gateway", "Leave it out to begin at the beginning."
        ) from None


def tag_of(raw: bytes) -> str:
    return f'"{hashlib.sha256(raw).hexdigest()[:32]}"'


def is_known(request: Request, tag: str) -> bool:
    """The asker has it already."""
    if request.method not in ("GET", "HEAD"):
        return False
    said = request.headers.get("If-None-Match", "")
    known = {one.strip().removeprefix("W/") for one in said.split(",")}
    return tag in known or said.strip() == "*"
