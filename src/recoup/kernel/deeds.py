"""Deeds that must be done once among linked runs: the start of an attempt claims one, and an end that proves that it
was not done gives it back. Whose a deed is follows from the events alone."""

from __future__ import annotations

import msgspec

from recoup.kernel.prefix import is_good
from recoup.model import events as ev
from recoup.model.failure import FailureKind
from recoup.model.plan import BrowserAction, Repeat, Step
from recoup.model.run import StepRecord

ENDS_THE_STEP = ("main", "rescue")
"""The phases in which a step can have its effect."""
BESIDE = ("rebuild", "always")
"""The others: they say nothing about how the step ended."""
_DONE_BUT = (FailureKind.OUTPUT_INVALID, FailureKind.SECRET_UNDECLARED)
"""All that it does was done; only what it gave cannot be used."""


class Claim(msgspec.Struct, frozen=True):
    """This step with these arguments is the run's to do, and nobody else's in its family."""

    step_id: str
    args_digest: str
    start: str
    """Which one it was: handlers share the number of the next attempt."""
    over: tuple[ev.EarlierDeed, ...] = ()
    """Claims of other runs that end with this one: a person let it be done again."""

    def may_follow(self, holder: str, start: str) -> bool:
        """That claim of another run does not stand in the way."""
        return any((deed.run_id, deed.start) == (holder, start) for deed in self.over)


class GivenBack(msgspec.Struct, frozen=True):
    """It was not done: another run may."""

    step_id: str
    start: str | None = None
    """Only what this start has claimed; None: whatever was claimed for the step."""


def claim_of(payload: ev.Payload) -> Claim | GivenBack | None:
    """What this fact changes about who may do a step. Asked for every start, hence without a look at the rest."""
    if isinstance(payload, ev.AttemptStarted):
        about = (payload.step_id, payload.args_digest, _start(payload))
        return Claim(*about, payload.again_after) if payload.once else None
    if isinstance(payload, ev.AttemptFailed):
        return _given_back(payload)
    if isinstance(payload, ev.ControlHandled) and is_settled_as_not_done(payload):
        return GivenBack(payload.step_id or "")
    return None


CLAIMING = frozenset(event.TYPE for event in (ev.AttemptStarted, ev.AttemptFailed, ev.ControlHandled))
"""The types of event that may change a claim: others need not be looked at."""


def _given_back(failed: ev.AttemptFailed) -> GivenBack | None:
    if failed.phase not in ENDS_THE_STEP or may_be_done(failed):
        return None
    return GivenBack(failed.step_id, _start(failed)) if failed.not_begun else GivenBack(failed.step_id)


def _start(payload: ev.AttemptStarted | ev.AttemptFailed) -> str:
    return f"{payload.phase}-{payload.attempt}"


def may_be_done(failed: ev.AttemptFailed) -> bool:
    """It failed, and has had its effect all the same, or may have had it. Handlers that were cut off count as not begun
    because they are done again from the first; what they had done by then is not known."""
    cut_off = failed.not_begun and failed.phase == "rescue"
    return cut_off or not failed.outcome_known or failed.failure_kind in _DONE_BUT


def is_settled_as_not_done(handled: ev.ControlHandled) -> bool:
    said = (handled.action, handled.outcome, handled.argument)
    return said == ("settle", "accepted", "not-done") and handled.step_id is not None


def is_done_for_good(step: Step, record: StepRecord) -> bool:
    """It must not be done twice. What was skipped was not done."""
    return step.repeat is Repeat.NEVER and is_good(record) and not record.skipped


LOST_WITH_BROWSER = (
    "Its cookies and its page are lost with the browser. `done` continues without them: if later steps need what it "
    "left in the browser (a sign-in), answer `not-done`, and it is performed again."
)
_ENDS_THE_BROWSER = (FailureKind.DRIVER_LOST, FailureKind.BROWSER_CRASHED)


def lost_words(step: Step, record: StepRecord, failure: FailureKind | None = None) -> str:
    """For the person who settles the step: what is gone whatever they answer. "" if nothing is. `failure`: that of an
    attempt that ends now."""
    return LOST_WITH_BROWSER if _is_lost_with_browser(step, record, failure or record.failure.kind) else ""


def _is_lost_with_browser(step: Step, record: StepRecord, failure: FailureKind | None) -> bool:
    """What it may have left in its browser is gone."""
    if not isinstance(step.action, BrowserAction):
        return False
    return record.is_done_elsewhere or bool(record.doubt.lost) or failure in _ENDS_THE_BROWSER
