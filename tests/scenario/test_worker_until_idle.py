"""`recoup worker --until-idle` ends when it may take nothing more, and says what it leaves and why."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import psycopg
import pytest
from tests.scenario.conftest import Cli
from tests.scenario.fleets import Fleet

QUICK = "version: 1\nname: quick\nsteps: [{id: one, run: 'true'}]\n"
GATE = "version: 1\nname: gate\nsteps: [{id: ask, approve: {message: 'Go?'}}]\n"
AGAIN = """
version: 1
name: again
steps:
  - {id: once, run: 'test -e seen || { touch seen; echo connection reset by peer >&2; exit 1; }', max_attempts: 1}
"""


def until_idle(cli: Cli, *options: str) -> tuple[dict[str, str], list[Any]]:
    """Why each run was left, and everything that was said."""
    done = cli("worker", "--until-idle", "--json", *options, timeout=100)
    assert done.code == 0, done.err
    return {line["runId"]: line["words"] for line in done.lines if line["event"] == "skipped"}, done.lines


@pytest.fixture
def cli(fleet: Fleet) -> Cli:
    """On both databases."""
    return fleet.cli


@pytest.fixture
def submitted(cli: Cli) -> Any:
    def submit(plan: str, *options: str) -> str:
        done = cli("submit", cli.plan(plan), *options)
        assert done.code == 0, done.err
        return done.out.split()[0]

    return submit


def statuses(cli: Cli) -> dict[str, str]:
    return {one["runId"]: one["status"] for one in cli("runs", "--json").json}


def test_runs_that_this_worker_may_not_take_do_not_keep_it(cli: Cli, submitted: Any) -> None:
    mine = submitted(QUICK)
    other_queue = submitted(QUICK, "--queue", "nightly")
    unable = submitted(QUICK, "--needs", "gpu")
    later = submitted(QUICK, "--at", "2h")

    left, lines = until_idle(cli)

    assert statuses(cli)[mine] == "succeeded"
    assert "nightly" in left[other_queue]
    assert "gpu" in left[unable]
    assert "scheduled for" in left[later]
    assert set(left) == {other_queue, unable, later}
    assert [line["words"] for line in lines if line["event"] == "idle"] == [
        "nothing is left that this worker may take; 3 left alone"
    ]


def test_a_run_at_a_gate_is_named(cli: Cli, submitted: Any) -> None:
    run = submitted(GATE)
    left, _ = until_idle(cli)
    assert "waits for a person" in left[run]


def test_a_run_of_a_paused_workflow_does_not_keep_it(cli: Cli, submitted: Any) -> None:
    assert cli("run", cli.plan(QUICK)).code == 0
    run = submitted(QUICK)
    assert cli("mode", "quick", "paused", "--reason", "maintenance").code == 0
    left, _ = until_idle(cli)
    assert "maintenance" in left[run]
    assert statuses(cli)[run] != "succeeded"


def test_it_waits_for_the_next_delivery_of_a_run_that_failed(cli: Cli, submitted: Any) -> None:
    run = submitted(AGAIN)
    left, _ = until_idle(cli)
    assert (left, statuses(cli)[run]) == ({}, "succeeded")


def test_an_empty_queue_ends_it_at_once(cli: Cli) -> None:
    left, lines = until_idle(cli)
    assert left == {}
    assert [line["event"] for line in lines] == ["started", "idle", "stopped"]


def test_runs_in_every_state_that_waits_end_it_all_the_same(cli: Cli, fleet: Fleet, submitted: Any) -> None:
    """Blocked by a mode, scheduled, at a gate, paused by a person, with an event that nobody can read."""
    mine = submitted(QUICK)
    gate, paused = submitted(GATE), submitted(QUICK.replace("quick", "kept"))
    blocked = submitted(QUICK.replace("quick", "shut"))
    later = submitted(QUICK, "--at", "2h")
    damaged = submitted(QUICK.replace("quick", "torn"))
    assert cli("control", paused, "pause", "--reason", "wait").code == 0
    assert cli("mode", "shut", "paused", "--reason", "maintenance").code in (0, 2)
    spoil(cli, fleet, damaged)

    left, lines = until_idle(cli)

    assert statuses(cli)[mine] == "succeeded"
    assert {gate, later, damaged, paused} <= set(left)
    assert "cannot be read" in left[damaged]
    assert "waits for a person" in left[gate] and "scheduled for" in left[later]
    assert all(left.values()), "each says why"
    assert (blocked in left) == (statuses(cli)[blocked] != "succeeded")
    assert [line["event"] for line in lines][-2:] == ["idle", "stopped"]


def spoil(cli: Cli, fleet: Fleet, run_id: str) -> None:
    """Its first event is none any more."""
    stream = f"run:{run_id}"
    if fleet._url is None:
        with closing(sqlite3.connect(cli.home / "ledger.db")) as database, database:
            where = "(SELECT id << 32 | 1 FROM streams WHERE name = ?)"
            count = database.execute(
                f"UPDATE events SET payload = '{{' WHERE place = {where}", (stream,)
            ).rowcount
    else:
        with psycopg.connect(fleet._url, autocommit=True) as connection:
            where = "(SELECT id FROM recoup.streams WHERE name = %s)"
            words = f"UPDATE recoup.events SET payload = '{{' WHERE seq = 1 AND stream_id = {where}"
            count = connection.execute(words, (stream,)).rowcount
    assert count == 1
