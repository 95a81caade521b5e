"""`recoup mcp`, served: to the program that started it, or on loopback to those who have a token of the gateway.

Over HTTP every request is by itself and carries its token, so nobody can go on in another's session. A page in a
browser cannot ask: the `Host` and the `Origin` of every request are looked at.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recoup.app import App
from recoup.errors import SettingsError, UsageError
from recoup.files.held import HeldDatabase
from recoup.mcp.desk import Desk
from recoup.mcp.gateway_desk import GatewayDesk
from recoup.mcp.ledger_desk import LedgerDesk
from recoup.mcp.outside import Asking, DeskOf, build
from recoup.mcp.token_desk import TokenDesk
from recoup.serving.brake import Brake
from recoup.serving.connections import Patience, bound_buffers, protocol, prove
from recoup.serving.mistakes import log_mistake
from recoup.serving.places import PlaceLimits, Places
from recoup.standing import asked_to_end, listening_at
from recoup.tokens import Principal, Role, given, hash_of, known

HOST: Final = "127.0.0.1"
PATH: Final = "/mcp"
BODY_BYTES_MAX: Final = 2_000_000
HEADER_BYTES_MAX: Final = 32_768
CONNECTIONS_MAX: Final = 100
PLACES: Final = PlaceLimits(connections_max=CONNECTIONS_MAX, unproven_max=40, unproven_of_sender_max=40)
IDLE_S: Final = 15
LAST_ANSWERS_S: Final = 5
_LOOKING: Final = frozenset({Role.VIEWER, Role.OPERATOR})
_PRINCIPAL: Final = "recoup.principal"


async def serve_stdio(app: App, actor: str, *, read_only: bool) -> None:
    desk = LedgerDesk(app, actor, Path.cwd())
    await build(_always(desk), _redacted_by(app), read_only=read_only).run_stdio_async()


async def serve_gateway(url: str, token: str, *, read_only: bool) -> None:
    """What may be done is the gateway's business, and so is what may be shown."""
    async with contextlib.aclosing(GatewayDesk(url, token)) as desk:
        await build(_always(desk), str, read_only=read_only).run_stdio_async()


async def serve_http(
    app: App,
    port: int,
    opened: Callable[[str], None],
    *,
    read_only: bool,
    plan_folders: Sequence[Path] = (),
) -> None:
    """On loopback, until a signal comes."""

    def desk_of(asking: Asking, *, changing: bool) -> Desk:
        principal = _principal(asking)
        if changing and principal.role is not Role.OPERATOR:
            raise UsageError(f"a {principal.role} may not do this", hint="It takes an operator's token.")
        return TokenDesk(app, principal.actor, plan_folders)

    listening = listening_at(HOST, port, CONNECTIONS_MAX, bound_buffers)
    with contextlib.closing(listening), _Tokens(app.settings.home, app.settings.token) as tokens:
        mcp = build(desk_of, _redacted_by(app), read_only=read_only)
        server = _Server(_config(_Guarded(_asgi(mcp), tokens.who, _redacted_by(app))))
        opened(f"http://{HOST}:{listening.getsockname()[1]}{PATH}")
        with asked_to_end(_end(server)):
            await server.serve([listening])


class _Tokens:
    """The gateway's, read only; and `RECOUP_TOKEN`, which is an operator's."""

    def __init__(self, home: Path, token: str | None) -> None:
        self._given = None if token is None else given(token)
        self._path = home / "gateway.db"
        if self._given is None and not self._path.is_file():
            raise SettingsError(
                f"there are no tokens in {home}",
                hint="Make one: recoup tokens make operator --name NAME (or viewer, who may only look)",
            )
        self._database: sqlite3.Connection | None = None
        self._held: HeldDatabase | None = None

    def __enter__(self) -> _Tokens:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self._database is not None:
            self._database.close()
        if self._held is not None:
            self._held.release()

    def who(self, token: str) -> Principal | None:
        hashed = hash_of(token)
        if self._given is not None and secrets.compare_digest(hashed, self._given[0]):
            return self._given[1]
        if self._database is None and self._path.is_file():
            self._open()
        return None if self._database is None else known(self._database, hashed)

    def _open(self) -> None:
        self._held = HeldDatabase(self._path)
        self._database = sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)
        self._database.execute("PRAGMA schema_version").fetchone()
        self._held.opened()


class _Guarded:
    """Before everything: nobody is let in without a token of those who may look."""

    def __init__(
        self, app: ASGIApp, who: Callable[[str], Principal | None], redact: Callable[[str], str]
    ) -> None:
        self._app = app
        self._redact = redact
        self._who = who
        self._brake = Brake(time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scheme, _, token = Request(scope).headers.get("Authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        principal = self._who(token)
        if principal is None:
            await self._unknown(scope, token)(scope, receive, send)
        elif principal.role not in _LOOKING:
            await _refusal(403, f"a {principal.role} may not do this")(scope, receive, send)
        else:
            prove(scope)
            await self._answered({**scope, _PRINCIPAL: principal}, receive, send)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception as error:  # noqa: BLE001 noted in the log under an id, and told without its words
            mistake_id = log_mistake(scope, error, self._redact)
            if not begun:
                refusal = _refusal(500, f"something went wrong here: the log says where, under {mistake_id}")
                await refusal(scope, receive, send)

    def _unknown(self, scope: Scope, token: str) -> Response:
        address = scope["client"][0] if scope.get("client") else ""
        wait_s = self._brake.wrong(address, token) if token else 0
        if wait_s:
            return _refusal(429, f"too many wrong tokens came from this address: wait for {wait_s} s", wait_s)
        return _refusal(401, "a token that is known is needed: Authorization: Bearer TOKEN")


class _Server(uvicorn.Server):
    """Signals are ours: uvicorn would raise them again before the ledger is closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _always(desk: Desk) -> DeskOf:
    """Whoever started us may what we may."""

    def desk_of(asking: Asking, *, changing: bool) -> Desk:  # noqa: ARG001
        return desk

    return desk_of


def _redacted_by(app: App) -> Callable[[str], str]:
    return lambda text: app.redactor.redact(text).text


def _principal(asking: Asking) -> Principal:
    request = asking.request_context.request
    assert isinstance(request, Request), "over HTTP there is a request"
    principal = request.scope[_PRINCIPAL]
    assert isinstance(principal, Principal), "only those with a token are let in"
    return principal


def _asgi(mcp: MCPServer[Any]) -> ASGIApp:
    names = (HOST, "localhost")
    return mcp.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=BODY_BYTES_MAX,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[f"{name}:*" for name in names],
            allowed_origins=[f"http://{name}:*" for name in names],
        ),
    )


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="none",
        http=protocol(Patience(), Places(PLACES)),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=LAST_ANSWERS_S,
    )


def _refusal(status: int, detail: str, wait_s: int = 0) -> Response:
    body = msgspec.json.encode({"error": detail})
    headers = {"WWW-Authenticate": 'Bearer realm="recoup"'} if status == 401 else {}
    headers |= {"Retry-After": str(wait_s), "Connection": "close"} if wait_s else {}
    return Response(body, status, headers, "application/json")


def _end(server: uvicorn.Server) -> Callable[[int], None]:
    """The first time lets answers end; the second does not wait for them."""

    def end(times: int) -> None:
        server.should_exit, server.force_exit = True, times > 1

    return end
