"""A runtime that does what it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from recoup.model.failure import FailureKind
from recoup.model.outcome import Captured, Order, Outcome
from recoup.ports import Hooks

Script = Mapping[str, Sequence[Outcome] | Callable[[Order], Outcome]]
SUCCESS = Outcome(exit_code=0)


def exits(code: int, stderr: str = "", duration_ms: int = 5) -> Outcome:
    """A process that ended by itself."""
    text = stderr.encode()
    return Outcome(exit_code=code, stderr=Captured(text, b"", len(text)), duration_ms=duration_ms)


def hangs(kind: FailureKind = FailureKind.IDLE_TIMEOUT) -> Outcome:
    return Outcome(kind=kind, outcome_known=False, duration_ms=1000, idle_ms=1000)


class ScriptedRuntime:
    """Works inside the driver. Step by step, attempt by attempt, it reports the outcomes it was given, then success."""

    inline = True

    def __init__(self, script: Script | None = None) -> None:
        self._script = dict(script or {})
        self._used: dict[str, int] = {}
        self.performed: list[tuple[str, int]] = []

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        self.performed.append((order.step_id, order.attempt))
        if hooks.stop.is_set():
            return Outcome(interrupted=True)
        told = self._script.get(order.step_id, ())
        if callable(told):
            return told(order)
        turn = self._used.get(order.step_id, 0)
        self._used[order.step_id] = turn + 1
        return told[turn] if turn < len(told) else SUCCESS
