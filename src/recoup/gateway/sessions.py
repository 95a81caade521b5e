"""Browsers sign in with a token and get a cookie that no script can read and no other site can use."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway import shapes
from recoup.gateway.access import LOOKING, Principal
from recoup.gateway.answering import document
from recoup.gateway.book import SESSION_S
from recoup.gateway.cookies import drop_session, session_secret, set_session
from recoup.gateway.described import answers
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.problems import Refused
from recoup.gateway.routing import known, new_router
from recoup.model.answers.system import SignedIn, SignedOut
from recoup.model.events import SessionEnded, SessionOpened

router = new_router("sessions")


@router.post("/api/session", responses=answers(SignedIn))
async def sign_in(request: Request, wanted: Annotated[shapes.SignIn, Body()]) -> Response:
    """For browsers: a token becomes a cookie, for twelve hours at most."""
    house = house_of(request)
    principal = known(house, request, wanted.token)
    _must_look(principal)
    secret, csrf = house.book.open_session(principal)
    await house.tell_of_tokens(SessionOpened(**_about(principal)))
    answer = document(request, {"role": principal.role.value, "name": principal.name, "csrf": csrf})
    set_session(request, answer, secret, SESSION_S)
    return answer


@router.post("/api/session/end", responses=answers(SignedOut))
async def sign_out(request: Request) -> Response:
    house, secret = house_of(request), session_secret(request)
    if house.book.end_session(secret):
        await house.tell_of_tokens(SessionEnded(**_about(principal_of(request))))
    answer = document(request, {"ended": True})
    drop_session(answer)
    return answer


def _must_look(principal: Principal) -> None:
    """A session is for people in front of pages; machines have nothing to see there."""
    if principal.role not in LOOKING:
        raise Refused(403, f"a {principal.role} does not sign in", "It takes the role: operator, viewer.")


def _about(principal: Principal) -> dict[str, str]:
    return {
        **{"token_id": principal.token_id, "name": principal.name, "role": principal.role.value},
        "by": principal.actor,
    }
