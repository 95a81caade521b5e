"""A small storm of real workers on a real PostgreSQL; the large one is in `make soak`."""

from __future__ import annotations

from pathlib import Path

from tests.soak.chaos import Chaos, told


def test_killed_and_frozen_workers_lose_and_repeat_nothing(tmp_path: Path) -> None:
    from recoup.testing.postgres import postgres_server, programs

    with postgres_server(own=True) as server:
        chaos = Chaos(
            server,
            tmp_path,
            programs() / "psql",
            runs=24,
            workers=3,
            restart_s=5.0,
            kill_s=(0.5, 1.5),
        )
        assert chaos.rage() == []
    assert chaos.troubles["restart of the database"] >= 1
    assert chaos.troubles["kill"] + chaos.troubles["freeze"] >= 2
    assert told(tmp_path)["taken"] >= 24
