"""A run as the next driver would find it: what is done, and what was kept of what its steps have left behind."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from recoup.model.plan import Step
from recoup.model.run import RunState, StepRecord


class KeptPage(msgspec.Struct, frozen=True):
    """What was kept of a run's page."""

    touched_by: tuple[str, ...] | None
    """The steps that did something in its document. None: this is not known."""
    loaded_by: str | None = None
    """The step that loaded its document. None: kept by a version that did not say so."""
    touched_elsewhere: tuple[str, ...] = ()
    """The steps that did something in the documents of other tabs."""


class Outset(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a new driver would find it."""

    steps: tuple[Step, ...]
    records: Sequence[StepRecord]
    """Of all steps, or of the leading ones that are done."""
    done: frozenset[int]
    """Steps that count as done."""
    kept: KeptPage | None = None
    resets: bool = False
    """A hard reset is due."""
    gate_reached: int | None = None
    """The gate at which an operator was asked."""
    repeats: tuple[str, ...] = ()
    """Steps that must not be repeated, and that an operator let be performed again for the page."""
    as_is: bool = False
    """An operator said to continue on the page as it is."""


def outset_in_place(state: RunState, done: frozenset[int], *, resets: bool, goes_back: bool) -> Outset:
    """Of a run that goes on. `goes_back`: steps that are good by now are not, so that answers no longer count."""
    return Outset(
        steps=state.plan.steps,
        records=state.steps[:],
        done=done,
        resets=resets,
        gate_reached=None if goes_back else state.progress.gate_reached,
        repeats=() if goes_back else state.page.repeats,
        as_is=state.page.as_is and not goes_back,
    )
