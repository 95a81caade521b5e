"""What becomes of the page that a run needs next, foreseen without a browser.

A page is lost with its browser. A driver that comes to a step in the browser, or to a gate, opens its address again,
performs once more what was done in it, and compares it with everything that was proven. Whether the page still shows
that is not known before it is opened; everything else follows from what was recorded and kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from recoup.kernel.healing import goes_somewhere, needs_tabs, page_can_be_made_again, page_made_by
from recoup.kernel.outset import KeptPage, Outset
from recoup.model.plan import ApproveAction, BrowserAction, Repeat, Step


class PageForecast(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a run restores the page that it needs."""

    needed_by: str
    since: str
    """The first step that made the page. If the page shows something else, the step whose proof fails and all steps
    after it are performed: none before this one."""
    reason: str = ""
    """Why the page cannot simply be opened again."""
    repeated: tuple[str, ...] = ()
    """Steps that are performed again to restore the page. They stay done."""
    asks_about: tuple[str, ...] = ()
    """Steps that must not be repeated and that the page needs: the run stops and asks a person first."""
    unless_shown: bool = False
    """The person is not asked about those of them that the page shows to be done."""


def page_forecast(run: Outset) -> PageForecast | None:
    """None: the run needs no page that was there before."""
    index = _needed_by(run)
    if index is None:
        return None
    skipped = {record.index for record in run.records if record.skipped}
    made_by = page_made_by(run.steps, index, skipped)
    if not made_by or all(record.results.page is None for record in run.records[:index]):
        return None
    about = PageForecast(needed_by=run.steps[index].id, since=run.steps[made_by[0]].id)
    is_next = run.done.issuperset(range(index))
    if run.resets and is_next and page_can_be_made_again(run.steps, index, skipped):
        return _made_again(run, about, "a hard reset is due", made_by)
    why = _why_made_again(run, index)
    return _made_again(run, about, why, made_by) if why else _opened_again(run, about, index)


def why_outdated(kept: KeptPage, before: Sequence[Step]) -> str:
    """In words, if the kept page is another document than these steps have left; "" otherwise."""
    if kept.loaded_by is None or kept.loaded_by in {step.id for step in before}:
        return ""
    return f"{kept.loaded_by} has left it since"


def _needed_by(run: Outset) -> int | None:
    """The first step to come that looks at the page which is there."""
    for index, step in enumerate(run.steps):
        if index in run.done or not isinstance(step.action, BrowserAction | ApproveAction):
            continue
        is_left = goes_somewhere(step) and not _lost_in_tabs(run, index)
        return None if is_left or index == run.gate_reached else index
    return None


def _lost_in_tabs(run: Outset, index: int) -> bool:
    """Something was done in the document of another tab that a later step turns to."""
    has_traces = run.kept is not None and bool(run.kept.touched_elsewhere)
    return has_traces and not run.as_is and needs_tabs(run.steps, index)


def _why_made_again(run: Outset, index: int) -> str:
    """Why opening the page again is not enough."""
    if run.kept is None:
        return "nothing was kept of it"
    if not run.as_is and (outdated := why_outdated(run.kept, run.steps[:index])):
        return outdated
    if run.kept.touched_by is None:
        return "what was done in it is not known"
    if not {*run.kept.touched_by} <= {step.id for step in run.steps}:
        return "steps of another plan did something in it"
    if _lost_in_tabs(run, index):
        return "what was done in its other tabs is lost"
    return ""


def _made_again(run: Outset, about: PageForecast, why: str, made_by: list[int]) -> PageForecast:
    """All steps that made it are performed again, if they may be; otherwise a person is asked first."""
    once = [index for index in made_by if not _may_repeat(run, index)]
    if once:
        return msgspec.structs.replace(about, reason=why, asks_about=_ids(run, once))
    return msgspec.structs.replace(about, reason=why, repeated=_ids(run, made_by))


def _opened_again(run: Outset, about: PageForecast, index: int) -> PageForecast:
    """The steps that did something in the document are performed again."""
    touched_by = run.kept.touched_by if run.kept is not None else None
    lost = [number for number in range(index) if run.steps[number].id in (touched_by or ())]
    if not lost:
        return about
    once = [] if run.as_is else [number for number in lost if not _may_repeat(run, number)]
    again = [number for number in lost if _may_repeat(run, number)]
    return msgspec.structs.replace(
        about,
        reason="what was done in it is lost",
        repeated=_ids(run, again),
        asks_about=_ids(run, once),
        unless_shown=bool(once),
    )


def _may_repeat(run: Outset, index: int) -> bool:
    step = run.steps[index]
    return step.repeat is Repeat.SAFE or step.id in run.repeats


def _ids(run: Outset, indices: list[int]) -> tuple[str, ...]:
    return tuple(run.steps[index].id for index in indices)
