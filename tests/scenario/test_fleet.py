"""Workers on the real command line: on one SQLite file, and on a PostgreSQL server with a home for each of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import pytest
from tests.scenario.conftest import Cli
from tests.scenario.fleets import Fleet, eventually, notices
from tests.scenario.test_kills import wait_for_the_end_of_the_lease

TWO = """
    version: 1
    name: two
    steps:
      - {id: a, run: 'echo a >> "$JOURNAL"'}
      - {id: b, run: 'echo b >> "$JOURNAL"'}
"""
SLOW = """
    version: 1
    name: slow
    steps:
      - {id: a, run: 'echo a >> "$JOURNAL"'}
      - {id: b, run: 'echo "b $$" >> "$JOURNAL"; test -e "$GO" || sleep 60; echo b done >> "$JOURNAL"'}
      - {id: c, run: 'echo c >> "$JOURNAL"'}
"""


def test_what_is_submitted_is_driven_by_priority_and_then_by_age(fleet: Fleet) -> None:
    plan = fleet.cli.plan(TWO)
    ids = [fleet.submit(plan, "--priority", priority) for priority in ("0", "0", "5")]
    told = notices(fleet.worker("--until-idle", "--concurrency", "1"))
    taken = [notice["runId"] for notice in told if notice["event"] == "taken"]
    assert taken == [ids[2], ids[0], ids[1]]
    assert fleet.lines() == ["a", "b"] * 3
    assert {fleet.state(run_id)["status"] for run_id in ids} == {"succeeded"}
    assert fleet.cli("queue", "--json").json["queues"] == []
    assert fleet.cli("workers", "--json").json == [], "a worker that has gone is not listed"


def test_one_key_is_one_run(fleet: Fleet) -> None:
    plan = fleet.cli.plan(TWO)
    first = fleet.submit(plan, "--dedup-key", "november")
    again = fleet.cli("submit", plan, "--dedup-key", "november", "--json").json
    assert again == {"runId": first, "queue": "default", "duplicate": True}
    assert fleet.submit(plan, "--dedup-key", "december") != first
    assert len(fleet.cli("runs", "--json").json) == 2


def test_a_key_that_is_used_again_with_something_else_is_a_loud_duplicate(fleet: Fleet) -> None:
    pin, fleet.cli.env["RECOUP_KEY"] = "4711" * 3, token_urlsafe(32)
    text = TWO.replace("    name:", "    inputs: {month: {default: '1'}, pin: {secret: true}}\n    name:", 1)
    plan = fleet.cli.plan(text)
    given = ("--dedup-key", "november", "--input", f"pin={pin}")
    first = fleet.submit(plan, *given)
    same = fleet.cli("submit", plan, *given, "--input", "month=1", "--json")
    assert (same.json, "WARNING" in same.err) == (
        {"runId": first, "queue": "default", "duplicate": True},
        False,
    )
    for words, differs in (
        ((plan, *given, "--input", "month=2"), ["inputs"]),
        ((plan, *given[:3], f"pin={pin}0"), ["inputs"]),
        ((fleet.cli.plan(text.replace("echo b", "echo c"), "other.yaml"), *given), ["plan"]),
    ):
        again = fleet.cli("submit", *words, "--json")
        assert (again.code, again.json["runId"], again.json["differs"]) == (0, first, differs), again.err
        assert f"its {differs[0]} differ: nothing was submitted" in again.err
        assert "WARNING" in again.err
    assert len(fleet.cli("runs", "--json").json) == 1


def test_only_a_worker_that_is_capable_takes_a_run(fleet: Fleet) -> None:
    run_id = fleet.submit(fleet.cli.plan(TWO), "--needs", "gpu", "--queue", "special")
    (waiting,) = fleet.cli("queue", "--json").json["queues"]
    assert (waiting["queue"], waiting["waiting"], waiting["driven"]) == ("special", 1, 0)
    worker = fleet.worker("--queues", "special")
    other = fleet.worker("--queues", "default", "--capabilities", "gpu", number=1)
    assert eventually(lambda: len(fleet.cli("workers", "--json").json) == 2)
    time.sleep(1)
    assert fleet.state(run_id)["status"] == "queued"
    for one in (worker, other):
        one.terminate()
        notices(one)
    notices(fleet.worker("--queues", "special", "--capabilities", "gpu,agent", "--until-idle"))
    assert fleet.state(run_id)["status"] == "succeeded"


def test_a_killed_worker_is_replaced_at_once_and_nothing_finished_is_repeated(fleet: Fleet) -> None:
    """On one host its death is proven: nobody waits for the lease, which lasts longer than this test."""
    run_id = fleet.submit(fleet.cli.plan(SLOW))
    first = fleet.worker(number=1, RECOUP_LEASE_S="300")
    assert eventually(lambda: len(fleet.lines()) == 2)
    second = fleet.worker(number=2, RECOUP_LEASE_S="300")
    assert eventually(lambda: len(fleet.cli("workers", "--json").json) == 2)
    fleet.go.touch()
    first.kill()
    assert eventually(lambda: "c" in fleet.lines())
    fleet.until(run_id, "succeeded")
    assert fleet.lines().count("a") == 1
    second.terminate()
    assert notices(second)


def test_a_frozen_worker_loses_its_run_and_says_so_when_it_wakes(fleet: Fleet) -> None:
    run_id = fleet.submit(fleet.cli.plan(SLOW))
    first = fleet.worker(number=1)
    assert eventually(lambda: len(fleet.lines()) == 2)
    second = fleet.worker(number=2)
    assert eventually(lambda: len(fleet.cli("workers", "--json").json) == 2)
    fleet.go.touch()
    fleet.cli.freeze(first)
    assert eventually(lambda: "c" in fleet.lines()), "how soon is measured by the benchmarks"
    fleet.until(run_id, "succeeded")
    first.send_signal(signal.SIGCONT)
    assert any(json.loads(line)["event"] == "lost" for line in first.stdout)
    for one in (first, second):
        one.terminate()
        notices(one)
    journal = fleet.lines()
    assert (journal.count("a"), journal.count("c"), journal.count("b done")) == (1, 1, 1)
    (pid,) = {int(line.split()[1]) for line in journal if line.startswith("b ") and line != "b done"} - {
        int(journal[-3].split()[1])
    }
    assert not Path(f"/proc/{pid}").exists(), "the frozen worker's step was killed by its keeper"
    assert fleet.state(run_id)["delivery"] == 1


def test_a_worker_that_was_frozen_and_not_replaced_says_so_and_takes_its_run_up_again(
    cli: Cli, tmp_path: Path
) -> None:
    fleet = Fleet(cli, tmp_path, None)
    run_id = fleet.submit(cli.plan(SLOW))
    worker = fleet.worker()
    assert eventually(lambda: len(fleet.lines()) == 2)
    fleet.go.touch()
    cli.freeze(worker)
    wait_for_the_end_of_the_lease(cli, run_id)
    worker.send_signal(signal.SIGCONT)
    fleet.until(run_id, "succeeded")
    worker.terminate()
    words = {one["event"]: one["words"] for one in reversed(notices(worker)) if one.get("runId") == run_id}
    assert f"nobody has taken run {run_id} over" in words["lost"]
    assert words["left"] == "whoever is free takes it up again"


def test_draining_hands_the_run_back_and_spends_nothing(fleet: Fleet) -> None:
    run_id = fleet.submit(fleet.cli.plan(SLOW))
    first = fleet.worker("--grace", "0.2", number=1)
    assert eventually(lambda: len(fleet.lines()) == 2)
    first.terminate()
    told = notices(first)
    assert [notice["event"] for notice in told][-3:] == ["draining", "left", "stopped"]
    fleet.go.touch()
    notices(fleet.worker("--until-idle", number=2))
    state = fleet.state(run_id)
    assert (state["status"], state["delivery"]) == ("succeeded", 1)
    assert fleet.lines().count("a") == 1


def test_within_the_grace_time_a_run_may_end(fleet: Fleet) -> None:
    run_id = fleet.submit(fleet.cli.plan(TWO.replace("echo b", "sleep 1; echo b")))
    first = fleet.worker(number=1)
    assert eventually(lambda: fleet.lines() == ["a"])
    first.terminate()
    notices(first)
    assert fleet.state(run_id)["status"] == "succeeded"


def test_a_queue_that_lost_everything_is_filled_again_from_the_ledger(fleet: Fleet, drop_hints: Any) -> None:
    plan = fleet.cli.plan(TWO)
    ids = [fleet.submit(plan) for _ in range(3)]
    drop_hints(fleet)
    assert fleet.cli("queue", "--json").json["queues"] == []
    notices(fleet.worker("--until-idle"))
    assert {fleet.state(run_id)["status"] for run_id in ids} == {"succeeded"}


@pytest.fixture
def drop_hints() -> Callable[[Fleet], None]:
    def drop(fleet: Fleet) -> None:
        if fleet._url is None:
            for path in fleet.cli.home.glob("queue.db*"):
                path.unlink()
            return
        import psycopg

        with psycopg.connect(fleet._url, autocommit=True) as connection:
            connection.execute("TRUNCATE recoup.pgqueuer")

    return drop


def test_a_dead_letter_is_tried_again_without_repeating_what_is_proven(fleet: Fleet) -> None:
    policy = fleet.cli.folder / "policy.yaml"
    policy.write_text("step_max_attempts: 1\ndelivery_max: 1\n")
    fleet.cli.env["RECOUP_POLICY"] = str(policy)
    plan = fleet.cli.plan(
        """
        version: 1
        name: flaky
        steps:
          - {id: a, run: 'echo a >> "$JOURNAL"; touch made', expect: [{file: made}], cwd: .}
          - {id: b, run: 'test -e "$GO" || { echo connection reset by peer; exit 1; }'}
        """.replace(", cwd: .", "")
    )
    run_id = fleet.submit(plan)
    notices(fleet.worker("--until-idle"))
    shown = fleet.cli("queue", "--json").json
    assert [letter["runId"] for letter in shown["deadLetters"]] == [run_id]
    fleet.go.touch()
    again = fleet.cli("queue", "retry", run_id).out.strip()
    assert again != run_id
    notices(fleet.worker("--until-idle"))
    assert fleet.state(again)["status"] == "succeeded"


def test_an_approval_wakes_a_worker(fleet: Fleet) -> None:
    plan = fleet.cli.plan(
        """
        version: 1
        name: gated
        steps:
          - {id: a, run: 'echo a >> "$JOURNAL"'}
          - {id: gate, approve: {message: go on?}}
          - {id: b, run: 'echo b >> "$JOURNAL"'}
        """
    )
    run_id = fleet.submit(plan)
    worker = fleet.worker()
    fleet.until(run_id, "waiting")
    assert fleet.cli("control", run_id, "approve", "--reason", "yes").code == 0
    fleet.until(run_id, "succeeded")
    assert fleet.lines() == ["a", "b"]
    worker.terminate()
    notices(worker)


def test_a_worker_says_that_its_policy_file_cannot_be_followed(fleet: Fleet, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("unknown_retries_max: 1000")
    told = notices(fleet.worker("--until-idle", RECOUP_POLICY=str(policy)))
    assert told[0]["event"] == "trouble"
    assert "unknown_retries_max" in told[0]["words"] and str(policy) in told[0]["words"]
    policy.write_text("unknown_retries_max: 10")
    assert "trouble" not in {
        one["event"] for one in notices(fleet.worker("--until-idle", RECOUP_POLICY=str(policy)))
    }


def test_metrics_are_served_while_it_works(fleet: Fleet) -> None:
    from urllib.request import urlopen

    fleet.submit(fleet.cli.plan(TWO))
    worker = fleet.worker("--metrics-port", "0")
    assert worker.stderr is not None
    url = worker.stderr.readline().split()[-1]
    assert eventually(lambda: len(fleet.lines()) == 2)

    def page() -> str:
        with urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    assert eventually(lambda: 'status="succeeded"' in page())
    worker.terminate()
    notices(worker)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--queue", "no such queue"), "queue or capability"),
        (("--at", "soon"), "--at 'soon' is no time"),
        (("--from-step", "a"), "--reuse"),
        (("--dedup-key", ""), "--dedup-key"),
    ],
)
def test_bad_words_are_refused_and_nothing_is_submitted(cli: Cli, words: tuple[str, ...], said: str) -> None:
    done = cli("submit", cli.plan(TWO), *words)
    assert done.code == 2, done.err
    assert said in done.err
    assert cli("runs", "--json").json == []


@pytest.mark.parametrize("fleet", ["sqlite"], indirect=True)
def test_a_worker_whose_words_nobody_reads_goes_on_and_stops_when_told(fleet: Fleet) -> None:
    """Its output is a pipe that is full."""
    plan = fleet.cli.plan(TWO)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    environ = fleet.cli.environ()
    worker = subprocess.Popen(
        fleet.cli.argv("worker", "--json"), stdout=writer, stderr=writer, env=environ, cwd=fleet.cli.folder
    )
    try:
        run_id = fleet.submit(plan)
        fleet.until(run_id, "succeeded")
        worker.terminate()
        assert worker.wait(30) == 0
    finally:
        worker.kill()
        worker.wait()
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("fleet", ["sqlite"], indirect=True)
def test_a_dead_letter_is_tried_again_once_however_often_one_asks(fleet: Fleet) -> None:
    policy = fleet.cli.folder / "policy.yaml"
    policy.write_text("step_max_attempts: 1\ndelivery_max: 1\n")
    fleet.cli.env["RECOUP_POLICY"] = str(policy)
    plan = fleet.cli.plan(TWO.replace("'echo b", "'echo connection reset by peer; exit 1; echo b"))
    run_id = fleet.submit(plan)
    notices(fleet.worker("--until-idle"))
    first = fleet.cli("queue", "retry", run_id, "--json").json
    second = fleet.cli("queue", "retry", run_id, "--json").json
    assert (first["duplicate"], second["duplicate"]) == (False, True)
    assert first["runId"] == second["runId"]
