"""An earlier run, as one looks back at it: what it has done, what it may have done, and what it could not keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from recoup.kernel.deeds import (
    ENDS_THE_STEP,
    Claim,
    GivenBack,
    claim_of,
    is_settled_as_not_done,
    may_be_done,
)
from recoup.kernel.position import is_over
from recoup.kernel.prefix import is_good
from recoup.model import events as ev
from recoup.model.events import CheckpointIncomplete, Event
from recoup.model.plan import Plan
from recoup.model.run import RunState, RunStatus, StepRecord

_DONE = "was done"
_MAYBE_DONE = "may have been done (its outcome is not known)"


class Deed(msgspec.Struct, frozen=True):
    """A step that has had, or may have had, its effect."""

    run_id: str
    words: str
    args_digest: str | None
    start: str = ""
    """Which start claimed it. "": none did, as of a step that was reused."""
    under_way: bool = False
    """Its run may still do it, or find out that it did, with nobody asked: what a person sees now may change."""

    @property
    def is_known(self) -> bool:
        return self.words == _DONE


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """The run that is looked back at."""

    state: RunState
    plan: Plan
    """As it was run: the ledger's own may be redacted."""
    performed: Mapping[str, tuple[Deed, ...]] = {}
    """By step; in this run, and in those that reused it or that it reused."""
    incomplete: dict[int, CheckpointIncomplete] = {}
    """What the checkpoints of its steps lack."""


def look_back(state: RunState, plan: Plan, events: Iterable[Event]) -> Earlier:
    """`plan`: as it was run."""
    words: dict[str, str] = {}
    starts: dict[tuple[str, str], str] = {}
    incomplete: dict[int, CheckpointIncomplete] = {}
    for event in events:
        _remember(event.payload, words, incomplete)
        _remember_claim(event.payload, starts)
    for record in state.steps:
        if record.open is not None and record.open.launched and record.open.phase in ENDS_THE_STEP:
            words[record.step_id] = _MAYBE_DONE
        if record.doubt.lost and not is_good(record):
            words[record.step_id] = _MAYBE_DONE
    performed = {
        record.step_id: (
            Deed(
                state.run_id,
                words[record.step_id],
                record.beginning.args_digest,
                starts.get((record.step_id, record.beginning.args_digest or ""), ""),
                under_way=words[record.step_id] == _MAYBE_DONE and _goes_on_unasked(state, record),
            ),
        )
        for record in state.steps
        if record.step_id in words
    }
    return Earlier(state=state, plan=plan, performed=performed, incomplete=incomplete)


def _goes_on_unasked(state: RunState, record: StepRecord) -> bool:
    """With that step. Also a run whose driver was lost: another may take it up at any time."""
    asks = state.status is RunStatus.ESCALATED or (
        record.open is None and (record.doubt.outcome_unknown or bool(record.doubt.lost))
    )
    return not is_over(state) and not asks


def with_family(earlier: Earlier, family: Iterable[Earlier]) -> Earlier:
    """What was done in the runs that go on from the same one must not be repeated either."""
    performed = dict(earlier.performed)
    for relative in family:
        for step_id, deeds in relative.performed.items():
            performed[step_id] = (*performed.get(step_id, ()), *deeds)
    return msgspec.structs.replace(earlier, performed=performed)


def was_good(earlier: Earlier, step_id: str) -> bool:
    """Wherever it stood there."""
    return any(record.step_id == step_id and is_good(record) for record in earlier.state.steps)


def _remember(
    payload: ev.Payload, performed: dict[str, str], incomplete: dict[int, CheckpointIncomplete]
) -> None:
    match payload:
        case ev.AttemptFinished() if payload.phase in ENDS_THE_STEP:
            performed[payload.step_id] = _DONE
        case ev.AttemptFailed() if payload.phase in ENDS_THE_STEP and may_be_done(payload):
            performed[payload.step_id] = _MAYBE_DONE
        case ev.AttemptFailed() if payload.phase in ENDS_THE_STEP and not payload.not_begun:
            performed.pop(payload.step_id, None)
        case ev.StepReused():
            incomplete.pop(payload.step_index, None)
            if not payload.skipped:
                performed[payload.step_id] = _DONE
        case ev.ControlHandled() if is_settled_as_not_done(payload):
            performed.pop(payload.step_id or "", None)
        case ev.CheckpointStored():
            incomplete.pop(payload.step_index, None)
        case ev.CheckpointIncomplete():
            incomplete[payload.step_index] = payload
        case _:
            pass


def _remember_claim(payload: ev.Payload, starts: dict[tuple[str, str], str]) -> None:
    """As a ledger keeps it: the first claim stands until it is given back."""
    match claim_of(payload):
        case Claim(step_id=step_id, args_digest=args, start=start):
            starts.setdefault((step_id, args), start)
        case GivenBack(step_id, start):
            gone = [key for key, by in starts.items() if key[0] == step_id and start in (None, by)]
            for key in gone:
                del starts[key]
        case _:
            pass
