"""One request to the gateway and its answer. The token goes to the address in the probe file and nowhere else."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

from recoup import __version__
from recoup.errors import UsageError
from recoup.kernel.probe_gateway import refuse_address
from recoup.model.probe_wire import BODY_BYTES_MAX, Problem
from recoup.outgoing.exchange import Asked, Heard, Unreachable, exchange, tls_for

__all__ = ["Answer", "GatewayClient", "Unreachable"]
ANSWER_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Answer(Heard):
    @property
    def problem(self) -> Problem:
        """What it says is wrong; an empty one where it does not say it in our words."""
        try:
            return msgspec.json.decode(self.body, type=Problem)
        except msgspec.DecodeError:
            return Problem()


class GatewayClient:
    """Asks one gateway. Raises UsageError at once when its address must not be sent a token."""

    def __init__(self, url: str, token: str) -> None:
        if why := refuse_address(url):
            raise UsageError(
                f"the gateway's address {url!r} cannot be used: {why}",
                hint="Write `gateway: https://HOST:PORT` in the probe file.",
            )
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise UsageError(
                "the gateway's token is empty, or holds what cannot be sent",
                hint="Set RECOUP_TOKEN to the token that the gateway accepts: printable ASCII, no spaces.",
            )
        self._url = urlsplit(url.rstrip("/"))
        self._token = token
        self.shown = f"{self._url.scheme}://{self._url.netloc}{self._url.path}"

    async def post(self, path: str, body: bytes) -> Answer:
        return await self._ask("POST", path, body, ANSWER_S)

    async def get(self, path: str, asked: Mapping[str, str], wait_s: float = 0) -> Answer:
        """With `wait_s`: the gateway may take so long before it answers."""
        return await self._ask("GET", f"{path}?{urlencode(asked)}", b"", wait_s + ANSWER_S)

    async def _ask(self, method: str, target: str, body: bytes, within_s: float) -> Answer:
        headers = [
            ("User-Agent", f"recoup-probe/{__version__}"),
            ("Authorization", f"Bearer {self._token}"),
            ("Accept", "application/json, application/problem+json"),
        ]
        if body:
            headers.append(("Content-Type", "application/json"))
        asked = Asked(method, self._url.path + target, headers, body, within_s, BODY_BYTES_MAX)
        heard = await exchange(self._url, asked, self.shown, self._tls)
        return Answer(heard.status, heard.body, heard.retry_after_s)

    @cached_property
    def _tls(self) -> ssl.SSLContext | None:
        return tls_for(self._url)
