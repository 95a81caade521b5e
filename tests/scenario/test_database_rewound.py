"""A PostgreSQL server that loses commits it had acknowledged, under real workers: an older copy of its data is put back,
or a standby that was behind takes over. An oracle outside the database counts what was really done."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Started
from tests.scenario.conftest import Cli, kill
from tests.scenario.fleets import QUICK, eventually

from recoup.testing.postgres import PostgresServer, postgres_server

PLAN = """
    version: 1
    name: pay
    steps:
      - id: prepare
        run: 'echo "prepare $RECOUP_RUN_ID" >> "$JOURNAL"'
      - id: pay
        run: 'echo "pay $RECOUP_RUN_ID" >> "$JOURNAL"'
        repeat: never
      - id: receipt
        run: 'while ! test -e "$GO"; do sleep 0.1; done; echo "receipt $RECOUP_RUN_ID" >> "$JOURNAL"'
"""
WAIT_S = 120


@pytest.fixture(scope="module")
def mortal() -> Iterator[PostgresServer]:
    """A server of our own, whose data may be replaced."""
    with postgres_server(own=True) as server:
        yield server


class Payments:
    """Workers with a home each, on one server; and the journal of what was really done."""

    def __init__(self, cli: Cli, tmp_path: Path, server: PostgresServer) -> None:
        self.cli = cli
        self.server = server
        self.journal, self.go, self.copy = tmp_path / "journal", tmp_path / "go", tmp_path / "copy"
        self.journal.touch()
        self._homes = tmp_path
        url = server.fresh_database()
        key = "-".join(["a", "long", "key", "for", "tests"])
        cli.env |= {
            "JOURNAL": str(self.journal),
            "GO": str(self.go),
            "RECOUP_DATABASE": url,
            "RECOUP_KEY": key,
            **QUICK,
            "RECOUP_LEASE_S": "6",  # a worker that loses its lease on a busy machine leaves a payment unknown
        }
        self.plan = cli.plan(PLAN)

    def submit(self, count: int) -> list[str]:
        submitted = [self.cli("submit", self.plan) for _ in range(count)]
        assert all(one.code == 0 for one in submitted), submitted
        return [one.out.strip() for one in submitted]

    def worker(self, home: str) -> Started:
        return self.cli.start(
            "worker", "--json", "--concurrency", "8", env={"RECOUP_HOME": str(self._homes / home)}
        )

    def paid(self) -> Counter[str]:
        words = [line.split() for line in self.journal.read_text().splitlines()]
        return Counter(run_id for what, run_id in words if what == "pay")

    def statuses(self) -> dict[str, str]:
        listed = self.cli("runs", "--json")
        return {run["runId"]: run["status"] for run in listed.json} if listed.code == 0 else {}

    def ended(self, runs: list[str]) -> dict[str, str]:
        """What has become of them when nobody drives any of them any more."""

        def rest() -> bool:
            seen = self.statuses()
            return all(seen.get(run_id) in ("succeeded", "escalated") for run_id in runs)

        assert eventually(rest, WAIT_S), self.statuses()
        return self.statuses()

    def events(self, run_id: str) -> list[Any]:
        return self.cli("events", run_id, "--json").lines

    def ledger_events(self) -> list[Any]:
        exported = self.cli("audit", "export")
        assert exported.code == 0, exported.err
        lines = [
            json.loads(line)
            for path in sorted((self.cli.home / "audit").glob("audit-*.jsonl"))
            for line in path.read_text().splitlines()
        ]
        return [line for line in lines if line.get("stream") == "ledger"]

    def say_paid(self, run_id: str, answer: str = "done") -> None:
        settled = self.cli(
            "control", run_id, "settle", "--step", "pay", "--as", answer, "--reason", "the bank says so"
        )
        assert settled.code == 0, settled.err


@pytest.fixture
def payments(cli: Cli, tmp_path: Path, mortal: PostgresServer) -> Payments:
    return Payments(cli, tmp_path, mortal)


def asked_about(payments: Payments, runs: list[str]) -> None:
    """Each payment was made once, and a person is asked about it; the ledger says why."""
    after = payments.ended(runs)
    assert set(payments.paid().values()) == {1}, payments.paid()
    assert {after[run_id] for run_id in runs} == {"escalated"}
    for run_id in runs:
        lost = [event for event in payments.events(run_id) if event["type"] == "task.run.events_lost"]
        assert lost, payments.events(run_id)
        asked = payments.events(run_id)[-1]
        assert asked["type"] == "Escalated"
        assert "unknown whether it was done" in asked["payload"]["reason"]


@pytest.mark.parametrize("workers", ["go on", "are restarted"])
def test_a_step_that_must_not_be_repeated_is_asked_about_when_an_older_copy_is_put_back(
    payments: Payments, workers: str
) -> None:
    runs = payments.submit(3)
    payments.server.save(payments.copy)
    pair = [payments.worker("one"), payments.worker("two")]
    assert eventually(lambda: set(payments.paid()) == set(runs), WAIT_S), payments.paid()
    if workers == "are restarted":
        for worker in pair:
            kill(worker)
    payments.server.put_back(payments.copy)
    if workers == "are restarted":
        pair = [payments.worker("one"), payments.worker("two")]
    asked_about(payments, runs)
    payments.go.touch()
    for run_id in runs:
        payments.say_paid(run_id)
    assert set(payments.ended(runs).values()) == {"succeeded"}
    assert set(payments.paid().values()) == {1}, "what a person settled as done is not done again"
    (told,) = [line for line in payments.ledger_events() if line["type"] == "ledger.events_lost"]
    assert told["payload"]["evidence"] == "acknowledged"
    assert told["payload"]["runs"] == 3


@pytest.mark.parametrize("workers", ["go on", "are restarted"])
def test_a_prune_before_the_copy_does_not_hide_that_an_older_copy_was_put_back(
    payments: Payments, workers: str
) -> None:
    """The last that the worker knows is of a run that is not in the copy, as if it had been pruned."""
    (old,) = payments.submit(1)
    payments.go.touch()
    worker = payments.worker("one")
    payments.ended([old])
    kill(worker)
    payments.go.unlink()
    pruned = payments.cli("prune", "--older-than", "1ms", "--force", "--json")
    assert pruned.json["runs"] == 1, pruned
    (paid_before,) = payments.submit(1)
    payments.server.save(payments.copy)
    worker = payments.worker("one")
    assert eventually(lambda: payments.paid()[paid_before] == 1, WAIT_S)
    (lost,) = payments.submit(1)
    assert eventually(lambda: payments.paid()[lost] == 1, WAIT_S)
    if workers == "are restarted":
        kill(worker)
    payments.server.put_back(payments.copy)
    if workers == "are restarted":
        payments.worker("one")
    asked_about(payments, [paid_before])


def test_a_prune_is_not_taken_for_a_loss(payments: Payments) -> None:
    """Also where all that a process knows was pruned, and the server was restarted since."""
    payments.go.touch()
    worker = payments.worker("one")
    payments.ended(payments.submit(2))
    kill(worker)
    pruned = payments.cli("prune", "--older-than", "1ms", "--force", "--json")
    assert pruned.json["runs"] == 2, pruned
    payments.server.restart()
    payments.worker("one")
    assert set(payments.ended(payments.submit(1)).values()) == {"succeeded"}
    assert [line for line in payments.ledger_events() if line["type"] == "ledger.events_lost"] == []


def test_a_step_that_was_not_done_is_done_when_a_person_says_so(payments: Payments) -> None:
    """Only the events are lost: what the person finds out decides."""
    payments.go.touch()
    (run_id,) = payments.submit(1)
    payments.server.save(payments.copy)
    payments.worker("one")
    payments.ended([run_id])
    payments.server.put_back(payments.copy)
    asked_about(payments, [run_id])
    payments.say_paid(run_id, "not-done")
    assert payments.ended([run_id]) == {run_id: "succeeded"}
    assert payments.paid() == {run_id: 2}, "they said that it was not done"


def test_a_standby_that_was_behind_is_noticed_by_a_machine_that_knows_nothing(payments: Payments) -> None:
    """All who knew better are gone, with their homes: the timeline of the server tells."""
    runs = payments.submit(2)
    payments.server.save(payments.copy)
    worker = payments.worker("one")
    assert eventually(lambda: set(payments.paid()) == set(runs), WAIT_S)
    kill(worker)
    payments.server.put_back(payments.copy, promoted=True)
    payments.cli.home = payments.cli.home.with_name("another-machine")
    payments.worker("two")
    asked_about(payments, runs)
    (told,) = [line for line in payments.ledger_events() if line["type"] == "ledger.events_lost"]
    assert told["payload"]["evidence"] == "failover"


def test_a_worker_that_knows_nothing_waits_for_those_who_may_know_of_a_loss(payments: Payments) -> None:
    """It is the first to connect to the older copy, where the run has not begun. Only the frozen worker knows better."""
    payments.cli.env["RECOUP_LEASE_S"] = "12"
    (run_id,) = payments.submit(1)
    payments.server.save(payments.copy)
    knows = payments.worker("one")
    assert eventually(lambda: payments.paid()[run_id] == 1, WAIT_S), payments.paid()
    knows.send_signal(signal.SIGSTOP)
    payments.server.put_back(payments.copy)
    payments.worker("two")
    prepared = f"prepare {run_id}"
    assert eventually(lambda: payments.journal.read_text().count(prepared) == 2, WAIT_S)
    assert not eventually(lambda: payments.paid()[run_id] == 2, 1)
    knows.send_signal(signal.SIGCONT)
    asked_about(payments, [run_id])


def test_a_server_that_is_killed_and_started_again_has_lost_nothing(payments: Payments) -> None:
    """A restart is no evidence: nobody is asked."""
    runs = payments.submit(2)
    payments.worker("one")
    assert eventually(lambda: set(payments.paid()) == set(runs), WAIT_S)
    payments.server.restart()
    payments.go.touch()
    assert set(payments.ended(runs).values()) == {"succeeded"}
    assert set(payments.paid().values()) == {1}
    assert [line for line in payments.ledger_events() if line["type"] == "ledger.events_lost"] == []


@pytest.mark.soak
def test_older_copies_put_back_at_random_instants_repeat_no_step_that_must_not_be(payments: Payments) -> None:
    """Several rounds: copies of random age, workers that go on or are killed, on either timeline. Both workers are back
    within a lease of the server's start, also on a slow machine."""
    payments.cli.env["RECOUP_LEASE_S"] = "6"
    chance, every = random.Random(7), []
    payments.go.touch()
    pair = [payments.worker("one"), payments.worker("two")]
    for number in range(8):
        payments.copy = payments.copy.with_name(f"copy-{number}")
        every += payments.submit(4)
        time.sleep(chance.uniform(0, 1.5))
        payments.server.save(payments.copy)
        every += payments.submit(2)
        time.sleep(chance.uniform(0.2, 10))
        if number % 2:
            for worker in pair:
                kill(worker)
        payments.server.put_back(payments.copy, promoted=number % 3 == 2)
        if number % 2:
            pair = [payments.worker("one"), payments.worker("two")]
        left = [run_id for run_id in every if run_id in payments.statuses()]
        payments.ended(left)
        assert set(payments.paid().values()) <= {1}, payments.paid()
        for run_id, status in payments.statuses().items():
            if status == "escalated":
                payments.say_paid(run_id, "done" if payments.paid()[run_id] else "not-done")
        payments.ended(left)
        assert set(payments.paid().values()) <= {1}, payments.paid()
