"""Webhooks over HTTP: listed, added, removed, tried."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Body
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway import desk_shapes as shapes
from recoup.gateway.answering import document, page
from recoup.gateway.described import answers
from recoup.gateway.hooks import hook_document
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.routing import new_router, tells_a_secret
from recoup.model.answers.inbox import Delivered, Webhook, WebhookAdded, WebhookList

router = new_router("webhooks")


@router.get("/api/webhooks", responses=answers(WebhookList))
async def list_webhooks(request: Request) -> Response:
    """Who is told of events by this gateway, how far they are, and what is wrong."""
    return page(request, [hook_document(one) for one in house_of(request).hooks.book.all()], None)


@router.post("/api/webhooks", status_code=201, responses=answers(WebhookAdded, status=201))
async def add_webhook(request: Request, wanted: Annotated[shapes.WebhookRequest, Body()]) -> Response:
    """Tell somebody of events from now on. The secret is told here, once."""
    house, actor = house_of(request), principal_of(request).actor
    hook, secret = await house.hooks.add(
        wanted.url, tuple(dict.fromkeys(wanted.events)), wanted.name.strip(), actor, wanted.reason
    )
    tells_a_secret(request)
    return document(
        request, WebhookAdded(**msgspec.structs.asdict(hook_document(hook)), secret=secret), status=201
    )


@router.post("/api/webhooks/{webhook_id}/remove", responses=answers(Webhook))
async def remove_webhook(
    request: Request, webhook_id: str, wanted: Annotated[shapes.SaidRequest, Body()]
) -> Response:
    """It is told of nothing any more, and forgotten."""
    house = house_of(request)
    hook = await house.hooks.remove(webhook_id, principal_of(request).actor, wanted.reason.strip())
    return document(request, hook_document(hook))


@router.post("/api/webhooks/{webhook_id}/test", responses=answers(Delivered))
async def test_webhook(request: Request, webhook_id: str) -> Response:
    """Send something at once, and say what was answered."""
    told = await house_of(request).hooks.test(webhook_id, principal_of(request).actor)
    return document(request, {"ok": told.ok, "detail": told.detail})
