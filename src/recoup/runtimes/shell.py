"""`run:` steps: a script through bash, or an argument vector, in a process tree that a keeper keeps."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping

from recoup.kernel.template import substitute_shell
from recoup.model.outcome import Order, Outcome
from recoup.model.plan import RunAction
from recoup.ports import Hooks, Keeper
from recoup.runtimes.process_attempt import perform_process
from recoup.runtimes.step_log import StepLog

_SYNTAX_S = 10


def shell_argv(command: str | tuple[str, ...]) -> tuple[str, ...]:
    """A script stops at its first failing line (`-e`), so that a later success cannot hide it."""
    if isinstance(command, str):
        return ("bash", "--noprofile", "--norc", "-e", "-c", command)
    return command


def script_problem(script: str) -> str | None:
    """What bash says about a script's syntax, with harmless values filled in; None: nothing."""
    filled = substitute_shell(script, _Anything())
    read = subprocess.run(
        ["bash", "-n"], input=filled.encode(), capture_output=True, timeout=_SYNTAX_S, check=False
    )
    said = read.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[0].removeprefix("bash: ") if read.returncode and said else None


class _Anything(Mapping[str, str]):
    """Any name has a value that fits everywhere."""

    def __getitem__(self, name: str) -> str:
        return "1"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class ShellRuntime:
    """Bash and plain commands."""

    inline = False

    def __init__(self, keeper: Keeper, open_log: Callable[[Order], StepLog]) -> None:
        self._keeper = keeper
        self._open_log = open_log

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        assert isinstance(order.action, RunAction), "the shell performs run steps only"
        argv = shell_argv(order.action.command)
        return await perform_process(self._keeper, self._open_log, order, hooks, argv)
