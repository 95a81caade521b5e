"""What becomes of the page that a run needs next, foreseen without a browser.

A page is lost with its browser. A driver that comes to a step in the browser, or to a gate, opens its address again,
performs once more what was done in it, and holds it against all that was proven. Whether it still shows that is not
known before it is opened; everything else follows from what was recorded and kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from recoup.kernel.healing import page_can_be_made_again, page_made_by
from recoup.kernel.prefix import is_good
from recoup.model.plan import ApproveAction, BrowserAction, BrowserVerb, Repeat, Step
from recoup.model.run import RunState, StepRecord


class KeptPage(msgspec.Struct, frozen=True):
    """What was kept of a run's page."""

    touched_by: tuple[str, ...] | None
    """The steps that did something in its document. None: this is not known."""


class Outset(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a new driver would find it."""

    steps: tuple[Step, ...]
    records: Sequence[StepRecord]
    """Of all steps, or of the leading ones that are done."""
    done: frozenset[int]
    """Steps that count as done."""
    kept: KeptPage | None = None
    outdated_by: str | None = None
    """The step that acted on the kept page last, if it does not count as done."""
    resets: bool = False
    """A hard reset is due."""
    gate_reached: int | None = None
    """The gate at which somebody was asked."""


class PageForecast(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a run gets back the page that it needs."""

    needed_by: str
    since: str
    """The step from which on all are performed again if the page shows something else."""
    reason: str = ""
    """Why the page cannot simply be opened again."""
    repeated: tuple[str, ...] = ()
    """Steps that are performed again to restore the page. They stay done."""
    performed: tuple[str, ...] = ()
    """Steps that count as not done."""
    asks_about: str | None = None
    """One of these, which must not be repeated: the run stops and asks a person."""


def page_forecast(run: Outset) -> PageForecast | None:
    """None: the run needs no page that was there before."""
    index = _needed_by(run)
    if index is None:
        return None
    skipped = {record.index for record in run.records if record.skipped}
    made_by = page_made_by(run.steps, index, skipped)
    if not made_by or all(record.page is None for record in run.records[:index]):
        return None
    about = PageForecast(needed_by=run.steps[index].id, since=run.steps[made_by[0]].id)
    if run.outdated_by is not None:
        again = [number for number in sorted(run.done) if number >= made_by[0]]
        return _performed(run, about, outdated_words(run.outdated_by), again)
    return _brought_back(run, about, index, made_by)


def page_outdated_by(state: RunState, done: Collection[int]) -> str | None:
    """The step that acted last on the page that was kept, if it is not one of these."""
    left_by = state.page_left_by
    ids = {state.steps[index].step_id for index in done}
    return state.page_outdated_by or (None if left_by is None or left_by in ids else left_by)


def page_made_anew(state: RunState) -> int | None:
    """The step from which on the page is made anew before the run goes on: where somebody went back behind the steps
    that have acted on it, and it is needed. None: it is not needed, or as it was."""
    if state.page_outdated_by is None:
        return None
    run = Outset(
        steps=state.plan.steps,
        records=state.steps,
        done=frozenset(record.index for record in state.steps if is_good(record)),
        outdated_by=state.page_outdated_by,
        gate_reached=state.gate_reached,
    )
    page = page_forecast(run)
    ids = [step.id for step in state.plan.steps]
    return None if page is None else ids.index(page.since)


def outdated_words(step_id: str) -> str:
    return f"{step_id} has acted on its page since"


def _needed_by(run: Outset) -> int | None:
    """The first step to come that looks at the page which is there."""
    for index, step in enumerate(run.steps):
        if index in run.done or not isinstance(step.action, BrowserAction | ApproveAction):
            continue
        return None if _goes_somewhere(step) or index == run.gate_reached else index
    return None


def _brought_back(run: Outset, about: PageForecast, index: int, made_by: list[int]) -> PageForecast:
    if run.kept is None:
        return _repeated(run, about, "nothing was kept of it", made_by)
    if run.kept.touched_by is None:
        return _repeated(run, about, "what was done in it is not known", made_by)
    if run.resets and _is_next(run, index) and page_can_be_made_again(run.steps, index):
        return _repeated(run, about, "a hard reset is due", made_by)
    touched = [number for number in range(index) if run.steps[number].id in run.kept.touched_by]
    again = touched or (made_by if run.kept.touched_by else [])
    return _repeated(run, about, "what was done in it is lost" if again else "", again)


def _is_next(run: Outset, index: int) -> bool:
    return run.done.issuperset(range(index))


def _repeated(run: Outset, about: PageForecast, why: str, again: list[int]) -> PageForecast:
    """They are performed again, if all of them may be; otherwise none is, and a person is asked."""
    if _may_repeat(run, again):
        return msgspec.structs.replace(about, reason=why, repeated=_ids(run, again))
    begins = page_made_by(run.steps, again[-1] + 1)[0]
    lost = [number for number in sorted(run.done) if number >= begins]
    return _performed(
        run, about, why, [one for one in lost if isinstance(run.steps[one].action, BrowserAction)]
    )


def _performed(run: Outset, about: PageForecast, why: str, again: list[int]) -> PageForecast:
    never = [number for number in again if run.steps[number].repeat is Repeat.NEVER]
    asked = next((run.steps[number].id for number in never if not run.records[number].skipped), None)
    return msgspec.structs.replace(about, reason=why, performed=_ids(run, again), asks_about=asked)


def _may_repeat(run: Outset, indices: list[int]) -> bool:
    return all(run.steps[index].repeat is Repeat.SAFE for index in indices)


def _goes_somewhere(step: Step) -> bool:
    return isinstance(step.action, BrowserAction) and step.action.verb is BrowserVerb.GOTO


def _ids(run: Outset, indices: list[int]) -> tuple[str, ...]:
    return tuple(run.steps[index].id for index in indices)
