"""Pictures by their handle, for the pages of heals."""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from recoup.errors import NotFound
from recoup.gateway.described import refusals
from recoup.gateway.house import house_of
from recoup.gateway.routing import new_router

router = new_router("evidence")
_HANDLE: Final = re.compile(r"sha256:[0-9a-f]{64}")
_SIGNS: Final = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


@router.get(
    "/api/evidence/{handle}",
    responses={200: {"description": "A picture.", "content": {"image/*": {}}}, **refusals()},
)
async def evidence(request: Request, handle: str) -> Response:
    """A picture. What is none is not shown here: it could be taken for a page."""
    if not _HANDLE.fullmatch(handle):
        raise NotFound(f"{handle!r} is no handle of evidence")
    content = await house_of(request).app.evidence.get(handle)
    media = next((media for sign, media in _SIGNS.items() if content.startswith(sign)), "")
    if not media:
        raise NotFound(f"{handle} is no picture", hint="recoup show RUN --evidence HANDLE")
    return Response(content, 200, {"Cache-Control": "private, max-age=86400"}, media)
