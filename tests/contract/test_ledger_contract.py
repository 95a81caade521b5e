"""The conformance suite of the ledger on every backend."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recoup.ledger.sqlite import SqliteLedger
from recoup.testing import ledger_suite
from recoup.testing.ledger_suite import LedgerSuite, Opener, Passing
from recoup.testing.list_suite import ListSuite
from recoup.testing.prune_suite import PruneSuite
from recoup.testing.worker_suite import WorkerSuite

if TYPE_CHECKING:
    from recoup.ledger.postgres.ledger import PostgresLedger
    from recoup.testing.postgres import PostgresServer


class TestSqlite(LedgerSuite, WorkerSuite, PruneSuite, ListSuite):
    @pytest.fixture
    async def open_ledger(self, tmp_path: Path) -> AsyncIterator[Opener]:
        opened: list[SqliteLedger] = []

        async def opener() -> SqliteLedger:
            opened.append(SqliteLedger(tmp_path / "home" / "ledger.db"))
            return opened[-1]

        yield opener
        for ledger in opened:
            await ledger.close()

    @pytest.fixture
    def pass_time(self) -> Passing:
        async def nothing(_seconds: float) -> None:
            """The caller's clock is the only one."""

        return nothing


class TestPostgres(LedgerSuite, WorkerSuite, PruneSuite, ListSuite):
    @pytest.fixture
    def url(self, postgres: PostgresServer) -> str:
        return postgres.emptied_database()

    @pytest.fixture
    async def open_ledger(self, url: str) -> AsyncIterator[Opener]:
        from recoup.ledger.postgres.ledger import PostgresLedger

        opened: list[PostgresLedger] = []

        async def opener() -> PostgresLedger:
            opened.append(await PostgresLedger.open(url))
            return opened[-1]

        yield opener
        for ledger in opened:
            await ledger.close()

    @pytest.fixture
    def pass_time(self, url: str) -> Passing:
        from recoup.testing.postgres import MovedClock

        return MovedClock(url).pass_time


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(chance=st.randoms(use_true_random=False), length=st.integers(0, 25), writers=st.integers(1, 2))
def test_cached_rows_of_any_history_equal_a_rebuild(chance: random.Random, length: int, writers: int) -> None:
    asyncio.run(_play(chance, length, writers))


async def _play(chance: random.Random, length: int, writers: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledgers = [SqliteLedger(Path(folder) / "ledger.db") for _ in range(writers)]
        for append in ledger_suite.random_history(chance, length):
            await chance.choice(ledgers).append(append)
        await ledger_suite.assert_cached_rows_equal_a_rebuild(ledgers[0])
        for ledger in ledgers:
            await ledger.close()
