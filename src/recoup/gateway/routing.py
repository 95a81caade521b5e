"""The way of every request: who asks, whether they may, and whether they have asked before."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.access import Principal, roles_for
from recoup.gateway.answering import JSON
from recoup.gateway.book import answer_key
from recoup.gateway.cookies import must_be_asked_for, must_be_own_page, session_secret
from recoup.gateway.finishing import Answer
from recoup.gateway.house import House, house_of, principal_of
from recoup.gateway.problems import Refused
from recoup.serving.brake import WRONG_TOKENS_MAX
from recoup.serving.connections import prove

KEY_HEADER: Final = "Idempotency-Key"
CSRF_HEADER: Final = "X-CSRF-Token"
_READING: Final = frozenset({"GET", "HEAD"})
_KEY: Final = re.compile(r"[\x21-\x7e]{1,128}")
_NAME_CHARS_SHOWN: Final = 80
_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class GuardedRoute(APIRoute):
    """Asks the table first, then the book."""

    def get_route_handler(self) -> Handler:
        handle, path = super().get_route_handler(), self.path_format
        parameters = _parameters(self) if path.startswith("/api/") else None

        async def guarded(request: Request) -> Response:
            house = house_of(request)
            if request.method not in _READING:
                must_be_own_page(request)
            principal = _admitted(house, request, path)
            request.state.principal = principal
            _must_be_parameters(request, parameters)
            if request.method == "POST":
                # Now: where it is parsed, one that is too large would look like a wrong one.
                _must_be_json(request, await request.body())
            key = request.headers.get(KEY_HEADER)
            if request.method != "POST" or key is None or principal is None:
                return await handle(request)
            return await _once(house, request, principal, key, handle)

        return guarded


def new_router(subject: str) -> APIRouter:
    return APIRouter(route_class=GuardedRoute, tags=[subject])


def _parameters(route: APIRoute) -> frozenset[str]:
    """What may be asked in its address, as it is described."""
    described = (route.openapi_extra or {}).get("parameters", ())
    taken = {one.alias for asked in _asked_of(route.dependant) for one in asked.query_params}
    return frozenset(taken | {one["name"] for one in described if one["in"] == "query"})


def _asked_of(asked: Dependant) -> Iterator[Dependant]:
    yield asked
    for one in asked.dependencies:
        yield from _asked_of(one)


def _must_be_parameters(request: Request, parameters: frozenset[str] | None) -> None:
    """A filter that is misspelt must not find everything."""
    if parameters is None:
        return
    for name in request.query_params:
        if name not in parameters:
            there_are = f"There are: {', '.join(sorted(parameters))}." if parameters else "There are none."
            raise Refused(422, f"there is no parameter {name[:_NAME_CHARS_SHOWN]!r} here", there_are)


def _admitted(house: House, request: Request, path: str) -> Principal | None:
    may = roles_for(request.method if request.method != "HEAD" else "GET", path)
    is_open_change = None in may and request.method not in _READING
    principal = _principal(house, request, by_cookie=not is_open_change)
    if principal is None and None not in may:
        raise Refused(
            401, "a token is needed", "Send the header Authorization: Bearer TOKEN.", dict(_CHALLENGE)
        )
    if principal is not None and principal.role not in may:
        roles = ", ".join(sorted(role.value for role in may if role))
        raise Refused(403, f"a {principal.role} may not do this", f"It takes the role: {roles}.")
    if principal is not None:
        prove(request.scope)
    return principal


def _principal(house: House, request: Request, *, by_cookie: bool) -> Principal | None:
    """None: no token came. A wrong one is never taken for none. A browser that has a cookie and lost its CSRF token may
    still sign in."""
    said = request.headers.get("Authorization")
    if said is None:
        return _signed_in(house, request) if by_cookie else None
    scheme, _, token = said.partition(" ")
    return known(house, request, token.strip() if scheme.lower() == "bearer" else "")


def known(house: House, request: Request, token: str) -> Principal:
    """Whose token it is. A right one is never refused, whatever others try who share its address."""
    if (found := house.book.who(token)) is not None:
        return found
    address = request.client.host if request.client else ""
    if wait_s := house.brake.wrong(address, token):
        raise Refused(
            *(429, f"{WRONG_TOKENS_MAX} different wrong tokens came from this address within a minute"),
            hint=f"Wait for {wait_s} s, or use the right one.",
            headers={"Retry-After": str(wait_s), "Connection": "close"},
        )
    raise Refused(
        *(401, "this token is not known, or was revoked"),
        hint="Make a new one where the gateway runs: recoup tokens make operator --name NAME",
        headers=dict(_CHALLENGE),
    )


def is_still_admitted(house: House, request: Request) -> bool:
    """Whether they who were admitted would be now: their token may have been revoked, their session have ended."""
    who, said = principal_of(request), request.headers.get("Authorization")
    if said is not None:
        return house.book.who(said.partition(" ")[2].strip()) == who
    session = house.book.session(session_secret(request))
    return session is not None and session.principal == who


def _signed_in(house: House, request: Request) -> Principal | None:
    session = house.book.session(session_secret(request))
    if session is None:
        return None
    must_be_asked_for(request)
    if request.method not in _READING:
        said = request.headers.get(CSRF_HEADER, "")
        if not secrets.compare_digest(said.encode(), session.csrf.encode()):
            raise Refused(
                403, f"the header {CSRF_HEADER} is missing or wrong", "Signing in told it.", code="csrf"
            )
    return session.principal


def _must_be_json(request: Request, body: bytes) -> None:
    """Whatever else a form or a script of another site can send without asking is not taken."""
    media = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    packed = request.headers.get("Content-Encoding", "identity").strip().lower() != "identity"
    if body and (media != JSON or packed):
        raise Refused(415, f"a body must be {JSON}, and not compressed", f"Send Content-Type: {JSON}.")


async def _once(house: House, request: Request, principal: Principal, key: str, handle: Handler) -> Response:
    """The second who asks the same under a key is told what the first was told."""
    if not _KEY.fullmatch(key):
        raise Refused(400, f"{KEY_HEADER} must be 1 to 128 printable characters without spaces")
    place, asked = answer_key(principal, key), _asked(request, await request.body())
    before = house.book.begin(place, asked)
    if before is not None:
        return _replayed(before)
    try:
        response = await handle(request)
    except BaseException:
        house.book.drop(place)
        raise
    body = bytes(response.body)
    told_secret = "set-cookie" in response.headers or _tells_a_secret(request)
    told_secret = told_secret or bool(house.app.redactor.found_in(body))
    if told_secret:  # nothing is stored that holds one
        house.book.drop(place)
    else:
        made = Answer(response.status_code, response.media_type or "", body, response.headers.get("Location"))
        await house.book.finish(place, made)
    return response


def tells_a_secret(request: Request) -> None:
    """For routes that answer with a token: the answer is given once and never stored."""
    request.state.tells_a_secret = True


def _tells_a_secret(request: Request) -> bool:
    return bool(getattr(request.state, "tells_a_secret", False))


def _replayed(before: Answer) -> Response:
    place = {} if before.location is None else {"Location": before.location}
    return Response(before.body, before.status, {"Idempotency-Replayed": "true", **place}, before.media)


def sub_key(principal: Principal, key: str | None, what: str) -> str | None:
    """The id of one thing that is done under a key, so that the ledger itself does it once. None: there is no key."""
    return None if key is None else f"http-{marked(principal, f'{key} {what}')}"


def marked(principal: Principal, key: str) -> str:
    """Of one token: nobody meets another's keys."""
    return hashlib.sha256(f"{principal.token_id}\n{key}".encode()).hexdigest()[:40]


def _asked(request: Request, body: bytes) -> str:
    line = f"{request.method} {request.url.path}?{request.url.query}\n"
    return hashlib.sha256(line.encode() + body).hexdigest()
