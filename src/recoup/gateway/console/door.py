"""The door: where people sign in, and come back to where they wanted to go."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.console.pages import Pages, bare_page

router = Pages()
_NEXT_CHARS_MAX = 2_000


@router.get("/sign-in")
async def sign_in(request: Request) -> Response:
    return bare_page("sign_in.html", title="Sign in", next=_own_place(request.query_params.get("next", "")))


def _own_place(said: str) -> str:
    """Only a path of this gateway: nobody is sent elsewhere from our door."""
    is_ours = said.startswith("/") and not said.startswith(("//", "/\\")) and len(said) <= _NEXT_CHARS_MAX
    return said if is_ours and said.isprintable() and "\\" not in said else "/"
