"""The notifier `chat`: posts a line of text to the address of a chat."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from json import dumps, loads
from typing import Any
from urllib.request import Request, urlopen

from recoup.notifiers.custom import CustomNotifier, NotDelivered, Notification, NotifierSite

ANSWER_S = 30.0


class ChatNotifier(CustomNotifier):
    """Delivered when the chat has answered with a status below 300."""

    key = "chat"
    keys = "recoup_http.keys:ChatShape"

    async def tell(self, notification: Notification, settings: Mapping[str, Any], site: NotifierSite) -> None:
        del site
        event = loads(notification.body.data)
        text = f"{settings['prefix']}{notification.about}: {event['reason']} ({notification.id})"
        # In a thread: whatever blocks here would stop the probe.
        await asyncio.to_thread(_post, settings["url"], {"text": text})


def _post(url: str, message: dict[str, str]) -> None:
    request = Request(url, dumps(message).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=ANSWER_S):
            return
    except OSError as error:
        raise NotDelivered(f"the chat cannot be reached: {error}") from None


NOTIFIER = ChatNotifier()
