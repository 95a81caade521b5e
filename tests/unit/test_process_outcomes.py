"""What the end of a process tree means for its attempt."""

from __future__ import annotations

from pathlib import Path

import pytest

from recoup.kernel.classify import classify
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.policy import Policy
from recoup.model.process import Ended, EndedBy
from recoup.processes.memory import kills_for_memory
from recoup.runtimes.capture import Capture
from recoup.runtimes.process_attempt import _outcome


@pytest.mark.parametrize(("exit_code", "number"), [(137, None), (None, 9)])
def test_a_step_without_memory_is_known_by_that_and_not_taken_for_a_passing_fault(
    exit_code: int | None, number: int | None
) -> None:
    ended = Ended(ended_by=EndedBy.EXIT, exit_code=exit_code, signal=number, out_of_memory=True)
    outcome = _outcome(ended, Capture(10), Capture(10))
    assert (outcome.kind, outcome.outcome_known) == (FailureKind.OUT_OF_MEMORY, False)
    facts = Facts(kind=FailureKind.OUT_OF_MEMORY, exit_code=exit_code, signal=number, excerpt="Killed")
    assert classify(facts, Policy()) is FailureClass.UNKNOWN, "one bounded retry"


def test_any_other_kill_is_one_that_may_pass() -> None:
    outcome = _outcome(Ended(ended_by=EndedBy.EXIT, signal=9), Capture(10), Capture(10))
    assert (outcome.kind, outcome.detail) == (FailureKind.SIGNALLED, "SIGKILL")


def test_a_kernel_that_does_not_count_has_killed_nobody(tmp_path: Path) -> None:
    assert kills_for_memory(tmp_path / "absent") == 0
    (tmp_path / "counters").write_text("pgfault 12\noom_kill 3\noom_kill_other 9\n")
    assert kills_for_memory(tmp_path / "counters") == 3
