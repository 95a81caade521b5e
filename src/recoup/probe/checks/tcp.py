"""Does something accept connections there?"""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from recoup.kernel.probe_health import Sign
from recoup.model.probe import TcpCheck


class TcpChecker:
    def __init__(self, check: TcpCheck) -> None:
        self._check = check

    def begin(self) -> None:
        """A connection remembers nothing."""

    async def look(self) -> Sign:
        check = self._check
        try:
            await _connect(check.host, check.port)
        except OSError as error:
            reason = f"{check.host}:{check.port} does not accept connections: {error.strerror or error}"
            return Sign(good=False, reason=reason, error_code=code_of(error))
        return Sign(good=True)


def code_of(error: OSError) -> str:
    """The operating system's name for it, as far as it has one."""
    import errno

    return errno.errorcode.get(error.errno or 0, type(error).__name__)


async def _connect(host: str, port: int) -> None:
    """An address needs no resolver, and a bare socket costs a third of a stream."""
    if not _is_address(host):
        _, writer = await asyncio.open_connection(host, port)
        writer.transport.abort()
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
        await asyncio.get_running_loop().sock_connect(connection, (host, port))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
