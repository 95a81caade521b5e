"""Whether an address is on this machine or in our own network."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from urllib.parse import SplitResult


async def is_inside(url: SplitResult) -> bool:
    """By what its name means now; a name that means nothing is outside."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.hostname, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return any(not _is_public(str(place[4][0])) for place in found)


def _is_public(address: str) -> bool:
    place = ipaddress.ip_address(address.partition("%")[0])
    mapped = place.ipv4_mapped if isinstance(place, ipaddress.IPv6Address) else None
    return (mapped or place).is_global
