"""What nobody may exceed: the size of a body, streams at once. And every answer's headers."""

from __future__ import annotations

from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recoup.gateway.problems import bug, noted, problem
from recoup.model.probe_wire import BODY_BYTES_MAX as PROBE_BODY_BYTES_MAX

BODY_BYTES_MAX: Final = 2_000_000
HEADER_BYTES_MAX: Final = 32_768
"""Of a whole head, its target included."""
HEADERS_MAX: Final = 100
STREAMS_MAX: Final = 1_200
STREAMS_OF_TOKEN_SHARE: Final = 5 / 6
"""Of one token, so that nobody who may look takes the last stream from all others."""
REPORTS_MAX: Final = 2
"""Made at once: each takes all of a large run through memory."""
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

        if (refusal := _refused(scope)) is not None:
            await refusal(scope, receive, dressed)
            return
        try:
            if _announced(scope) > bytes_max:
                raise BodyTooLarge
            await self._app(scope, counted, dressed)
        except BodyTooLarge:
            if not begun:
                await _too_large(scope["path"], bytes_max)(scope, receive, dressed)
        except ClientDisconnect:
            pass  # nobody is there to be told
        except Exception as error:  # noqa: BLE001 noted in the log under an id, and told without its words
            if begun:
                noted(scope, error)
            else:
                await bug(scope, error)(scope, receive, dressed)


def _announced(scope: Scope) -> int:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


def _refused(scope: Scope) -> ASGIApp | None:
    """What is answered at once, and ends the connection."""
    names = [name for name, _ in scope["headers"]]
    if b"content-length" in names and b"transfer-encoding" in names:
        # Whatever stands before us may go by the other one, and take its end for another than we do.
        return problem(
            400, "a body has a length or comes in chunks, and not both", headers={"Connection": "close"}
        )
    return _too_many_headers() if _is_too_much(scope) else None


def _is_too_much(scope: Scope) -> bool:
    """h11 counts only while it waits for more: a head that comes at once is never too long for it."""
    headers = scope["headers"]
    target = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    held = target + sum(len(name) + len(value) for name, value in headers)
    return len(headers) > HEADERS_MAX or held > HEADER_BYTES_MAX


def _with_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    there = {name.lower() for name, _ in headers}
    return headers + [pair for pair in (*HEADERS, _NOT_KEPT) if pair[0] not in there]


def _bytes_max(path: str) -> int:
    """Between probes and gateways it is part of the agreement."""
    return PROBE_BODY_BYTES_MAX if path.startswith("/api/probe/") else BODY_BYTES_MAX


def _too_many_headers() -> ASGIApp:
    return problem(
        *(431, f"the head is larger than {HEADER_BYTES_MAX} bytes or {HEADERS_MAX} headers"),
        headers={"Connection": "close"},
    )


def _too_large(where: str, bytes_max: int) -> ASGIApp:
    return problem(
        *(413, f"the body is larger than {bytes_max} bytes"),
        hint="Put large things into files that the plan names.",
        where=where,
        headers={"Connection": "close"},
    )
