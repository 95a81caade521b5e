"""2,000 runs of 5 steps on 4 workers: one is killed or frozen every second or two, and the database every 20 s."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.soak.chaos import Chaos, told


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_thousand_runs_get_through_chaos(tmp_path: Path) -> None:
    from recoup.testing.postgres import postgres_server, programs

    with postgres_server(own=True) as server:
        chaos = Chaos(server, tmp_path, programs() / "psql", runs=2_000, patience_s=3_000)
        assert chaos.rage() == []
    assert chaos.troubles["restart of the database"] > 5
    assert chaos.troubles["kill"] > 20
    assert chaos.troubles["freeze"] > 20
    assert told(tmp_path)["lost"] > 0, "no frozen worker woke up to find its run gone"
