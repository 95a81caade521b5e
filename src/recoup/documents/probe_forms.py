"""What stands in several places of a probe file: commands, ports, addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from recoup.kernel.probe_gateway import refuse_address
from recoup.shapes.shape import Text

Port = Annotated[int, Field(ge=1, le=65_535)]


def _web(schemes: Sequence[str]) -> AfterValidator:
    def check(url: str) -> str:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in schemes and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError(f"must be an address such as {schemes[0]}://127.0.0.1:8000/")
        return url

    return AfterValidator(check)


def _gateway(url: str) -> str:
    if why := refuse_address(url):
        raise ValueError(f"cannot be a gateway's address: {why}")
    return url


HttpUrl = Annotated[Text, _web(("http", "https"))]
GatewayUrl = Annotated[Text, AfterValidator(_gateway)]
WebsocketUrl = Annotated[Text, _web(("ws", "wss"))]


def _host_and_port(text: str) -> str:
    found = re.fullmatch(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]@]+):([0-9]{1,5})", text)
    if found is None or not 1 <= int(found[1]) <= 65_535:
        raise ValueError("must be a host and a port, such as 127.0.0.1:5432")
    return text


HostAndPort = Annotated[Text, AfterValidator(_host_and_port)]


def host_and_port(written: str) -> tuple[str, int]:
    host, _, port = written.rpartition(":")
    return host.strip("[]"), int(port)
