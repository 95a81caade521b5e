"""What routes answer, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from recoup.gateway.problems import MEDIA
from recoup.gateway.shapes import ProblemAnswer
from recoup.gateway.streaming import MEDIA as STREAM

Responses = dict[int | str, dict[str, Any]]
_REFUSALS: Final = {
    400: "It makes no sense as it is.",
    401: "A token is needed, or this one is not known.",
    403: "The token's role may not do this.",
    404: "There is no such thing.",
    409: "It cannot be done now; the detail says why, the hint what can.",
    413: "The body is too large.",
    415: "The body is not `application/json`, or it is compressed.",
    421: "This is not a name of this gateway.",
    422: "It is not understood; `problems` lists everything that is wrong.",
    429: "Too many wrong tokens.",
    431: "The head of the request is too large.",
    503: "The ledger cannot be used now, or too many streams are open.",
}


def answers(shape: type[BaseModel], status: int = 200) -> Responses:
    """The shape, and every refusal."""
    fine: Responses = {one: {"model": shape} for one in {status, 200}}
    return {**fine, **refusals()}


def streams(event: str) -> Responses:
    words = f"Server-sent events; `event` is {event}, `id` the place to go on from (`Last-Event-ID`)."
    example = "id: 7\nevent: end\ndata: {}\n\n"
    content = {STREAM: {"schema": {"type": "string"}, "example": example}}
    over = {"description": "Nothing will follow what the client has seen."}
    return {200: {"description": words, "content": content}, 204: over, **refusals()}


def files(media: str, words: str) -> Responses:
    """What is not JSON."""
    content = {media: {"schema": {"type": "string", "format": "binary"}}}
    return {200: {"description": words, "content": content}, **refusals()}


def refusals() -> Responses:
    example = {
        "type": "urn:recoup:problem:not_found",
        "title": "Not Found",
        "status": 404,
        "detail": "there is no run '20261116-1'",
        "hint": "List them: GET /api/runs",
        "instance": "/api/runs/20261116-1",
        "problems": [],
    }
    schema = {"$ref": f"#/components/schemas/{ProblemAnswer.__name__}"}
    content = {MEDIA: {"schema": schema, "example": example}}
    return {status: {"description": words, "content": content} for status, words in _REFUSALS.items()}
