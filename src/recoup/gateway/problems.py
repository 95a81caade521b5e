"""What went wrong, as `application/problem+json` (RFC 9457): what, where, and what to do."""

from __future__ import annotations

import http
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from recoup.errors import (
    Conflict,
    EventUnreadable,
    InvalidPlan,
    LedgerBusy,
    LedgerError,
    NotFound,
    RecoupError,
    RowUnreadable,
    UsageError,
    WorkspaceError,
)
from recoup.gateway.book import KeyOfAnother
from recoup.model.probe_wire import PROBLEM_TYPE
from recoup.operations.declining import Declined
from recoup.serving.mistakes import log_mistake

MEDIA: Final = "application/problem+json"
BUG: Final = "something went wrong inside the gateway"
_BY_ERROR: Final[tuple[tuple[type[RecoupError], int], ...]] = (
    (InvalidPlan, 422),
    (WorkspaceError, 422),
    (KeyOfAnother, 422),
    (NotFound, 404),
    (UsageError, 409),
    (Conflict, 409),
    (LedgerBusy, 503),
    (EventUnreadable, 409),
    (RowUnreadable, 409),
    (LedgerError, 503),
    (RecoupError, 500),
)
"""The first that fits."""
_RETRY_S: Final = "2"
CODES: Final = {
    400: "malformed",
    401: "token",
    403: "role",
    404: "not_found",
    405: "method",
    409: "state",
    413: "too_long",
    422: "invalid",
    429: "too_many",
    500: "internal",
    503: "unavailable",
}
"""What `type` ends with, by status, unless something more exact can be said."""


class Refused(Exception):
    """What the gateway itself refuses, before anybody was asked."""

    def __init__(
        self,
        status: int,
        detail: str,
        hint: str = "",
        headers: dict[str, str] | None = None,
        code: str = "",
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.hint, self.headers = status, detail, hint, headers or {}
        self.code = code


def problem(
    status: int,
    detail: str,
    *,
    hint: str = "",
    problems: Any = (),
    where: str = "",
    headers: dict[str, str] | None = None,
    code: str = "",
    more: dict[str, Any] | None = None,
) -> Response:
    document = {
        "type": PROBLEM_TYPE + (code or CODES.get(status, "refused")),
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "hint": hint,
        "instance": where,
        "problems": problems,
        **(more or {}),
    }
    return Response(msgspec.json.encode(document), status, headers, MEDIA)


def add_handlers(api: FastAPI) -> None:
    api.add_exception_handler(Refused, _refused)
    api.add_exception_handler(Declined, _declined)
    api.add_exception_handler(RecoupError, _recoup_error)
    api.add_exception_handler(RequestValidationError, _not_understood)
    api.add_exception_handler(HTTPException, _http_error)


def status_of(error: RecoupError) -> int:
    return next(status for kind, status in _BY_ERROR if isinstance(error, kind))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return problem(
        *(error.status, error.detail),
        hint=error.hint,
        where=request.url.path,
        headers=error.headers,
        code=error.code,
    )


async def _declined(request: Request, error: Exception) -> Response:
    """What came is quoted, as far as it is needed to find it again."""
    assert isinstance(error, Declined)
    refusal, redactor = error.refusal, request.app.state.house.app.redactor
    more = {} if refusal.expected_seq is None else {"expected_seq": refusal.expected_seq}
    return problem(
        *(refusal.status, redactor.redact(refusal.detail).text),
        hint=error.hint,
        where=request.url.path,
        code=refusal.code,
        more=more,
    )


async def _recoup_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RecoupError)
    status = status_of(error)
    problems = msgspec.to_builtins(error.problems) if isinstance(error, InvalidPlan) else []
    redactor = request.app.state.house.app.redactor  # a plan's problems quote the plan
    problems = [{**one, "message": redactor.redact(one["message"]).text} for one in problems]
    detail, hint = (redactor.redact(text).text for text in (error.message, error.what_to_do))
    headers = {"Retry-After": _RETRY_S} if status == 503 else None
    return problem(
        *(status, detail),
        hint=hint,
        problems=problems,
        where=request.url.path,
        headers=headers,
        code=_code_of(error),
        more=_named_event(error),
    )


def _named_event(error: RecoupError) -> dict[str, Any] | None:
    if not isinstance(error, EventUnreadable):
        return None
    return {"unreadable": {"stream": error.stream, "seq": error.seq, "type": error.event_type}}


def _code_of(error: RecoupError) -> str:
    if isinstance(error, InvalidPlan):
        return "plan"
    if isinstance(error, EventUnreadable | RowUnreadable):
        return "unreadable"
    return "key" if isinstance(error, KeyOfAnother) else ""


async def _not_understood(request: Request, error: Exception) -> Response:
    """What was given is not told back: it may be a secret in the wrong place."""
    assert isinstance(error, RequestValidationError)
    problems = [
        {"where": ".".join(str(part) for part in one["loc"]), "message": one["msg"]}
        for one in error.errors()[:100]
    ]
    return problem(
        *(422, "the request is not understood"),
        hint="GET /api/openapi.json says what may stand where.",
        problems=problems,
        where=request.url.path,
    )


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(
        error.status_code, str(error.detail), where=request.url.path, headers=dict(error.headers or {})
    )


def bug(scope: Scope, error: Exception) -> Response:
    """For whatever nobody foresaw."""
    mistake_id = noted(scope, error)
    return problem(500, BUG, hint=bug_hint(mistake_id), where=scope["path"], more={"errorId": mistake_id})


def noted(scope: Scope, error: Exception) -> str:
    """The id of its line in the log."""
    redactor = scope["app"].state.house.app.redactor
    return log_mistake(scope, error, lambda text: redactor.redact(text).text)


def bug_hint(mistake_id: str) -> str:
    return f"Its log says where, under {mistake_id}. The ledger is as it was, or holds what was done."
