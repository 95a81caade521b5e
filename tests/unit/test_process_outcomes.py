"""What the end of a process tree means for its attempt."""

from __future__ import annotations

from pathlib import Path

import pytest

from recoup.kernel.classify import SUMMARY_CHARS_MAX, classify, summarise
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.policy import Policy
from recoup.model.process import Ended, EndedBy
from recoup.processes.memory import kills_for_memory, nearly_all_memory
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


@pytest.mark.parametrize(
    ("ended_by", "seen", "limit", "kind", "said"),
    [
        (
            *(EndedBy.PROCESSES_MAX, 4_203, 4_096, FailureKind.TOO_MANY_PROCESSES),
            "too many processes: killed by Recoup: 4,203 processes at once, and the limit is 4,096: raise `max_processes` "
            "in the plan or `step_processes_max` in the policy, or look at what the step starts",
        ),
        (
            *(EndedBy.MEMORY_MAX, 999_960_000, 512_000, FailureKind.OUT_OF_MEMORY),
            "out of memory: killed by Recoup: its processes took 1000 MB, and the limit is 512 KB: raise `max_memory` in "
            "the plan or `step_memory_max_bytes` in the policy, or look at what the step holds",
        ),
        (
            *(EndedBy.MEMORY_MAX, 2_004_000_000_000, 2_000_000_000, FailureKind.OUT_OF_MEMORY),
            "out of memory: killed by Recoup: its processes took 2.004 TB, and the limit is 2 GB: raise `max_memory` in "
            "the plan or `step_memory_max_bytes` in the policy, or look at what the step holds",
        ),
    ],
)
def test_a_tree_over_its_limit_says_which_how_far_and_what_to_do(
    ended_by: EndedBy, seen: int, limit: int, kind: FailureKind, said: str
) -> None:
    ended = Ended(ended_by=ended_by, signal=9, seen=seen, limit=limit)
    outcome = _outcome(ended, Capture(10), Capture(10))
    assert (outcome.kind, outcome.outcome_known, outcome.interrupted) == (kind, False, False)
    assert summarise(Facts(kind=kind, signal=9, excerpt=outcome.detail)) == said
    assert len(said) < SUMMARY_CHARS_MAX


def _machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal:  1000 kB\nMemFree: 10 kB\n"}


@pytest.mark.parametrize(
    ("files", "size"),
    [
        (MEMINFO, 1_024_000),
        ({}, 0),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/memory.max": "500000\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
            },
            500_000,
        ),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/docker/12\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "300000\n",
            },
            300_000,
        ),
        ({**MEMINFO, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "9000000\n"}, 1_024_000),
    ],
    ids=["machine", "nothing said", "a group above", "a container", "a group larger than the machine"],
)
def test_nearly_all_memory_is_of_the_machine_or_of_what_holds_us(
    tmp_path: Path, files: dict[str, str], size: int
) -> None:
    assert nearly_all_memory(_machine(tmp_path, files)) == int(0.9 * size)


def test_a_kernel_that_does_not_count_has_killed_nobody(tmp_path: Path) -> None:
    assert kills_for_memory(tmp_path / "absent") == 0
    (tmp_path / "counters").write_text("pgfault 12\noom_kill 3\noom_kill_other 9\n")
    assert kills_for_memory(tmp_path / "counters") == 3
