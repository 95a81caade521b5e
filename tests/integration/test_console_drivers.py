"""Who drives a run, as the console's lists say it."""

from __future__ import annotations

import os
from pathlib import Path

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
