"""Documents as answers: JSON with an ETag, pages with a cursor."""

from __future__ import annotations

import contextlib
import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.problems import Refused
from recoup.operations.cursor import read_cursor as read
from recoup.operations.cursor import read_run_cursor as read_run

PAGE_MAX: Final = 500
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


def read_cursor(cursor: str, shape: type[Shape]) -> Shape:
    with _must_be_ours():
        return read(cursor, shape)


def read_run_cursor(cursor: str) -> tuple[int, str]:
    with _must_be_ours():
        return read_run(cursor)


@contextlib.contextmanager
def _must_be_ours() -> Iterator[None]:
    try:
        yield
    except ValueError:
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
