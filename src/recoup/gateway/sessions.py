"""Browsers sign in with a token and get a cookie that no script can read and no other site can use."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway import shapes
from recoup.gateway.answering import document
from recoup.gateway.book import SESSION_S
from recoup.gateway.described import answers
from recoup.gateway.house import house_of
from recoup.gateway.routing import COOKIE, known, must_be_own_page, new_router

router = new_router("sessions")


@router.post("/api/session", responses=answers(shapes.SignedIn))
async def sign_in(request: Request, wanted: Annotated[shapes.SignIn, Body()]) -> Response:
    """For browsers: a token becomes a cookie, for twelve hours at most."""
    must_be_own_page(request)
    house = house_of(request)
    principal = known(house, request, wanted.token)
    secret, csrf = house.book.open_session(principal)
    answer = document(request, {"role": principal.role.value, "name": principal.name, "csrf": csrf})
    answer.set_cookie(
        COOKIE,
        secret,
        max_age=SESSION_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/api/session/end", responses=answers(shapes.SignedOut))
async def sign_out(request: Request) -> Response:
    house_of(request).book.end_session(request.cookies.get(COOKIE, ""))
    answer = document(request, {"ended": True})
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer
