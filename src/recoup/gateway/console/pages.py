"""How a page is made and who gets it: a template, the reader's rights, and an error as a page instead of JSON."""

from __future__ import annotations

import http
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from recoup import __version__
from recoup.errors import RecoupError
from recoup.gateway.access import Role
from recoup.gateway.console import words
from recoup.gateway.console.assets import assets_version
from recoup.gateway.console.menu import MenuEntry, count_for_menu, menu_of
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.problems import BUG, Refused, bug_hint, noted, status_of
from recoup.gateway.routing import GuardedRoute, Handler

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Nothing inline: no script, no style, no handler in an attribute."""
HTML: Final = "text/html"
_TEMPLATES: Final = Path(__file__).with_name("templates")


class PageRoute(GuardedRoute):
    """Who is not signed in is sent to the door; whatever is refused, or goes wrong here, is said on a page."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await handle(request)
            except Refused as refused:
                if refused.status == 401:
                    return to_the_door(request)
                return refusal_page(request, refused.status, refused.detail, refused.hint)
            except RecoupError as error:
                redact = house_of(request).app.redactor.redact
                return refusal_page(
                    request, status_of(error), redact(error.message).text, redact(error.what_to_do).text
                )
            except HTTPException:
                raise
            except RequestValidationError:
                return refusal_page(request, 422, "this address is not understood", "Go there by the menu.")
            except Exception as error:  # noqa: BLE001 told to the reader, and noted in the log
                return refusal_page(request, 500, BUG, bug_hint(noted(request.scope, error)))

        return shown


class Pages(APIRouter):
    """The pages of one subject. They are for people: the OpenAPI document does not speak of them."""

    def __init__(self, menu: MenuEntry | None = None) -> None:
        super().__init__(
            route_class=PageRoute, include_in_schema=False, dependencies=[Depends(count_for_menu)]
        )
        self.menu = menu


def page(request: Request, template: str, *, status: int = 200, path: str = "", **values: Any) -> Response:
    """One template with what every page needs. `title` is what the window says; `path` is the entry of the menu under
    which the page stands, where its own address does not say so."""
    principal = principal_of(request)
    shared: dict[str, Any] = {
        "me": principal,
        "may_change": principal.role is Role.OPERATOR,
        "menu": menu_of(request),
        "menu_counts": getattr(request.state, "menu_counts", {}),
        "path": path or request.url.path,
        "here": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
    }
    return bare_page(template, status=status, **shared, **values)  # no value hides a shared one


def bare_page(template: str, *, status: int = 200, **values: Any) -> Response:
    """For whoever is not signed in, too."""
    body = (
        _environment()
        .get_template(template)
        .render(static=f"/static/{assets_version()}", version=__version__, **values)
    )
    return Response(body, status, {"Content-Security-Policy": POLICY, "Cache-Control": "no-store"}, HTML)


def refusal_page(request: Request, status: int, detail: str, hint: str) -> Response:
    title = http.HTTPStatus(status).phrase
    said: dict[str, Any] = {"title": title, "detail": detail, "hint": hint, "code": status}
    if getattr(request.state, "principal", None) is None:
        return bare_page("refused_outside.html", status=status, **said)
    return page(request, "refused.html", status=status, **said)


def to_the_door(request: Request) -> Response:
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/sign-in?next={quote(wanted)}", 303)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(words.FILTERS)
    return made
