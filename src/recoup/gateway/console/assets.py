"""Styles and scripts, from memory and under one version: a browser asks for each of them once."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from recoup.errors import NotFound
from recoup.gateway.routing import new_router
from recoup.reports.html import STYLES as REPORT_STYLES

router = new_router("console")
_HERE: Final = Path(__file__).parent / "static"
_REPORTS: Final = Path(__file__).parents[2] / "reports"
_MEDIA: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}
_FOR_EVER: Final = "public, max-age=31536000, immutable"


class Asset(msgspec.Struct, frozen=True):
    body: bytes
    media: str


@router.get("/static/{version}/{name}", include_in_schema=False)
async def asset(_request: Request, version: str, name: str) -> Response:
    """Names are looked up and never joined to a path."""
    found = assets().get(name)
    if found is None:
        raise NotFound(f"there is no asset {name!r}", hint="Load the page again.")
    headers = {"Cache-Control": _FOR_EVER if version == assets_version() else "no-cache"}
    return Response(found.body, 200, headers, f"{found.media}; charset=utf-8")


@cache
def assets() -> dict[str, Asset]:
    files = [path for path in sorted(_HERE.rglob("*")) if path.suffix in _MEDIA]
    files += [_REPORTS / f"{name}.css" for name in REPORT_STYLES[:2]]
    return {path.name: Asset(path.read_bytes(), _MEDIA[path.suffix]) for path in files}


@cache
def assets_version() -> str:
    """Part of their address, so that modules which name each other stay together."""
    whole = hashlib.sha256()
    for name, one in sorted(assets().items()):
        whole.update(f"{name} {len(one.body)}\n".encode() + one.body)
    return whole.hexdigest()[:16]
