"""One attempt as a process tree: kept, timed, logged, captured, and told as an outcome. Shell, Python and agents
share it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

import msgspec

from recoup.machine import TROUBLE_ERRORS
from recoup.model.failure import FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.outcome import Order, Outcome, Progress
from recoup.model.process import Ended, EndedBy, ProcessSpec
from recoup.ports import Hooks, Keeper, OutputSink
from recoup.runtimes.capture import Capture
from recoup.runtimes.progress_line import PROGRESS_VARIABLE, ProgressPipe, Said, one_line
from recoup.runtimes.reset_request import RESET_VARIABLE, Request, ResetPipe
from recoup.runtimes.step_log import StepLog
from recoup.runtimes.taking import took_too_much

_KINDS = {
    EndedBy.WALL_TIMEOUT: FailureKind.WALL_TIMEOUT,
    EndedBy.IDLE_TIMEOUT: FailureKind.IDLE_TIMEOUT,
    EndedBy.LIFELINE: FailureKind.DRIVER_LOST,
    EndedBy.SPAWN_FAILED: FailureKind.SPAWN_FAILED,
    EndedBy.PROCESSES_MAX: FailureKind.TOO_MANY_PROCESSES,
    EndedBy.MEMORY_MAX: FailureKind.OUT_OF_MEMORY,
}
_BY_THE_STEP: Final = frozenset({EndedBy.EXIT, EndedBy.STOPPED})
"""How an attempt ends that asked for it: stopped, or by itself before that."""


async def perform_process(
    keeper: Keeper,
    open_log: Callable[[Order], StepLog],
    order: Order,
    hooks: Hooks,
    argv: tuple[str, ...],
    stdin: bytes = b"",
    listen: Callable[[StepLog], OutputSink] | None = None,
    note: str = "",
) -> Outcome:
    """What the process came to; `kind` is None when it ran to its own end and was not killed. Who listens hears all
    output as it comes, and may say that it was no progress. A note stands at the beginning of the log."""
    captures = {name: Capture(order.policy.output_bytes_max) for name in ("stdout", "stderr")}
    with open_log(order) as log:
        heed = listen(log) if listen else None
        if note:
            log.note(note)

        def output(stream: str, chunk: bytes) -> bool | None:
            captures[stream].feed(chunk)
            redacted = log.feed(stream, chunk)
            if redacted:
                hooks.said(stream, redacted)
            return heed(stream, chunk) if heed else None

        def show(said: Said) -> None:
            note = one_line(log.redacted(said.note).text)
            hooks.progressed(Progress(log.redacted(note), said.done, said.total))

        async def launched(identity: ProcessIdentity) -> None:
            if not reset.is_told():
                await hooks.launched(identity)
            reset.is_told()

        with ProgressPipe(order, show) as progress, ResetPipe(order, hooks.stop) as reset:
            ended = await keeper.keep(
                _spec(order, argv, stdin, {PROGRESS_VARIABLE: progress.path, RESET_VARIABLE: reset.path}),
                before_exec=launched,
                lifeline=hooks.lifeline,
                output=output,
                stop=reset.stop,
                pulse=progress,
            )
            reset.drain()
    outcome = _outcome(ended, captures["stdout"], captures["stderr"])
    if reset.request is None or hooks.stop.is_set() or ended.ended_by not in _BY_THE_STEP:
        return outcome
    return _asked(outcome, reset.request)


def _spec(order: Order, argv: tuple[str, ...], stdin: bytes, more: dict[str, str]) -> ProcessSpec:
    return ProcessSpec(
        argv=argv,
        cwd=order.cwd,
        env={**order.env, **more},
        wall_timeout_s=order.policy.step_timeout_seconds,
        idle_timeout_s=order.policy.step_idle_timeout_seconds,
        idle_by=order.policy.idle_by,
        grace_s=order.policy.stop_grace_seconds,
        stdin=stdin,
        processes_max=order.policy.step_processes_max,
        memory_max_bytes=order.policy.step_memory_max_bytes,
    )


def _outcome(ended: Ended, stdout: Capture, stderr: Capture) -> Outcome:
    kind = _KINDS.get(ended.ended_by)
    if kind is FailureKind.SPAWN_FAILED and ended.errno in TROUBLE_ERRORS:
        kind = FailureKind.MACHINE_TROUBLE
    killed = ended.ended_by is EndedBy.EXIT and (ended.signal is not None or ended.out_of_memory)
    by = FailureKind.OUT_OF_MEMORY if ended.out_of_memory else FailureKind.SIGNALLED
    return Outcome(
        kind=by if killed else kind,
        exit_code=ended.exit_code,
        signal=ended.signal,
        detail=took_too_much(ended)
        or ended.detail
        or (_signal_name(ended.signal or signal.SIGKILL) if killed else ""),
        duration_ms=ended.duration_ms,
        idle_ms=ended.idle_ms,
        stdout=stdout.captured(),
        stderr=stderr.captured(),
        outcome_known=not killed and (kind is None or ended.ended_by is EndedBy.SPAWN_FAILED),
        interrupted=ended.ended_by is EndedBy.STOPPED,
    )


def _signal_name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"


def _asked(outcome: Outcome, request: Request) -> Outcome:
    """It was in the middle of something, or says so: what it did until then nobody knows."""
    return msgspec.structs.replace(
        outcome,
        kind=request.failure,
        detail=request.reason.strip() or "no reason was given",
        outcome_known=False,
        interrupted=False,
    )
