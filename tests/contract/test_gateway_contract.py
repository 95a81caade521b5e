"""The conformance suite of the gateway, on its stand-in."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from recoup.testing.gateway import GatewayStandIn
from recoup.testing.gateway_suite import GatewaySuite


class TestStandIn(GatewaySuite):
    @pytest.fixture
    async def gateway(self) -> AsyncIterator[GatewayStandIn]:
        async with GatewayStandIn() as gateway:
            yield gateway
