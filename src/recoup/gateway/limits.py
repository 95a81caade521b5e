"""What nobody may exceed: the size of a body, wrong tokens in a minute, streams at once. And every answer's headers."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recoup.gateway.problems import Refused, problem
from recoup.model.probe_wire import BODY_BYTES_MAX as PROBE_BODY_BYTES_MAX

BODY_BYTES_MAX: Final = 2_000_000
WRONG_TOKENS_MAX: Final = 10
WRONG_TOKENS_WINDOW_S: Final = 60.0
ADDRESSES_MAX: Final = 10_000
STREAMS_MAX: Final = 100
SEND_S_MAX: Final = 10.0
"""Longer than that nobody waits for a client that does not read."""
HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NOT_KEPT: Final = (b"cache-control", b"no-cache, private")


class BodyTooLarge(Exception):
    """More came than was announced, or than may come."""


class Bounded:
    """Around everything: bodies have a limit, and answers their headers. A page may bring its own policy."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False
        taken = 0
        bytes_max = _bytes_max(scope["path"])

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > bytes_max:
                raise BodyTooLarge
            return message

        async def dressed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": _with_headers(list(message.get("headers", ())))}
            await send(message)

        try:
            if _announced(scope) > bytes_max:
                raise BodyTooLarge
            await self._app(scope, counted, dressed)
        except BodyTooLarge:
            if not begun:
                await _too_large(scope["path"], bytes_max)(scope, receive, dressed)


class Brake:
    """Slows down who tries tokens: so many different wrong ones of one address in a minute, then none is looked at. The
    same one again is no try: a machine whose token was revoked must not keep out all who share its address."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._wrong: OrderedDict[str, dict[bytes, float]] = OrderedDict()
        """By address: when each wrong token, known by its hash, came first."""

    def must_be_open(self, address: str) -> None:
        wrong, now_s = self._wrong.get(address, {}), self._now_s()
        for mark in [mark for mark, at_s in wrong.items() if now_s - at_s >= WRONG_TOKENS_WINDOW_S]:
            del wrong[mark]
        if len(wrong) >= WRONG_TOKENS_MAX:
            wait_s = max(1, round(WRONG_TOKENS_WINDOW_S - (now_s - next(iter(wrong.values())))))
            raise Refused(
                *(429, f"{WRONG_TOKENS_MAX} different wrong tokens came from this address within a minute"),
                hint=f"Wait for {wait_s} s, then use the right one.",
                headers={"Retry-After": str(wait_s)},
            )

    def wrong(self, address: str, token: str) -> None:
        told = self._wrong.setdefault(address, {})
        told.setdefault(hashlib.sha256(token.encode()).digest(), self._now_s())
        self._wrong.move_to_end(address)
        while len(self._wrong) > ADDRESSES_MAX:
            self._wrong.popitem(last=False)


def _announced(scope: Scope) -> int:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


def _with_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    there = {name.lower() for name, _ in headers}
    return headers + [pair for pair in (*HEADERS, _NOT_KEPT) if pair[0] not in there]


def _bytes_max(path: str) -> int:
    """Between probes and gateways it is part of the agreement."""
    return PROBE_BODY_BYTES_MAX if path.startswith("/api/probe/") else BODY_BYTES_MAX


def _too_large(where: str, bytes_max: int) -> ASGIApp:
    return problem(
        *(413, f"the body is larger than {bytes_max} bytes"),
        hint="Put large things into files that the plan names.",
        where=where,
        headers={"Connection": "close"},
    )
