"""Rows of the process table are read right whatever a process calls itself, and trees are complete."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recoup.processes.process_table import Process, activity, descendants

NAMES = st.binary(max_size=15) | st.sampled_from([b") R 1 2 3", b"a b) (c", b"(sd-pam)", b")"])


def stat(
    pid: int, *, name: bytes = b"sh", state: str = "S", parent: int = 1, start: int = 7, cpu: int = 0
) -> bytes:
    before = f"{state} {parent} {pid} {pid} 0 -1 0 1 1 0 0"
    return b"%d (%s) %s\n" % (pid, name, f"{before} {cpu} 0 0 0 20 0 1 0 {start} 4096 100".encode())


@given(NAMES, st.sampled_from("RSDTZ"), st.integers(0, 2**22), st.integers(0, 2**63))
def test_a_row_is_read_whatever_the_command_is_called(
    name: bytes, state: str, parent: int, start: int
) -> None:
    row = Process(12, stat(12, name=name, state=state, parent=parent, start=start))
    assert (row.state, row.parent, row.start_ticks, row.key) == (state, parent, start, (12, start))


@given(st.lists(st.integers(0, 40), max_size=40))
def test_descendants_are_exactly_those_whose_line_reaches_the_root(parents: list[int]) -> None:
    """Process n+1 has a parent with a lower number, so there are no cycles; 0 is the root."""
    table = {n: Process(n, stat(n, parent=min(parent, n - 1))) for n, parent in enumerate(parents, 1)}
    root = 1
    below = {n for n in table if n != root and root in line(table, n)}
    assert {process.pid for process in descendants(table, root)} == below


def test_a_cycle_from_a_table_read_while_it_changed_does_not_hang() -> None:
    table = {2: Process(2, stat(2, parent=3)), 3: Process(3, stat(3, parent=2))}
    assert {process.pid for process in descendants(table, 2)} <= {2, 3}


def test_the_mark_of_activity_changes_with_processor_time() -> None:
    quiet, busy = Process(0, stat(0, cpu=5)), Process(0, stat(0, cpu=6))
    assert activity([quiet]) == activity([quiet])
    assert activity([quiet]) != activity([busy])


def line(table: dict[int, Process], pid: int) -> set[int]:
    seen: set[int] = set()
    while pid in table and pid not in seen:
        seen.add(pid)
        pid = table[pid].parent
    return seen | {pid}
