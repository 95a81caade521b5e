"""What happens to the gateway itself, as events: who may use it, and whom it tells. Never a token or a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recoup.model.events import TokenPayload, WebhookPayload
from recoup.model.ids import GATEWAY_STREAM
from recoup.model.storage import Append, Draft, StreamAppend

if TYPE_CHECKING:
    from recoup.app import App


async def record_gateway_facts(app: App, *facts: TokenPayload | WebhookPayload) -> None:
    drafts = tuple(Draft(fact.TYPE, app.redactor.seal(fact)) for fact in facts)
    if drafts:
        streams = (StreamAppend(GATEWAY_STREAM, drafts),)
        await app.ledger.append(Append(at=app.world.clock.now(), streams=streams))
        await app.chores.run()
