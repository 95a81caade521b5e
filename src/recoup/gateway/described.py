"""What routes answer, for the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from recoup.gateway.answering import JSON
from recoup.gateway.problems import MEDIA
from recoup.gateway.streaming import MEDIA as STREAM
from recoup.model.answers.answer import Answer, PlainAnswer
from recoup.model.answers.system import ProblemAnswer

AnswerType = type[Answer] | type[PlainAnswer]
_SCHEMAS: Final = "#/components/schemas/"
_REFERENCE: Final = re.compile(rf'"{_SCHEMAS}(\w+)"')
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


def answers(shape: AnswerType, status: int = 200) -> Responses:
    """The shape, and every refusal."""
    fine: Responses = {one: one_of(shape) for one in {status, 200}}
    return {**fine, **refusals()}


def one_of(*shapes: AnswerType) -> dict[str, Any]:
    """A response that is one of these."""
    found = [_reference(shape) for shape in shapes]
    return {"content": {JSON: {"schema": found[0] if len(found) == 1 else {"anyOf": found}}}}


def components(document: dict[str, Any]) -> dict[str, Any]:
    """The schemas of all answers that the document refers to."""
    named = set(_REFERENCE.findall(msgspec.json.encode(document).decode()))
    shapes = [shape for shape in (*_subclasses(Answer), *_subclasses(PlainAnswer)) if shape.__name__ in named]
    return msgspec.json.schema_components(shapes, ref_template=f"{_SCHEMAS}{{name}}")[1]


def _subclasses(shape: AnswerType) -> Iterator[AnswerType]:
    for one in shape.__subclasses__():
        yield one
        yield from _subclasses(one)


def _reference(shape: AnswerType) -> dict[str, str]:
    return {"$ref": f"{_SCHEMAS}{shape.__name__}"}


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
    content = {MEDIA: {"schema": _reference(ProblemAnswer), "example": example}}
    return {status: {"description": words, "content": content} for status, words in _REFUSALS.items()}
