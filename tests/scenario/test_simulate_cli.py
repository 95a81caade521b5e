"""`recoup simulate` on the real command line, over runs of real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.scenario.conftest import Cli

PLAN = """
version: 1
name: flaky
workspace: {git: repo}
defaults: {timeout: 30s, idle_timeout: 20s}
steps:
  - id: reset
    run: |
      test -e tried && exit 0
      touch tried; echo "connection reset by peer" >&2; exit 56
  - id: stuck
    run: test -e ../../fixed || { touch ../../fixed; echo "no luck" >&2; exit 3; }
  - id: loops
    run: |
      echo "connection reset by peer" >&2
      exit 56
"""


@pytest.fixture
def flaky(cli: Cli, repo: Path) -> Cli:
    done = cli("run", cli.plan(PLAN))
    assert done.code in (1, 75), done.err
    return cli


def policy(cli: Cli, text: str) -> str:
    return cli.plan(text, "new.yaml")


def test_the_same_policy_decides_the_same(flaky: Cli) -> None:
    same = policy(flaky, "step_max_attempts: 3\n")
    done = flaky("simulate", "--policy", same)
    assert done.code == 0, done.err
    assert done.out.startswith("nothing would have been decided otherwise: 1 run, ")
    document = flaky("simulate", "--policy", same, "--json").json
    assert document["same"] is True
    assert sum(tally["decisions"] for tally in document["workflows"]) >= 4, "resets, a hard reset, an end"
    assert flaky("events", "last").out.count("task.self_heal.escalated") == 1


def test_fewer_attempts_lose_a_recovery_and_say_so(flaky: Cli) -> None:
    new = policy(flaky, "step_max_attempts: 1\n")
    done = flaky("simulate", "--policy", new, "--since", "1h", "--workflow", "flaky")
    assert done.code == 0, done.err
    assert "LOST: 1 recovery" in done.out
    assert "reset attempt 1: given up (step_max_attempts: 1 of 1 attempts used), not soft_reset" in done.out
    assert "stops earlier" in done.out.splitlines()[2]
    document: Any = flaky("simulate", "--policy", new, "--json").json
    (one,) = document["different"]
    assert (one["verdict"], one["differences"][0]["recoveryLost"]) == ("stops_earlier", True)


def test_more_attempts_are_an_unknown_future(flaky: Cli) -> None:
    new = policy(flaky, "job_self_heal_max_resets: 3\nstep_max_attempts: 6\n")
    done = flaky("simulate", "--policy", new)
    assert "unknown from here: at most 3 attempts more" in done.out, done.out


def test_what_cannot_be_seen_is_named(flaky: Cli) -> None:
    done = flaky("simulate", "--policy", policy(flaky, "check_s: 7\n"))
    assert "not to be seen in what was recorded: check_s" in done.out


def test_a_policy_that_cannot_be_used_is_exit_3_with_its_problems(cli: Cli) -> None:
    done = cli("simulate", "--policy", policy(cli, "step_max_attempts: 0\nnonsense: 1\n"), "--json")
    assert done.code == 3
    assert len(done.json["problems"]) == 2
    assert cli("simulate", "--policy", "nowhere.yaml").code == 3


@pytest.mark.parametrize(
    "words", [(), ("--seed", "3"), ("--storm", "--since", "1d"), ("--policy", "x.yaml", "--runs", "3")]
)
def test_options_that_make_no_sense_together_are_refused(cli: Cli, words: tuple[str, ...]) -> None:
    assert cli("simulate", *words).code == 2


def test_a_bad_time_is_refused(cli: Cli) -> None:
    done = cli("simulate", "--policy", policy(cli, "{}\n"), "--since", "yesterday")
    assert (done.code, "--since yesterday" in done.err) == (2, True)


def test_without_runs_nothing_differs(cli: Cli) -> None:
    done = cli("simulate", "--policy", policy(cli, "{}\n"))
    assert (done.code, done.out) == (0, "nothing would have been decided otherwise: 0 runs, 0 decisions\n")


def test_a_storm_says_what_happened_and_that_all_held(cli: Cli) -> None:
    words = ("simulate", "--storm", "--seed", "7", "--runs", "20")
    done = cli(*words)
    assert done.code == 0, done.out
    assert "every invariant holds" in done.out
    first, second = cli(*words, "--json").json, cli(*words, "--json").json
    assert first["held"] is True
    assert first["digest"] == second["digest"]
    assert not cli.home.exists() or not list(cli.home.iterdir()), "a storm leaves nothing behind"
