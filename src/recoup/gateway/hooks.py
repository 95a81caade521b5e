"""Webhooks: events of the ledger are told to others, at least once, in order for each of them.

Each has a courier of its own that follows the ledger by its own cursor: one that is slow or away delays nobody else,
and no run waits for any. The number of an event is the id of its delivery, so that whoever gets it twice can drop it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from recoup import __version__
from recoup.app import App
from recoup.errors import RecoupError, UsageError
from recoup.evidence.vault import Vault, vault_key
from recoup.gateway.hook_book import HookBook, Webhook, new_hook_id
from recoup.kernel.webhooks import (
    delivery_signature,
    is_hopeless,
    matches,
    refuse_hook,
    refuse_kinds,
    retry_s,
    shown_hook,
    signature,
)
from recoup.model.answers import inbox as answers
from recoup.model.events import (
    ProbeReported,
    WebhookAdded,
    WebhookPayload,
    WebhookRemoved,
    WebhookSwitchedOff,
    decode_payload,
    event_line,
    why_unreadable,
)
from recoup.model.ids import GATEWAY_STREAM
from recoup.model.storage import Arrival
from recoup.operations.events import arrivals, last_arrival
from recoup.operations.gateway_facts import record_gateway_facts
from recoup.outgoing.exchange import Asked, Unreachable, exchange, tls_for
from recoup.outgoing.places import is_inside
from recoup.settings import require_strong_key

LOOK_S: Final = 0.5
"""How soon new events and new webhooks are seen."""
PAGE: Final = 100
ANSWER_S: Final = 15.0
INSIDE_ANSWER_S: Final = ANSWER_S
"""After that everything is told that fails on this machine or in our own network, however soon it did."""
BODY_BYTES_MAX: Final = 256_000
"""Of one delivery: of a longer event the payload is left out; `GET /api/events` has it."""
_AGAIN_S: Final = 5.0
"""After trouble of our own."""
_log = logging.getLogger("recoup.gateway")


class Delivered(msgspec.Struct, frozen=True):
    ok: bool
    detail: str


class Hooks:
    """All webhooks of one gateway."""

    def __init__(self, app: App) -> None:
        self._app = app
        settings = app.settings
        vault = Vault(settings.home / "webhooks", vault_key(settings.home, settings.key))
        self.book = HookBook(settings.home / "gateway.db", vault)
        self._couriers: dict[str, asyncio.Task[None]] = {}

    def close(self) -> None:
        self.book.close()

    async def add(
        self, url: str, kinds: tuple[str, ...], name: str, by: str, reason: str | None
    ) -> tuple[Webhook, str]:
        """With its secret, once. It is told of what comes from now on."""
        if why := refuse_hook(url) or refuse_kinds(kinds):
            raise UsageError(
                f"{shown_hook(url) if not refuse_hook(url) else 'the address'} cannot be told: {why}",
                hint="Example: recoup webhooks add https://HOST/PATH --events 'Escalated,task.run.*' --name ops",
            )
        require_strong_key(self._app.settings.key)
        self.book.must_take(name)
        now, cursor = self._app.world.clock.now(), await last_arrival(self._app)
        hook = Webhook(id=new_hook_id(), name=name, url=url, kinds=kinds, made_at=now.iso(), cursor=cursor)
        await self._tell(WebhookAdded(**_about(hook), by=by, reason=reason, kinds=kinds))
        return hook, self.book.add(hook)

    async def remove(self, hook_id: str, by: str, reason: str | None) -> Webhook:
        hook = self.book.find(hook_id)
        self.book.remove(hook_id)
        await self._tell(WebhookRemoved(**_about(hook), by=by, reason=reason))
        return hook

    async def test(self, hook_id: str, by: str) -> Delivered:
        """Something is sent at once; nothing is tried again."""
        hook = self.book.find(hook_id)
        now = self._app.world.clock.now()
        told = {"stream": GATEWAY_STREAM, "runId": None, "seq": 0, "at": now.iso(), "type": "webhook.test"}
        return await self._sent(hook, "test", msgspec.json.encode({**told, "payload": {"by": by}}))

    async def work(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    self._see_to_couriers(tasks)
                    await asyncio.sleep(LOOK_S)
        finally:
            self._couriers.clear()

    def _see_to_couriers(self, tasks: asyncio.TaskGroup) -> None:
        try:
            wanted = {hook.id for hook in self.book.all() if hook.off_at is None}
        except RecoupError:
            return  # those that are there go on; we look again
        for hook_id in self._couriers.keys() - wanted:
            self._couriers.pop(hook_id).cancel()
        for hook_id in wanted - self._couriers.keys():
            self._couriers[hook_id] = tasks.create_task(self._carry(hook_id))

    async def _carry(self, hook_id: str) -> None:
        """One courier, until it has nobody to go to. Trouble of our own is waited for; a mistake of ours is noted at
        its webhook, and ends neither the other couriers nor the gateway."""
        tls: ssl.SSLContext | None = None
        while True:
            try:
                hook = self.book.find(hook_id)
                tls = tls or tls_for(urlsplit(hook.url))
                busy = hook.off_at is None and await self._some(hook, tls)
            except RecoupError:
                await asyncio.sleep(_AGAIN_S)
                continue
            except Exception as error:  # noqa: BLE001 noted where people look for it
                self._mistaken(hook_id, error)
                await asyncio.sleep(_AGAIN_S)
                continue
            if not busy:
                await asyncio.sleep(LOOK_S)

    def _mistaken(self, hook_id: str, error: Exception) -> None:
        """By its type alone: its words may quote what was to be sent."""
        kind = type(error).__name__
        _log.error("the courier of %s met %s", hook_id, kind)
        now_s = self._now_s()
        with contextlib.suppress(RecoupError):
            self.book.troubled(self.book.find(hook_id), now_s, now_s + _AGAIN_S, f"a mistake of ours: {kind}")

    async def _some(self, hook: Webhook, tls: ssl.SSLContext | None) -> bool:
        """Whether there is more."""
        if self._now_s() < hook.next_s:
            return False
        came = await arrivals(self._app, hook.cursor, PAGE)
        passed = hook.cursor
        for one in came:
            if matches(hook.kinds, _types(one)):
                if not await self._delivered(hook, one, tls):
                    self.book.pass_by(hook.id, passed)
                    return False
                self.book.move(hook.id, one.number)
            passed = one.number
        if came:
            self.book.move(hook.id, came[-1].number)
        return len(came) == PAGE

    async def _delivered(self, hook: Webhook, one: Arrival, tls: ssl.SSLContext | None) -> bool:
        told = await self._sent(hook, str(one.number), _body(one), tls)
        if told.ok:
            return True
        now_s, current = self._now_s(), self.book.find(hook.id)
        self.book.troubled(hook, now_s, now_s + retry_s(current.failed + 1), told.detail)
        if current.first_failed_s is not None and is_hopeless(current.first_failed_s, now_s):
            self.book.switch_off(hook.id, self._app.world.clock.now().iso())
            why = f"it could not be told for a day: {told.detail}"
            await self._tell(WebhookSwitchedOff(**_about(hook), by="recoup serve", reason=why))
        return False

    async def _sent(
        self, hook: Webhook, delivery: str, body: bytes, tls: ssl.SSLContext | None = None
    ) -> Delivered:
        shown, at = shown_hook(hook.url), int(self._now_s())
        try:
            url, secret = urlsplit(self.book.address(hook)), self.book.secret(hook)
        except RecoupError as error:
            return Delivered(False, f"its secret or its address cannot be read: {error.message}")
        headers = [
            ("User-Agent", f"recoup/{__version__}"),
            ("Content-Type", "application/json"),
            ("Recoup-Delivery", delivery),
            ("Recoup-Signature", signature(secret, at, body)),
            ("Recoup-Delivery-Signature", delivery_signature(secret, at, delivery, body)),
        ]
        begun_s = asyncio.get_running_loop().time()
        told = await self._answer(url, Asked("POST", _target(url), headers, body, ANSWER_S), shown, tls)
        is_opaque = not told.ok and await is_inside(url)
        return await self._untold(hook, told, shown, begun_s) if is_opaque else told

    async def _answer(
        self, url: SplitResult, asked: Asked, shown: str, tls: ssl.SSLContext | None
    ) -> Delivered:
        try:
            heard = await exchange(url, asked, shown, tls or tls_for(url))
        except Unreachable as error:
            return Delivered(False, self._app.redactor.redact(str(error)).text[:500])
        return Delivered(200 <= heard.status < 300, f"{shown} answered {heard.status}")

    async def _untold(self, hook: Webhook, told: Delivered, shown: str, begun_s: float) -> Delivered:
        """Inside our network nobody learns, by words or by time, whether a port is open, closed or silent."""
        _log.warning("webhook %s: %s", hook.id, told.detail)
        await asyncio.sleep(INSIDE_ANSWER_S - (asyncio.get_running_loop().time() - begun_s))
        return Delivered(False, f"{shown} did not take it: the gateway's log says why")

    def _now_s(self) -> float:
        return self._app.world.clock.now().wall_us / 1e6

    async def _tell(self, fact: WebhookPayload) -> None:
        await record_gateway_facts(self._app, fact)


def hook_document(hook: Webhook) -> answers.Webhook:
    """Without the path and the query of its address, and without its secret."""
    return answers.Webhook(
        id=hook.id,
        name=hook.name,
        url=shown_hook(hook.url),
        events=list(hook.kinds),
        made_at=hook.made_at,
        cursor=hook.cursor,
        failed=hook.failed,
        trouble=hook.trouble,
        state="on" if hook.off_at is None else "off",
        off_at=hook.off_at,
    )


def _about(hook: Webhook) -> dict[str, Any]:
    return {"webhook_id": hook.id, "name": hook.name, "url": shown_hook(hook.url)}


def _types(one: Arrival) -> tuple[str, ...]:
    """What a probe elsewhere reports is told under its own name, too."""
    if one.type != ProbeReported.TYPE:
        return (one.type,)
    try:
        told = decode_payload(one.type, one.payload.data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return (one.type,)
    assert isinstance(told, ProbeReported)
    return one.type, str(told.event.get("type", ""))


def _body(one: Arrival) -> bytes:
    raw = one.payload.data
    line = event_line(one.stream, one.seq, one.at, one.type, raw, why_unreadable(raw))
    body = msgspec.json.encode(line)
    return body if len(body) <= BODY_BYTES_MAX else msgspec.json.encode({**line, "payload": None})


def _target(url: SplitResult) -> str:
    return (url.path or "/") + (f"?{url.query}" if url.query else "")
