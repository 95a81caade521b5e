"""Who may use this gateway, and whom it tells. Tokens are made where the gateway runs, never over the network."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.access import Role
from recoup.gateway.console import inbox
from recoup.gateway.console.menu import MenuEntry
from recoup.gateway.console.pages import Pages, page
from recoup.gateway.house import house_of

router = Pages(MenuEntry("/settings", "Settings"))
TOKENS_MAX: Final = 200
ROLES: Final = (
    (Role.VIEWER, "looks"),
    (Role.OPERATOR, "looks and changes; may submit plans, and a plan is code"),
    (Role.WORKER, "a machine that drives runs"),
    (Role.PROBE, "a machine that watches processes"),
)


@router.get("/settings")
async def settings(request: Request) -> Response:
    house = house_of(request)
    tokens = sorted(house.book.tokens(), key=lambda one: (one.revoked_at is not None, one.made_at))
    return page(
        *(request, "settings.html"),
        title="Settings",
        tokens=tokens[:TOKENS_MAX],
        left_out=max(0, len(tokens) - TOKENS_MAX),
        webhooks=await inbox.webhooks(house),
        roles=[(role.value, words) for role, words in ROLES],
    )
