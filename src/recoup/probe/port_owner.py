"""Who listens on a local port, as far as /proc tells: for words in a fault, never to do something to them."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

LISTENING: Final = "0A"
PROCESSES_MAX: Final = 20_000
PROC: Final = Path("/proc")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def who_listens(port: int, host: str) -> str | None:
    """In words, such as "process 4711 (nginx)"; None: nobody does, or this is not Linux."""
    sockets = set(_listening_sockets(port, host))
    if not sockets:
        return None
    for pid in _processes():
        if sockets & set(_sockets_of(pid)):
            return f"process {pid} ({_name(pid)})"
    return "a process that this user may not see"


def _listening_sockets(port: int, host: str) -> Iterator[str]:
    for table in ("net/tcp", "net/tcp6"):
        try:
            lines = (PROC / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for words in map(str.split, lines):
            address, _, of_port = words[1].rpartition(":")
            if words[3] == LISTENING and int(of_port, 16) == port and _in_the_way(address_in(address), host):
                yield f"socket:[{words[9]}]"


def address_in(written: str) -> Address:
    """As the kernel's table has it: words of four bytes, each in the machine's own order."""
    words = (bytes.fromhex(written[start : start + 8]) for start in range(0, len(written), 8))
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return ipaddress.ip_address(packed)


def _in_the_way(address: Address, host: str) -> bool:
    """A name could be any of them."""
    try:
        wanted = ipaddress.ip_address(host)
    except ValueError:
        return True
    return address == wanted or address.is_unspecified or wanted.is_unspecified


def _processes() -> list[int]:
    try:
        return [int(path.name) for path in PROC.iterdir() if path.name.isdigit()][:PROCESSES_MAX]
    except OSError:
        return []


def _sockets_of(pid: int) -> Iterator[str]:
    """None of one that has ended, or is somebody else's."""
    with suppress(OSError):
        for opened in (PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                yield str(opened.readlink())


def _name(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "it has just ended"
