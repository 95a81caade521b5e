"""Storms: the real engine on a real ledger, in virtual time, with everything going wrong; and what must hold then."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recoup.engine import breaking, driver, settlement
from recoup.kernel import reuse
from recoup.kernel.breaker import Ruling, rule
from recoup.kernel.decide import decide
from recoup.kernel.step_state import step_state
from recoup.ledger import appending
from recoup.model import events as ev
from recoup.model.events import Event, Payload
from recoup.model.ids import EVERY_WORKFLOW
from recoup.model.instant import Instant
from recoup.model.mode import Mode
from recoup.model.plan import Plan
from recoup.model.run import StepState
from recoup.simulation import storms
from recoup.simulation.invariants import (
    Arrived,
    Record,
    no_failure_pauses_everything_twice,
    nothing_begins_in_a_stopped_workflow,
    nothing_begins_while_everything_is_paused,
)
from recoup.simulation.storm import Ended, Size, Storm, small
from recoup.simulation.virtual_loop import VirtualClock, VirtualLoop

STORMS = 120
SHARDS = 4
SOAK_STORMS = 10_000
SOAK_SHARDS = 20
SOAK_SHARD_S = 900
LARGE_SEEDS = (1, 2, 3, 8)
"""Several: whatever changes in the engine leads a storm elsewhere."""
MEMORY = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that is possible: a commit there need not wait for a disk."""
    with tempfile.TemporaryDirectory(prefix="storm-", dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)


def storm(seed: int, size: Size, folder: Path) -> Ended:
    root = folder / f"{seed}-{len(list(folder.iterdir()))}"
    root.mkdir()
    return Storm(seed, size, root).rage()


def broken_ones(
    seeds: range, folder: Path, until_s: float = float("inf")
) -> tuple[int, dict[int, list[str]]]:
    done, broken = 0, {}
    for seed in seeds:
        if time.monotonic() > until_s:
            break
        ended = storm(seed, small(seed), folder)
        done += 1
        if ended.broken:
            broken[seed] = ended.broken[:3]
    return done, broken


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_invariant_holds_after_every_small_storm(shard: int, folder: Path) -> None:
    each = STORMS // SHARDS
    done, broken = broken_ones(range(shard * each, (shard + 1) * each), folder)
    assert (done, broken) == (each, {})


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SHARD_S + 120)
@pytest.mark.parametrize("shard", range(SOAK_SHARDS))
def test_every_invariant_holds_after_ten_thousand_storms(shard: int, folder: Path) -> None:
    each = SOAK_STORMS // SOAK_SHARDS
    first = STORMS + shard * each
    done, broken = broken_ones(range(first, first + each), folder, time.monotonic() + SOAK_SHARD_S)
    assert broken == {}
    assert done == each, f"only {done} of {each} storms within {SOAK_SHARD_S} s"


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", LARGE_SEEDS)
def test_every_invariant_holds_after_one_storm_of_ten_thousand_runs(seed: int, folder: Path) -> None:
    ended = storm(seed, Size(), folder)
    assert ended.broken == []
    assert sum(ended.statuses.values()) == 10_000


def test_a_storm_is_rough(folder: Path) -> None:
    """What never happens is not tested."""
    ended = storm(11, Size(runs=120, workflows=4, unrest=1.0, trouble=0.4), folder)
    assert ended.broken == []
    assert {"succeeded", "failed", "dead_letter"} <= ended.statuses.keys()
    assert {"control", "kill", "freeze", "force", "jump", "reboot", "write_policy"} <= ended.troubles.keys()
    assert ended.kills > 5
    assert {
        *("task.run.blocked", "task.run.taken_over", "task.run.waiting", "task.self_heal.triggered"),
        *("task.self_heal.escalated", "task.self_heal.exhausted", "checkpoint.restored", "Escalated"),
        *("workflow.mode.changed", "workflow.probe.permitted", "workflow.boot.seen", "policy.generation"),
        *("task.step.invalidated", "task.step.reused", "task.control", "workspace.handed_over"),
    } <= ended.types.keys()


def test_the_same_seed_gives_the_same_events_at_the_same_times(folder: Path) -> None:
    size = Size(runs=25, workflows=3, unrest=1.0)
    first, second, other = storm(5, size, folder), storm(5, size, folder), storm(6, size, folder)
    assert (first.digest, first.types, first.virtual_s) == (second.digest, second.types, second.virtual_s)
    assert first.digest != other.digest


def test_many_runs_are_storms_beside_each_other_with_the_seeds_that_follow(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storms, "STORM_RUNS_MAX", 20)
    beside = list(storms.storms(5, 50))
    alone = [storm(seed, Size(runs=runs), folder) for seed, runs in ((5, 20), (6, 20), (7, 10))]
    assert {one.seed: one.digest for one in beside} == {one.seed: one.digest for one in alone}
    whole = storms.together(beside)
    assert (whole.runs, whole.broken) == (50, [])
    assert whole.events == sum(one.events for one in alone)
    assert whole.statuses == storms.together(alone).statuses
    assert whole.digest == storms.together(alone).digest


def test_what_is_broken_names_the_seed_that_shows_it() -> None:
    whole = storms.together([Ended(seed=8, runs=20, broken=["all is wrong"]), Ended(seed=7, runs=20)])
    assert whole.broken == ["seed 8 (20 runs): all is wrong"]


def test_another_process_in_another_place_makes_the_same_storm(folder: Path) -> None:
    code = (
        "import sys, pathlib; from recoup.simulation.storm import Size, Storm; "
        "print(Storm(5, Size(runs=25, workflows=3, unrest=1.0), pathlib.Path(sys.argv[1])).rage().digest)"
    )
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(elsewhere)],
        capture_output=True,
        text=True,
        cwd=elsewhere,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        check=True,
    )
    assert done.stdout.strip() == storm(5, Size(runs=25, workflows=3, unrest=1.0), folder).digest


# An engine that is broken is found out


def found(folder: Path, size: Size, seeds: range = range(5)) -> str:
    """What the storms say, until one says something."""
    for seed in seeds:
        broken = storm(seed, size, folder).broken
        if broken:
            return "\n".join(broken)
    return ""


ROUGH = Size(runs=40, workflows=2, processes=2, trouble=0.5, unrest=0.5, policies_change=False)


def test_an_engine_that_ignores_the_retries_of_a_run_is_found_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(state: StepState, *rest: Any) -> Any:
        import msgspec

        return decide(msgspec.structs.replace(state, retries=0), *rest)

    monkeypatch.setattr(settlement, "decide", forgetful)
    assert "retries of the run" in found(folder, ROUGH)


def test_an_engine_that_ignores_the_mode_is_found_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(*args: Any, **named: Any) -> Ruling:
        return Ruling(rule(*args, **named).payloads)

    monkeypatch.setattr(breaking, "rule", careless)
    monkeypatch.setattr(breaking, "refused", lambda *_: None)
    assert "nothing_begins_in_a_stopped_workflow" in found(folder, ROUGH)


@pytest.mark.parametrize(
    ("begun_s", "seen_before", "told"),
    [
        (13.0, False, True),
        (11.5, False, False),
        (31.0, True, False),
        (34.0, True, True),
    ],
    ids=["late", "about to begin", "before the pause had arrived", "after it had"],
)
def test_what_begins_under_a_pause_of_everything_is_found_out(
    begun_s: float, seen_before: bool, told: bool
) -> None:
    """It is dated to the tenth second; where another event was before it in the ledger, it arrived after the thirtieth."""
    pause = ev.WorkflowModeChanged(mode=Mode.PAUSED, previous=Mode.RUNNING, reason="too many")
    start = ev.AttemptStarted(
        step_id="a",
        step_index=0,
        attempt=1,
        delivery=1,
        kind="run",
        args_digest="d",
        pre_state=None,
        workspace=None,
        inline=False,
    )
    runs = {"one": [arrived(3, begun_s, start)]}
    if seen_before:
        runs["other"] = [arrived(1, 30.5, start)]
    record = Record(runs=runs, workflows={EVERY_WORKFLOW: [arrived(2, 10, pause)]}, policies={})
    found = [words for words in nothing_begins_while_everything_is_paused(record) if "one" in words]
    assert bool(found) is told


@pytest.mark.parametrize(
    ("end_s", "end", "told"),
    [
        (13.0, {"settled_by": "operator"}, False),
        (13.0, {"settled_by": "outcome"}, True),
        (13.5, {"settled_by": "operator"}, True),
        (13.0, {"settled_by": "operator", "attempt": 2}, True),
        (13.0, {"settled_by": "operator", "step_id": "b", "step_index": 1}, True),
    ],
    ids=["told by a person", "performed", "begun before", "another attempt", "another step"],
)
@pytest.mark.parametrize("workflow", ["w", EVERY_WORKFLOW])
def test_only_what_a_person_says_was_done_may_be_recorded_while_nothing_begins(
    workflow: str, end_s: float, end: dict[str, Any], told: bool
) -> None:
    """It is recorded as a start with its end: nothing was performed."""
    about: dict[str, Any] = {"step_id": "a", "step_index": 0, "attempt": 1}
    submitted = ev.RunSubmitted(
        workflow="w",
        plan_digest="p",
        plan=Plan(name="w", steps=(), folder="."),
        plan_redacted=False,
        inputs={},
        policy_digest="q",
    )
    start = ev.AttemptStarted(
        **about, delivery=1, kind="run", args_digest="d", pre_state=None, workspace=None, inline=True
    )
    ended = ev.AttemptFinished(**{**about, "verdict": "passed", "duration_ms": 0, **end})
    stop = ev.WorkflowModeChanged(mode=Mode.PAUSED, previous=Mode.RUNNING, reason="too many")
    record = Record(
        runs={"r": [arrived(1, 9, submitted), arrived(3, 13, start), arrived(4, end_s, ended)]},
        workflows={workflow: [arrived(2, 10, stop)]},
        policies={},
    )
    rules = (nothing_begins_in_a_stopped_workflow, nothing_begins_while_everything_is_paused)
    assert any(list(rule(record)) for rule in rules) is told


def test_an_engine_that_pauses_everything_for_the_same_failures_again_is_found_out() -> None:
    def paused(seq: int, *causes: int) -> Arrived:
        pause = ev.WorkflowModeChanged(
            mode=Mode.PAUSED, previous=Mode.RUNNING, reason="too many", causes_elsewhere={"w": causes}
        )
        return arrived(seq, seq, pause)

    def found(*pauses: Arrived) -> list[str]:
        return list(
            no_failure_pauses_everything_twice(
                Record(runs={}, workflows={EVERY_WORKFLOW: [*pauses]}, policies={})
            )
        )

    assert found(paused(1, 3, 4), paused(2, 5, 6)) == []
    assert found(paused(1, 3, 4), paused(2, 4, 5)) == ["event 2: w had failed so before (4)"]


def arrived(number: int, second: float, payload: Payload) -> Arrived:
    at = Instant(round(second * 1e6), round(second * 1e6), "boot-1")
    return Arrived(number, Event("stream", number, at, payload.TYPE, payload, b"{}"))


def test_an_engine_that_repeats_what_is_done_is_found_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure it goes back one step too far."""

    def one_too_few(state: Any) -> int:
        length = int(state.progress.prefix_length)
        failed = length < len(state.steps) and state.steps[length].spent.attempts > 0
        return length - 1 if failed and length and state.steps[length - 1].open is None else length

    monkeypatch.setattr(driver, "known_good_prefix_length", one_too_few)
    assert "nothing_is_lost" in found(folder, ROUGH)


def test_an_engine_that_repeats_what_must_not_be_repeated_is_found_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec

    def bold(*args: Any) -> StepState:
        return msgspec.structs.replace(step_state(*args), may_repeat=True)

    monkeypatch.setattr(settlement, "step_state", bold)
    said = found(folder, ROUGH)
    assert "what_must_not_be_repeated_is_done_once" in said


LINKED = Size(runs=60, workflows=2, processes=3, trouble=0.4, unrest=0.3, linked=0.7, policies_change=False)


def test_a_ledger_that_forgets_what_a_linked_run_has_claimed_is_found_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "claimant", lambda *_: None)
    monkeypatch.setattr(appending, "refuse_claimed", lambda *_: None)
    monkeypatch.setattr(reuse, "_refusal", lambda *_: (None, ""))
    assert "done_once" in found(folder, LINKED)


def test_an_engine_that_asks_about_what_another_run_is_doing_is_found_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = Size(runs=8, workflows=1, processes=4, trouble=0.1, unrest=0.0, linked=0.9, policies_change=False)
    monkeypatch.setattr(reuse, "_under_way", lambda *_: None)
    assert "done_once" in found(folder, size, range(60))


def test_an_engine_that_reuses_what_was_never_done_is_found_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for objection in ("_not_good_there", "_not_proven", "_no_way_back"):
        monkeypatch.setattr(reuse, objection, lambda *_: None)
    assert "what_is_reused_was_proven" in found(folder, LINKED)


def test_no_storm_sets_a_clock_to_before_1970() -> None:
    clock = VirtualClock(VirtualLoop())  # type: ignore[abstract]  # it has what a storm needs of a loop
    for _ in range(9):
        clock.jump_wall(-10 * 365 * 86_400)
    assert clock.now().wall_us == 0
    clock.jump_wall(3_600)
    assert clock.now().wall_us == 3_600_000_000
