"""Browser runs on the command line and in fleets, on SQLite and PostgreSQL, while their processes are killed and frozen
and their shop restarts and hangs. The shop's own log says what became of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.integration.browser_house import needs_browser
from tests.soak.browser_campaign import SETTINGS, Campaign, campaign, seeds_of

pytestmark = needs_browser
RUNS = 20
"""In each setting."""
UNFINISHED_MAX = 2
AGAIN = "RECOUP_CAMPAIGN_SEEDS"
"""Names seeds with commas between, such as `fleet-postgres-7,command-sqlite-3`: only these runs are made."""


def seeds() -> dict[str, list[str]]:
    chosen = [seed for seed in os.environ.get(AGAIN, "").split(",") if seed]
    if not chosen:
        return seeds_of(RUNS)
    by_setting = {setting: [s for s in chosen if s.rpartition("-")[0] == setting] for setting in SETTINGS}
    return {setting: some for setting, some in by_setting.items() if some}


def holds_the_bar(fought: Campaign, unfinished_max: int) -> None:
    """Nothing twice, lost or wrong, nothing left behind, no question that need not be asked."""
    figures = fought.figures()
    print(fought.table())
    problems = "\n\n".join([*fought.problems(), fought.table()])
    for name in ("duplicates", "lost", "wrong", "needless", "survivors", "leftovers"):
        assert figures[name] == 0, problems
    assert figures["finished"] >= figures["runs"] - unfinished_max, problems


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_eighty_browser_runs_get_through_kills_and_freezes(tmp_path: Path) -> None:
    with campaign(tmp_path / "runs", seeds()) as fought:
        holds_the_bar(fought, UNFINISHED_MAX)
