"""The conformance suite of the gateway: on its stand-in, and on a real `recoup serve`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.integration.gateway_house import Gateway, gateway
from tests.keys import KEY

from recoup.testing.gateway import GatewayStandIn
from recoup.testing.gateway_suite import GatewaySuite
from recoup.testing.postgres import PostgresServer

_numbers = itertools.count(1)


@dataclass
class Served:
    """A real server for many tests: each has a probe of its own."""

    home: Path
    env: dict[str, str]
    stack: ExitStack = field(default_factory=ExitStack)
    probe: str = ""
    tokens: dict[str, str] = field(default_factory=dict)

    def start(self, port: int = 0) -> None:
        words = () if not port else ("--port", str(port))
        self.gateway: Gateway = self.stack.enter_context(gateway(self.home, *words, env=self.env))
        self.tokens = self.gateway.tokens or self.tokens

    @property
    def url(self) -> str:
        return self.gateway.url

    @property
    def token(self) -> str:
        return self.tokens["probe"]

    @property
    def people_token(self) -> str:
        return self.tokens["operator"]

    async def restart(self) -> None:
        port = int(self.url.rpartition(":")[2])
        await asyncio.to_thread(self.stack.close)
        await asyncio.to_thread(self.start, port)


class TestStandIn(GatewaySuite):
    @pytest.fixture
    async def gateway(self) -> AsyncIterator[GatewayStandIn]:
        async with GatewayStandIn() as gateway:
            yield gateway


def _fresh(served: Served) -> Served:
    served.probe = f"suite-{next(_numbers)}"
    return served


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served") / "home", {})
    with served.stack:
        served.start()
        yield served


@pytest.fixture(scope="module")
def on_postgres(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Served]:
    env = {"RECOUP_DATABASE": postgres.prepared_database(), "RECOUP_KEY": KEY}
    served = Served(tmp_path_factory.mktemp("served") / "home", env)
    with served.stack:
        served.start()
        yield served


class TestServed(GatewaySuite):
    @pytest.fixture
    def gateway(self, on_sqlite: Served) -> Served:
        return _fresh(on_sqlite)


@pytest.mark.soak
class TestServedOnPostgres(GatewaySuite):
    @pytest.fixture
    def gateway(self, on_postgres: Served) -> Served:
        return _fresh(on_postgres)
