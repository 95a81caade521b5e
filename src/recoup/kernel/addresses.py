"""What can be told of an address without asking anybody."""

from __future__ import annotations

from ipaddress import ip_address


def is_local(host: str) -> bool:
    """What is sent there does not leave this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
