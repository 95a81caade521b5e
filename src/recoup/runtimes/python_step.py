"""`python:` steps: a function in a process of its own, so that time limits and kills work as for any command."""

from __future__ import annotations

import marshal
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from recoup.errors import KeeperError
from recoup.kernel.classify import exception_name
from recoup.model.failure import FailureKind
from recoup.model.outcome import Order, Outcome
from recoup.model.plan import PythonAction
from recoup.ports import Hooks, Keeper
from recoup.runtimes import python_child
from recoup.runtimes.named_pipe import NamedPipe, pipe_path
from recoup.runtimes.process_attempt import perform_process
from recoup.runtimes.step_log import StepLog

_BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from recoup.runtimes.python_child import main; main()"
)
_WORDS_BYTES: Final = 64 << 10
"""What an answer may take beside the outputs."""
_HUNG_AT: Final = re.compile(
    r"^Current thread 0x[0-9a-f]+ \(most recent call first\):\n +File (.+)", re.MULTILINE
)


class PythonRuntime:
    """Functions, called by the interpreter that runs Recoup, with the step's folder first on the path."""

    inline = False

    def __init__(self, keeper: Keeper, open_log: Callable[[Order], StepLog]) -> None:
        self._keeper = keeper
        self._open_log = open_log

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        answer = _Answer(order.policy.outputs_bytes_max + _WORDS_BYTES)
        with _pipe(order, answer) as pipe:
            outcome = await perform_process(
                self._keeper, self._open_log, order, hooks, _argv(), _call(order, str(pipe.path))
            )
            pipe.drain()
        # A process that was stopped or killed may have spoken before: how it ended is what counts.
        if outcome.kind or outcome.interrupted:
            return _located(outcome)
        return _concluded(outcome, bytes(answer.text))


class _Answer:
    """What the child wrote, up to a limit."""

    def __init__(self, limit_bytes: int) -> None:
        self.text = bytearray()
        self._limit = limit_bytes

    def take(self, chunk: bytes) -> None:
        self.text += chunk[: self._limit - len(self.text)]


def _pipe(order: Order, answer: _Answer) -> NamedPipe:
    try:
        return NamedPipe(pipe_path(order, "answer"), answer.take)
    except OSError as error:
        raise KeeperError(
            f"a pipe for a step's answer could not be made: {error}",
            hint="The state folder (RECOUP_HOME) must lie on a file system that can hold pipes and has room.",
        ) from error


def _argv() -> tuple[str, ...]:
    """`-P`: nothing in the step's folder may take the place of a module before the function is looked for."""
    return (sys.executable, "-P", "-c", _BOOT, str(Path(python_child.__file__).parents[2]))


def _call(order: Order, pipe: str) -> bytes:
    action = order.action
    assert isinstance(action, PythonAction), "the Python runtime performs python steps only"
    arguments = msgspec.to_builtins(action.arguments)
    return marshal.dumps((action.target, arguments, pipe, order.policy.outputs_bytes_max))


class _Told(msgspec.Struct, frozen=True, rename="camel"):
    """One of the answers of `python_child`."""

    returned: dict[str, Any] | None = None
    refused: str | None = None
    unsayable: str | None = None
    raised: tuple[str, ...] = ()
    message: str = ""
    retry_after_s: float | None = None


def _concluded(outcome: Outcome, answer: bytes) -> Outcome:
    if not answer:
        return outcome
    try:
        told = msgspec.json.decode(answer, type=_Told)
    except msgspec.DecodeError as error:
        return _failed(outcome, FailureKind.OUTPUT_INVALID, f"what the function returned is torn: {error}")
    if told.refused is not None:
        return _failed(outcome, FailureKind.INVALID_INPUT, told.refused)
    if told.unsayable is not None:
        return _failed(outcome, FailureKind.OUTPUT_INVALID, told.unsayable)
    if told.raised:
        return msgspec.structs.replace(
            _failed(outcome, FailureKind.EXCEPTION, told.message),
            exception=exception_name(told.raised),
            retry_after_s=told.retry_after_s,
        )
    return msgspec.structs.replace(outcome, outputs=told.returned or {})


def _located(outcome: Outcome) -> Outcome:
    """A process that is told to end for its silence first writes down where it is."""
    if outcome.kind not in (FailureKind.WALL_TIMEOUT, FailureKind.IDLE_TIMEOUT):
        return outcome
    places = _HUNG_AT.findall(outcome.stderr.last(_WORDS_BYTES).decode("utf-8", "replace"))
    return msgspec.structs.replace(outcome, detail=f"it hung at {places[-1]}") if places else outcome


def _failed(outcome: Outcome, kind: FailureKind, detail: str) -> Outcome:
    return msgspec.structs.replace(outcome, kind=kind, detail=detail)
