"""States that differ in a few records, and lists of pending steps that differ in one."""

from __future__ import annotations

from msgspec.structs import replace

from recoup.model.run import RunState, StepRecord


def with_steps(state: RunState, *records: StepRecord) -> RunState:
    """The state with these records in their places."""
    steps = state.steps
    for record in records:
        steps = steps.replaced(record.index, record)
    return replace(state, steps=steps)


def without(indexes: tuple[int, ...], gone: int) -> tuple[int, ...]:
    return tuple(index for index in indexes if index != gone)
