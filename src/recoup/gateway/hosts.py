"""By which name a gateway may be asked. A page of another site can let its own name lead here (DNS rebinding): the
browser then takes us for that site, and sends that site's name. So only names that are ours are answered."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from recoup.gateway.problems import problem

_LOCAL: Final = "localhost"


class OwnHosts:
    """Around every route: 421 for a name that is not ours."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower().strip("[]") for name in names if name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_ours(_host(scope), (scope.get("server") or ("", 0))[0]):
            await _misdirected(scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_ours(self, host: str, reached: str) -> bool:
        """An address is ours if it is the one that was reached; names are those that were told."""
        if host in self._names:
            return True
        return is_loopback(host) or (bool(host) and _address(host) == _address(reached))


def is_loopback(host: str) -> bool:
    if host == _LOCAL:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(scope: Scope) -> str:
    """Without its port. Empty: none was told, or it is none."""
    said = [value for name, value in scope["headers"] if name == b"host"]
    text = said[0].decode("latin-1").strip().lower() if len(said) == 1 else ""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")


def _address(text: str) -> str | None:
    """In one spelling, where it is one."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return text or None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).compressed


def _misdirected(where: str) -> ASGIApp:
    return problem(
        *(421, "this gateway does not go by the name that it was asked by"),
        hint="Use its address; or start it with --allow-host NAME.",
        where=where,
    )
