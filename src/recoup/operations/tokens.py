"""Who may use the gateway, as events: the ledger says who made, revoked and used which token, never the token."""

from __future__ import annotations

from collections.abc import Sequence

from recoup.model.events import TokenPayload
from recoup.model.ids import GATEWAY_STREAM
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.ports import Clock, Ledger, Redactor


async def tell_of_tokens(
    ledger: Ledger, redactor: Redactor, clock: Clock, facts: Sequence[TokenPayload]
) -> None:
    drafts = tuple(Draft(fact.TYPE, redactor.seal(fact)) for fact in facts)
    if drafts:
        await ledger.append(Append(at=clock.now(), streams=(StreamAppend(GATEWAY_STREAM, drafts),)))
