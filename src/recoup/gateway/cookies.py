"""The cookie of a signed-in browser, and what the browser says about the page that sends it.

Cookies ignore ports: whatever else listens on this host is sent ours, and can set it. So it opens pages and changes
nothing by itself; a change also takes a word that only this origin's pages can read (`static/csrf.js`).
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.house import house_of
from recoup.gateway.problems import Refused

COOKIE: Final = "recoup_session"
SECURE_COOKIE: Final = f"__Host-{COOKIE}"
"""Under TLS. Browsers take this name only with `Secure`, from this very host, so no plain connection can set it."""
_OWN_PAGES: Final = frozenset({"same-origin", "none"})
"""`Sec-Fetch-Site`. `same-site` is not ours: another port of this host is the same site."""


def session_secret(request: Request) -> str:
    return request.cookies.get(SECURE_COOKIE) or request.cookies.get(COOKIE, "")


def set_session(request: Request, answer: Response, secret: str, max_age_s: int) -> None:
    secure = is_under_tls(request)
    name = SECURE_COOKIE if secure else COOKIE
    answer.set_cookie(name, secret, max_age=max_age_s, httponly=True, samesite="strict", secure=secure)


def drop_session(answer: Response) -> None:
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    answer.delete_cookie(SECURE_COOKIE, httponly=True, samesite="strict", secure=True)


def is_under_tls(request: Request) -> bool:
    """Whether the browser talks TLS, to us or to a proxy before us: it says so itself in `Origin`. What the proxy says
    counts only where `--insecure` tells that there is one."""
    if request.url.scheme == "https" or urlsplit(request.headers.get("Origin", "")).scheme == "https":
        return True
    return house_of(request).behind_proxy and request.headers.get("X-Forwarded-Proto", "").lower() == "https"


def must_be_own_page(request: Request) -> None:
    """Browsers say which page a request is from: others must not use our cookies, nor set them."""
    origin = request.headers.get("Origin")
    is_foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("Host")
    if is_foreign or request.headers.get("Sec-Fetch-Site", "none") not in _OWN_PAGES:
        raise Refused(403, "this request is from another site")


def must_be_asked_for(request: Request) -> None:
    """A page of another port may link to ours, and not load what is in them: it would hold our streams."""
    if request.headers.get("Sec-Fetch-Mode", "navigate") != "navigate":
        must_be_own_page(request)
