"""The table that moves while a run is driven, on a real pseudo terminal, as a person sees it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.scenario.conftest import Cli
from tests.terminals import PATIENCE_S, Terminal

SIZES = [(80, 24), (140, 45)]
PLAN = """
version: 1
name: nightly
steps:
  - {id: fetch, run: 'true'}
  - {id: flaky, run: 'test -e seen || { touch seen; echo "curl: (56) Recv failure: connection reset by peer" >&2; exit 1; }'}
  - {id: slow, run: 'echo "working on a long list of things"; test -e go || sleep 60'}
"""
MANY = "".join(f"  - {{id: step-{n}, run: 'true'}}\n" for n in range(1, 36))
DRAWN = b"\x1b[?7l"


@contextmanager
def on_terminal(cli: Cli, terminal: Terminal, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = terminal.start(cli.argv(*words), cli.environ(), cli.folder)
    try:
        yield process
        terminal.watch(process)
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()


def headers(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("nightly ")]


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_each_command_leaves_one_table_behind_whatever_happens_while_it_moves(
    cli: Cli, columns: int, lines: int
) -> None:
    plan = cli.plan(PLAN)
    with Terminal(columns, lines) as terminal:
        with on_terminal(cli, terminal, "run", plan) as process:
            terminal.watch(process, b"working on a long")
            terminal.key(b"\x03")
        seen = terminal.text()
        assert process.returncode == 130
        assert len(headers(seen)) == 1 and headers(seen)[0].split()[-5:-2] == ["2", "of", "3"]
        assert any("slow" in line and "interrupted" in line for line in seen), seen
        assert sum(line.startswith(("✓  fetch", "✓  flaky")) for line in seen) == 2
        (end,) = [line for line in seen if line.startswith("run ")]
        assert " interrupted: interrupted by Ctrl-C" in end
        next_line = next(number for number, line in enumerate(seen) if line.startswith("  next:   Resume it"))
        assert seen[next_line + 1].strip().startswith("recoup resume ")
        assert "interrupted" in cli("runs").out and "go on: recoup resume " in cli("runs").out
        assert "status    interrupted: continue with recoup resume " in cli("show", "last").out

        (cli.folder / "go").touch()
        with on_terminal(cli, terminal, "resume", "last") as process:
            pass
        after = terminal.text()
        assert process.returncode == 0
        assert after[: len(seen)] == seen, "what the first command left stands as it was"
        assert len(headers(after)) == 2 and headers(after)[1].split()[-5:-2] == ["3", "of", "3"]
        assert sum(line.startswith("✓  slow") for line in after) == 1


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_steps_that_wait_are_counted_and_what_a_step_prints_has_its_place(
    cli: Cli, columns: int, lines: int
) -> None:
    plan = cli.plan(PLAN + MANY)
    with Terminal(columns, lines) as terminal, on_terminal(cli, terminal, "run", plan) as process:
        terminal.watch(process, b"working on a long")
        terminal.watch(process, DRAWN)
        seen = terminal.text()
        (slow,) = [line for line in seen if line.startswith("▶  slow")]
        assert "working on a long list of things" in slow
        assert sum(" waits" in line for line in seen) == 2
        assert "… 33 more that wait" in seen
        (cli.folder / "go").touch()
        terminal.key(b"\x03")


def test_a_run_in_the_background_draws_nothing_over_the_prompt(cli: Cli) -> None:
    words = " ".join(
        cli.argv("run", cli.plan("version: 1\nname: nightly\nsteps: [{id: a, run: 'sleep 0.5'}]\n"))
    )
    with Terminal() as terminal:
        env = {**cli.environ(), "PS1": "prompt> ", "HISTFILE": ""}
        shell = terminal.start(["bash", "--norc", "--noprofile", "-i"], env, cli.folder)
        try:
            terminal.watch(shell, b"prompt> ")
            terminal.key(f"{words} &\n".encode())
            terminal.watch(shell, b"prompt> ")
            terminal.key(b"echo typed")
            terminal.watch(shell, b"artifacts")
            seen = terminal.text()
            assert DRAWN not in terminal.sent and not headers(seen)
            assert any(line == "prompt> echo typed" for line in seen), seen
            assert any(line.startswith("run ") and " succeeded" in line for line in seen)
        finally:
            shell.kill()
            shell.wait()


def test_a_narrower_window_leaves_no_piece_of_the_table(cli: Cli) -> None:
    plan = cli.plan(PLAN)
    with Terminal(140, 45) as terminal, on_terminal(cli, terminal, "run", plan) as process:
        terminal.watch(process, b"working on a long")
        terminal.resize(100, 45)
        for _ in range(3):
            terminal.watch(process, DRAWN)
        assert len(headers(terminal.text())) == 1
        terminal.key(b"\x03")


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(cli: Cli) -> None:
    with Terminal() as terminal:
        plan = cli.plan("version: 1\nname: nightly\nsteps: [{id: a, run: 'true'}]\n")
        process = terminal.start(cli.argv("run", plan), {**cli.environ(), "TERM": "dumb"}, cli.folder)
        terminal.watch(process)
        assert process.wait(PATIENCE_S) == 0
        assert DRAWN not in terminal.sent and "a: attempt 1" in "\n".join(terminal.text())
