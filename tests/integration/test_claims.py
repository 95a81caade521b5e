"""F7: many processes claim many runs, and what they saw is what one lock after the other would have shown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from recoup.testing.postgres import PostgresServer

CHILD = Path(__file__).with_name("claim_child.py")
PATIENCE_S = 3_000


class Call(NamedTuple):
    """A request and its answer, by one clock of the machine."""

    word: str
    run: int
    epoch: int
    began: int
    ended: int


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.fresh_database()


def histories(where: str, met: Path, processes: int, runs: int, times: int) -> dict[int, list[Call]]:
    """By run. All begin at the same moment."""
    children = [
        subprocess.Popen(
            [sys.executable, str(CHILD), str(runs), str(times)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LEDGER": where, "MET": str(met)},
        )
        for _ in range(processes)
    ]
    for child in children:
        assert child.stdout and child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin
        child.stdin.write("\n")
        child.stdin.flush()
    found: dict[int, list[Call]] = defaultdict(list)
    for child in children:
        out, _ = child.communicate(timeout=PATIENCE_S)
        assert child.returncode == 0
        for line in out.splitlines():
            word, *numbers = line.split()
            call = Call(word, *map(int, numbers))
            found[call.run].append(call)
    return found


def explain(calls: list[Call]) -> None:
    """A lock with a number that only grows explains it all. The numbers say in which order it was had, so that one look
    along that order decides; runs do not touch each other."""
    deeds = sorted(
        (call for call in calls if call.epoch), key=lambda call: (call.epoch, call.word == "released")
    )
    assert [(call.word, call.epoch) for call in deeds] == [
        (word, epoch) for epoch in range(1, len(deeds) // 2 + 1) for word in ("granted", "released")
    ], "each number once, and given back before the next"
    moment = 0
    for deed in deeds:
        moment = max(moment, deed.began)
        assert moment <= deed.ended, f"{deed} came before what it must follow"
    for refusal in (call for call in calls if not call.epoch):
        free = [
            (0, deeds[0].began),
            *((one.ended, two.began) for one, two in pairwise(deeds) if one.word == "released"),
        ]
        free.append((deeds[-1].ended, refusal.ended + 1))
        assert not any(begin < refusal.began and refusal.ended < end for begin, end in free), (
            f"{refusal} although nobody could have held it"
        )


def check(where: str, met: Path, processes: int, runs: int, times: int) -> None:
    found = histories(where, met, processes, runs, times)
    assert set(found) == set(range(runs)), "each run was had"
    for calls in found.values():
        explain(calls)
    said = [call.word for calls in found.values() for call in calls]
    assert said.count("granted") == said.count("released")
    assert said.count("refused") > 0, "they never met"
    assert said.count("granted") + said.count("refused") == processes * runs * times


def test_claims_of_many_processes_are_those_of_one_lock_after_the_other(where: str, tmp_path: Path) -> None:
    check(where, tmp_path / "met", processes=4, runs=4, times=5)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_eight_processes_claim_ten_thousand_runs(where: str, tmp_path: Path) -> None:
    check(where, tmp_path / "met", processes=8, runs=10_000, times=1)


@pytest.mark.parametrize(
    "calls",
    [
        [Call("granted", 0, 1, 0, 1), Call("granted", 0, 1, 2, 3)],
        [
            Call("granted", 0, 1, 0, 1),
            Call("granted", 0, 2, 2, 3),
            Call("released", 0, 1, 4, 5),
            Call("released", 0, 2, 6, 7),
        ],
        [
            Call("granted", 0, 1, 4, 5),
            Call("released", 0, 1, 6, 7),
            Call("granted", 0, 2, 0, 1),
            Call("released", 0, 2, 8, 9),
        ],
        [Call("granted", 0, 1, 0, 1), Call("released", 0, 1, 2, 3), Call("refused", 0, 0, 5, 6)],
    ],
    ids=["one number twice", "two at a time", "against the clock", "refused by nobody"],
)
def test_a_history_that_no_lock_explains_is_found_out(calls: list[Call]) -> None:
    with pytest.raises(AssertionError):
        explain(calls)
