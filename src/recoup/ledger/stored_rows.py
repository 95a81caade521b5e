"""Stored rows as values, and back, whichever database they are in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, get_type_hints

import msgspec

from recoup.ledger.decoding import sound_count, sound_instant, sound_text, sound_us
from recoup.model.instant import LATEST_US
from recoup.model.redacted import restored
from recoup.model.storage import (
    OLDEST_US,
    Arrival,
    AttemptRow,
    CheckpointRow,
    Control,
    Head,
    Place,
    RunRow,
)

_TEXTS_OF_ATTEMPTS = (
    *("verdict", "failure_kind", "failure_class", "failure_signature", "diff_hash", "strategy"),
)


def arrival_of(row: Sequence[Any]) -> Arrival:
    number, stream, seq, *at, kind, raw = row
    return Arrival(number, stream, seq, sound_instant(at), kind, restored(raw))


def head_of(row: Sequence[Any]) -> Head:
    stream, seq, *at = row
    return Head(stream, seq, sound_instant(at))


def run_row_of(row: Sequence[Any]) -> RunRow:
    """The stored columns in the order of the fields, as far as they can be read: a damaged row must not keep others
    from being listed, and the events say the truth. Its last event may be missing, or have no time."""
    return RunRow(*(read(stored) for read, stored in zip(_readers_of_a_run(), row, strict=True)))


@cache
def _readers_of_a_run() -> tuple[Callable[[object], Any], ...]:
    return tuple(_reader(name, kind) for name, kind in get_type_hints(RunRow).items())


def _reader(name: str, kind: object) -> Callable[[object], Any]:
    if kind in (str, str | None):
        return sound_text if kind is str else _text_or_none
    sound = sound_us if name.endswith("_us") else sound_count
    return sound if kind is int else lambda stored: None if stored is None else sound(stored)


def place_of(submitted_us: object, run_id: object) -> Place:
    """Where a run stands in lists, by its row as it is stored: the next page begins behind that, whatever is shown.
    What is no time, or beyond the calendar, stands before the newest run."""
    if isinstance(submitted_us, int | float) and OLDEST_US <= submitted_us <= LATEST_US:
        return int(submitted_us), sound_text(run_id)
    return LATEST_US, sound_text(run_id)


def attempt_of(row: Sequence[Any]) -> AttemptRow:
    """What can be read of it, as of a run."""
    made = AttemptRow(*row)
    return msgspec.structs.replace(
        made,
        step_id=sound_text(made.step_id),
        attempt=sound_count(made.attempt),
        delivery=sound_count(made.delivery),
        state=sound_text(made.state),
        started_at_us=sound_us(made.started_at_us),
        ended_at_us=None if made.ended_at_us is None else sound_us(made.ended_at_us),
        phase=sound_text(made.phase),
        **{name: _text_or_none(getattr(made, name)) for name in _TEXTS_OF_ATTEMPTS},
    )


def _text_or_none(stored: object) -> str | None:
    return None if stored is None else sound_text(stored)


def control_of(row: Sequence[Any]) -> Control:
    control_id, run_id, action, reason, actor, wall_us, boot_us, boot_id, *what = row
    step_id, argument, outcome, epoch = what
    return Control(
        id=control_id,
        run_id=run_id,
        action=action,
        reason=reason,
        actor=actor,
        at=sound_instant((wall_us, boot_us, boot_id)),
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
    made = CheckpointRow(*row)
    return msgspec.structs.replace(made, stored_at_us=sound_us(made.stored_at_us), valid=bool(made.valid))
