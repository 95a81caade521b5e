"""What an attempt waits for before it begins: backoff, a cooldown, news of lost commits."""

from __future__ import annotations

from recoup.engine.desk import Desk
from recoup.engine.witness import unsettled_s
from recoup.kernel.elapsed import elapsed_s
from recoup.model import events as ev
from recoup.model.decision import Strategy
from recoup.model.plan import Repeat, is_gate
from recoup.model.run import RunStatus, StepRecord

_SHOWN_WAIT_S = 2
"""A shorter cooldown is not worth two events."""


async def waited(desk: Desk, record: StepRecord) -> bool:
    """False: something came between."""
    left_s, settling_s = _left_to_wait_s(desk, record), _settling_s(desk, record)
    is_cooldown = record.recovery.strategy == Strategy.RETRY and left_s >= _SHOWN_WAIT_S
    if (is_cooldown or settling_s >= _SHOWN_WAIT_S) and not _is_shown(desk):
        await _show(desk, record, max(left_s, settling_s), settling=settling_s > left_s)
    left_s = max(left_s, settling_s)
    if left_s > 0 and await desk.world.clock.wait(desk.halt, left_s):
        return False
    if _is_shown(desk):  # though the rest of the wait was short, or an operator has ended it
        await _show_the_end(desk)
    return True


def _left_to_wait_s(desk: Desk, record: StepRecord) -> float:
    if record.recovery.since is None:
        return 0.0
    delay_s = record.recovery.delay_ms / 1000
    return delay_s - elapsed_s(record.recovery.since, desk.now(), delay_s)


def _settling_s(desk: Desk, record: StepRecord) -> float:
    """Before a step that must not be repeated others may still come back and tell that it was performed."""
    step = desk.step(record)
    once = step.repeat is Repeat.NEVER and not is_gate(step.action)
    return unsettled_s(desk.world) if once else 0.0


def _is_shown(desk: Desk) -> bool:
    """The run counts as waiting for a time. A run that waits for a person has no driver."""
    return desk.state.status is RunStatus.WAITING


async def _show(desk: Desk, record: StepRecord, left_s: float, *, settling: bool) -> None:
    restarted = f"the database server was just started: {record.step_id} waits for news of lost commits"
    await desk.recorder.record(
        ev.RunWaiting(
            reason=restarted if settling else f"cooldown of {record.step_id}",
            until=desk.now().plus_s(left_s).iso(),
            step_id=record.step_id,
            waiting_for="time",
        )
    )


async def _show_the_end(desk: Desk) -> None:
    await desk.recorder.record(
        ev.RunResumed(
            delivery=desk.state.driver.delivery,
            epoch=desk.epoch,
            owner=desk.recorder.lease.owner,
            reason="the wait is over",
            worker=desk.world.worker,
        )
    )
