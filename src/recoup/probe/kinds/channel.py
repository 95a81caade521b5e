"""A connection that the probe itself holds open: its end is noticed at once, its silence when it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from recoup.kernel.probe_health import Sign
from recoup.model.probe import Action, ChannelKind, Check, Fault
from recoup.probe.kinds.links import link_of
from recoup.probe.kinds.links.link import trouble_in
from recoup.probe.ports import Done, Site

FAULT_CLASSES: Final = {
    "tcp": "tcp_disconnected",
    "unix": "unix_disconnected",
    "http": "http_disconnected",
    "websocket": "websocket_disconnected",
    "dialog": "dialog_target_disconnected",
}
LOOK_MARGIN_S: Final = 1.0


class ChannelHolder:
    """One link, opened anew when told."""

    def __init__(self, site: Site, kind: ChannelKind) -> None:
        self._site = site
        self._kind = kind
        self._fault_class = FAULT_CLASSES[kind.transport]
        self._link = link_of(kind, site, self._lost)

    @property
    def own_check(self) -> Check | None:
        """Once is enough: what does not answer on this connection will not do so on it later."""
        timeout_s = self._kind.connect_timeout_s + LOOK_MARGIN_S
        return Check(every_s=self._kind.every_s, timeout_s=timeout_s, failures=1)

    @property
    def settle_s(self) -> float:
        return 0

    async def look(self) -> Sign:
        trouble = await self._limited(self._link.look)
        if trouble is None:
            return Sign(good=True)
        reason, code = trouble
        return Sign(good=False, reason=reason, error_code=code, fault_class=self._fault_class)

    async def start(self) -> Done:
        trouble = await self._limited(self._link.open)
        if trouble is None:
            return Done()
        await self._link.close()
        reason, code = trouble
        return Done(ok=False, reason=reason, error_code=code, fault_class=self._fault_class)

    async def stop(self) -> Done:
        await self._link.close()
        return Done()

    async def act(self, action: Action) -> Done:
        assert action in ChannelKind.ACTIONS, f"a channel cannot {action}"
        await self.stop()
        return await self.start()

    async def downgrade(self, mode: str) -> Done:
        raise AssertionError(f"this channel knows no lesser way: {mode}")

    def _lost(self, reason: str, code: str) -> None:
        words = f"{self._link.shown}: {reason}"
        self._site.fault(Fault(fault_class=self._fault_class, reason=words, error_code=code))

    async def _limited(self, doing: Callable[[], Awaitable[None]]) -> tuple[str, str] | None:
        """None: it went well. Otherwise words about it, and a code."""
        limit_s = self._kind.connect_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await doing()
        except TimeoutError:
            return f"{self._link.shown}: no answer within {limit_s:g} s", "timeout"
        except OSError as error:
            words, code = trouble_in(error)
            return f"{self._link.shown}: {words}", code
        return None
