"""A probe whose ledger is shared: the same on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from recoup.ledger.postgres.ledger import PostgresLedger
from recoup.model.probe import Phase
from recoup.probe.supervisor import read_probe
from recoup.testing.postgres import PostgresServer
from recoup.testing.probe import ProbeHouse, process


async def test_budgets_and_deadlines_survive_in_a_shared_database(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    ledger = await PostgresLedger.open(postgres.prepared_database())
    first = ProbeHouse(tmp_path, process("api"), scripted=True, ledger=ledger)
    async with first.running():
        await first.until(lambda: first.phase("api") == Phase.RUNNING)
        first.holders["api"].fail()
        await first.until(lambda: first.phase("api") == Phase.RECOVERING)
        await first.pass_time(20)
    second = ProbeHouse(tmp_path, process("api"), scripted=True, ledger=ledger, clock=first.clock)
    async with second.running():
        await second.pass_time(9)
        assert second.phase("api") == Phase.RECOVERING
        await second.pass_time(1)
        await second.until(lambda: second.phase("api") == Phase.RUNNING)
    state = await read_probe(ledger, "house")
    assert len(state.resources["api"].used["process_exited"]) == 1 and state.epoch == 2
    await ledger.close()
