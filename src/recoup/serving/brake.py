"""Wrong tokens, counted by address. A right one is never refused, whatever others try who share its address."""

from __future__ import annotations

import hashlib
import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

WRONG_TOKENS_MAX: Final = 10
WRONG_TOKENS_WINDOW_S: Final = 60.0
ADDRESSES_MAX: Final = 10_000


class Brake:
    """Slows down who tries tokens: after so many different wrong ones of one address in a minute, each further one is
    told to wait and costs a connection. The same one again is no try: a machine whose token was revoked must not use
    up the tries of all who share its address."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._wrong: OrderedDict[str, dict[bytes, float]] = OrderedDict()
        """By address: when each wrong token, known by its hash, came first."""

    def wait_s(self, address: str) -> int:
        """How long no other wrong token of this address is looked at; 0: it is."""
        wrong, now_s = self._wrong.get(sender_of(address), {}), self._now_s()
        for mark in [mark for mark, at_s in wrong.items() if now_s - at_s >= WRONG_TOKENS_WINDOW_S]:
            del wrong[mark]
        if len(wrong) < WRONG_TOKENS_MAX:
            return 0
        return max(1, round(WRONG_TOKENS_WINDOW_S - (now_s - next(iter(wrong.values())))))

    def wrong(self, address: str, token: str) -> int:
        """Counts this one, unless the address must wait: then how long."""
        if wait_s := self.wait_s(address):
            return wait_s
        sender = sender_of(address)
        marks = self._wrong.setdefault(sender, {})
        marks.setdefault(hashlib.sha256(token.encode()).digest(), self._now_s())
        self._wrong.move_to_end(sender)
        while len(self._wrong) > ADDRESSES_MAX:
            self._wrong.popitem(last=False)
        return 0


def sender_of(address: str) -> str:
    """A client with one IPv6 address has 2^64 of them."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    return (
        found.ipv4_mapped.compressed if found.ipv4_mapped else str(ipaddress.ip_network((found, 64), False))
    )
