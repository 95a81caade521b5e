"""Stored rows as values, and back, whichever database they are in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recoup.ledger.decoding import sound_instant, sound_us
from recoup.model.instant import Instant
from recoup.model.redacted import restored
from recoup.model.storage import Arrival, CheckpointRow, Control, Head, RunRow


def arrival_of(row: Sequence[Any]) -> Arrival:
    number, stream, seq, *at, kind, raw = row
    return Arrival(number, stream, seq, sound_instant(at), kind, restored(raw))


def head_of(row: Sequence[Any]) -> Head:
    stream, seq, *at = row
    return Head(stream, seq, sound_instant(at))


def run_row_of(row: Sequence[Any]) -> RunRow:
    """Its last event may be missing, or have no time: that event is marked, and the run still listed."""
    made = RunRow(*row)
    updated_us = sound_us(made.updated_at_us)
    if made.updated_at_us == updated_us and made.seq:
        return made
    return msgspec.structs.replace(made, updated_at_us=updated_us, seq=made.seq or 0)


def control_of(row: Sequence[Any]) -> Control:
    control_id, run_id, action, reason, actor, wall_us, boot_us, boot_id, *what = row
    step_id, argument, outcome, epoch = what
    return Control(
        id=control_id,
        run_id=run_id,
        action=action,
        reason=reason,
        actor=actor,
        at=Instant(wall_us, boot_us, boot_id),
        step_id=step_id,
        argument=argument,
        outcome=outcome,
        epoch=epoch,
    )


def row_of_control(control: Control) -> tuple[Any, ...]:
    at = control.at
    who = (control.id, control.run_id, control.action, control.reason, control.actor)
    what = (control.step_id, control.argument, control.outcome, control.epoch)
    return (*who, at.wall_us, at.boot_us, at.boot_id, *what)


def checkpoint_of(row: Sequence[Any]) -> CheckpointRow:
    return msgspec.structs.replace(CheckpointRow(*row), valid=bool(row[-1]))
