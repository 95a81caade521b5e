"""The ids of runs."""

from __future__ import annotations

from recoup.operations.recording import new_run_id


def test_many_runs_of_one_second_have_ids_of_their_own() -> None:
    made = {new_run_id("2026-11-16T21:45:21.000000Z") for _ in range(15_000)}
    assert len(made) == 15_000
    assert all(run_id.startswith("20261116-214521-") for run_id in made)
