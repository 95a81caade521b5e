"""Who drives a run, as the console's lists say it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.integration.near_gateway import near_gateway

from recoup.app import open_app
from recoup.operations.queues import driven_by
from recoup.settings import read_settings
from recoup.testing.worker_suite import worker


async def test_a_silent_worker_is_not_said_to_drive_what_it_drove_last(tmp_path: Path) -> None:
    environ = {**os.environ, "RECOUP_HOME": str(tmp_path / "home")}
    async with open_app(read_settings(environ, tmp_path), environ) as app:
        now = app.world.clock.now()
        await app.ledger.keep_worker(worker("alive", runs=("r1",), started_at=now), now)
        await app.ledger.keep_worker(worker("killed", runs=("r1", "r2"), started_at=now), now.plus_s(-60))
        assert await driven_by(app) == {"r1": "alive"}


async def test_the_fleet_page_names_the_workflow_of_each_run_that_a_worker_drives(tmp_path: Path) -> None:
    async with near_gateway(tmp_path) as near:
        plans = {name: f"{{version: 1, name: {name}, steps: [{{run: 'true'}}]}}" for name in ("bake", "brew")}
        answers = [(await near.post("/api/runs", {"plan": plan})).json() for plan in plans.values()]
        runs = tuple(answer["runId"] for answer in answers)
        now = near.app.world.clock.now()
        await near.app.ledger.keep_worker(worker("alive", runs=runs, started_at=now), now)
        page = (await near.get("/fleet")).text
    row = page.partition('id="workers"')[2].partition("</table>")[0]
    assert all(run in row and f"<bdi>{name}</bdi>" in row for run, name in zip(runs, plans, strict=True))
