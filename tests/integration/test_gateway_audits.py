"""The check of the audit beside everything else that a gateway does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.integration.stream_house import write
from tests.integration.test_gateway_approvals import housed

from recoup.audit.exporting import export
from recoup.errors import StateError
from recoup.testing.ledger_suite import START


async def test_a_walk_through_the_audit_is_made_once_for_all_and_holds_up_nobody(tmp_path: Path) -> None:
    async with housed(tmp_path) as (house, app):
        await write(app.ledger, "r", 20_000)
        await export(app.ledger, app.settings.home / "audit", START)
        turns = 0
        walks = [asyncio.create_task(house.audits.verified()) for _ in range(3)]
        while not all(walk.done() for walk in walks):
            await asyncio.sleep(0)
            turns += 1
        first, *others = [walk.result() for walk in walks]
        assert first.intact and first.events == 20_000
        assert all(other is first for other in others)
        assert turns > 100, "others had their turns meanwhile"
        assert await house.audits.verified() is not first, "whoever asks later is told what is true then"


async def test_a_walk_ends_when_the_gateway_stops(tmp_path: Path) -> None:
    async with housed(tmp_path) as (house, app):
        await write(app.ledger, "r", 10)
        await export(app.ledger, app.settings.home / "audit", START)
        house.stopping = lambda: True
        with pytest.raises(StateError, match="stopping"):
            await house.audits.verified()
