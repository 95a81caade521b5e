"""`run:` steps: a script through bash, or an argument vector, in a process tree that a keeper keeps."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping

from recoup.kernel.template import substitute_shell
from recoup.model.failure import FailureKind
from recoup.model.outcome import Order, Outcome
from recoup.model.plan import RunAction
from recoup.model.process import Ended, EndedBy, ProcessSpec
from recoup.ports import Hooks, Keeper
from recoup.runtimes.capture import Capture
from recoup.runtimes.step_log import StepLog

_SYNTAX_S = 10
_KINDS = {
    EndedBy.WALL_TIMEOUT: FailureKind.WALL_TIMEOUT,
    EndedBy.IDLE_TIMEOUT: FailureKind.IDLE_TIMEOUT,
    EndedBy.LIFELINE: FailureKind.DRIVER_LOST,
    EndedBy.SPAWN_FAILED: FailureKind.SPAWN_FAILED,
}


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
        captures = {name: Capture(order.policy.output_bytes_max) for name in ("stdout", "stderr")}
        with self._open_log(order) as log:

            def output(stream: str, chunk: bytes) -> None:
                captures[stream].feed(chunk)
                redacted = log.feed(stream, chunk)
                if redacted:
                    hooks.said(stream, redacted)

            ended = await self._keeper.keep(
                _spec(order),
                before_exec=hooks.launched,
                lifeline=hooks.lifeline,
                output=output,
                stop=hooks.stop,
            )
        return _outcome(ended, captures["stdout"], captures["stderr"])


def _spec(order: Order) -> ProcessSpec:
    assert isinstance(order.action, RunAction), "the shell performs run steps only"
    return ProcessSpec(
        argv=shell_argv(order.action.command),
        cwd=order.cwd,
        env=order.env,
        wall_timeout_s=order.policy.step_timeout_seconds,
        idle_timeout_s=order.policy.step_idle_timeout_seconds,
        idle_by=order.policy.idle_by,
        grace_s=order.policy.stop_grace_seconds,
    )


def _outcome(ended: Ended, stdout: Capture, stderr: Capture) -> Outcome:
    kind = _KINDS.get(ended.ended_by)
    killed = ended.ended_by is EndedBy.EXIT and ended.signal is not None
    return Outcome(
        kind=FailureKind.SIGNALLED if killed else kind,
        exit_code=ended.exit_code,
        signal=ended.signal,
        detail=ended.detail or (_signal_name(ended.signal) if killed else ""),
        duration_ms=ended.duration_ms,
        idle_ms=ended.idle_ms,
        stdout=stdout.captured(),
        stderr=stderr.captured(),
        outcome_known=not killed and (kind is None or kind is FailureKind.SPAWN_FAILED),
        interrupted=ended.ended_by is EndedBy.STOPPED,
    )


def _signal_name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"
