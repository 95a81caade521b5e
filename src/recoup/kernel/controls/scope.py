"""Exactly what a control would touch, and the sentences in which controls say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from recoup.kernel.position import current_step
from recoup.model.run import RunState, StepRecord

TAKES_UP: Final = "Nothing that is proven is done again."
_LISTED_MAX: Final = 50


class EndedAttempt(msgspec.Struct, frozen=True, rename="camel"):
    step_id: str
    attempt: int


class Scope(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Exactly what it would touch."""

    ends: tuple[EndedAttempt, ...] = ()
    """Attempts under way that are cut off, with all their processes."""
    again: tuple[str, ...] = ()
    """Steps whose results count no more and that are performed again: the first of them."""
    again_count: int = 0
    restores: str | None = None
    """What the workspace is brought back to; null: it is left as it is."""
    ends_run: bool = False
    words: tuple[str, ...] = ()
    """The same for people."""


def sentences(*each: str) -> tuple[str, ...]:
    return tuple(sentence for sentence in each if sentence)


def under_way(state: RunState) -> tuple[EndedAttempt, ...]:
    return tuple(
        EndedAttempt(record.step_id, record.open.attempt) for record in state.steps if record.open is not None
    )


def cut_off_words(ends: tuple[EndedAttempt, ...]) -> str:
    return f"{attempt_names(ends)} is ended now, with all its processes." if ends else ""


def attempt_names(some: tuple[EndedAttempt, ...]) -> str:
    names = ", ".join(f"attempt {one.attempt} of {one.step_id}" for one in some)
    return f"A{names[1:]}"


def place(state: RunState) -> str:
    step = current_step(state)
    return "its end" if step is None else step.step_id


def origin(state: RunState, index: int) -> str:
    """What a workspace before this step holds, in words."""
    base = (
        state.workspaces.base
        if state.workspaces.base is not None and state.workspaces.base.index <= index
        else None
    )
    since = 0 if base is None else base.index
    kept = [record for record in state.steps[since:index] if record.results.checkpoint is not None]
    if kept:
        return f"the end of {kept[-1].step_id}"
    return (
        "the beginning" if base is None else f"what an operator left before {state.steps[base.index].step_id}"
    )


def next_driver(state: RunState, driven: bool) -> str:
    if driven:
        return ""
    if state.queueing.queue is not None:
        return f"A worker of the queue {state.queueing.queue} takes it up."
    return f"Nobody drives it now: recoup resume {state.run_id} goes on."


def kept_words(state: RunState) -> str:
    """What is left of a run that ends; nothing is not worth a word."""
    proven = first_steps(state, state.progress.prefix_length, "stays", "stay")
    return f"{proven} proven, for a new run to reuse." if state.progress.prefix_length else ""


def first_steps(state: RunState, count: int, one: str, many: str) -> str:
    total = len(state.steps)
    return f"The first of {total} steps {one}" if count == 1 else f"The first {count} of {total} steps {many}"


def step_names(records: Sequence[StepRecord]) -> str:
    """The first and the last of many."""
    names = [record.step_id for record in records]
    if len(names) <= 4:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} … {names[-1]} ({len(names)} steps)"


def listed(records: Sequence[StepRecord]) -> tuple[str, ...]:
    return tuple(record.step_id for record in records[:_LISTED_MAX])
