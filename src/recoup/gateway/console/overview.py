"""The first page: what runs, what is stuck and why, what healed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.console.pages import new_pages, page
from recoup.gateway.house import house_of

router = new_pages()
_LISTED_MAX = 20


@router.get("/")
async def overview(request: Request) -> Response:
    app = house_of(request).app
    rows = (await app.ledger.runs(limit=_LISTED_MAX)).rows
    return page(request, "overview.html", title="Overview", rows=rows)
