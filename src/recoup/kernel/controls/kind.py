"""What a control is: one value that answers for it wherever it is offered, refused, previewed, recorded or carried
out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

import msgspec

from recoup.kernel.controls.scope import Scope
from recoup.model.events import ControlHandled, Payload
from recoup.model.policy import Policy
from recoup.model.run import RunState
from recoup.model.storage import Control

FORCE: Final = "force"
"""The argument of a control that may go beyond a limit, and is to."""


class StepUse(Enum):
    """Which step a control is about."""

    NONE = "none"
    """It is about the run."""
    CURRENT = "current"
    """The one at which the run stands. It may be named; a run that stands elsewhere then refuses."""
    ASKED = "asked"
    """The one that an escalation asks about. Whoever answers must name it."""
    CHOSEN = "chosen"
    """Any that can be gone back to. It must be named, and every step offers it."""

    @property
    def is_required(self) -> bool:
        return self in (StepUse.ASKED, StepUse.CHOSEN)


class Takes(msgspec.Struct, frozen=True, kw_only=True):
    """What must or may be given with a control, at every edge."""

    step: StepUse = StepUse.NONE
    answers: tuple[str, ...] = ()
    """One of these must be given. Empty: it takes none."""
    look_first: str = ""
    """What to do before answering."""
    beyond: str = ""
    """The limit beyond which force goes. Empty: it cannot be forced."""


class Pin(Enum):
    """What an approval of a control is pinned to between the request and the yes."""

    ANYWHERE = "anywhere"
    """Nothing: it stops the run, wherever that is by then."""
    PLACE = "place"
    """Where the run stands."""
    VISIT = "visit"
    """The same, and the control itself names the visit of the gate that it answers."""


class Hold(Enum):
    """What a control does to a pause."""

    LEAVES = "leaves"
    BEGINS = "begins"
    LIFTS = "lifts"


class Then(Enum):
    """What becomes of the run afterwards."""

    GOES_ON = "goes_on"
    WAITS = "waits"
    """For an operator, in nobody's hands."""
    WAITS_AFTER_ATTEMPT = "waits_after_attempt"
    """The same, once the attempt under way has ended."""
    ENDS = "ends"


# Orders: what only the engine can do. A control names one of them; the engine knows no control.


class HandOver(msgspec.Struct, frozen=True):
    """Give the workspace as it is now to the operator."""


class GoBack(msgspec.Struct, frozen=True):
    """Go back to the step at `index`: it and the good ones after it count no more."""

    index: int
    reason: str


class AnswerGate(msgspec.Struct, frozen=True):
    """The gate at `index` passes, or the run fails at it."""

    index: int
    passes: bool


class SettleAsDone(msgspec.Struct, frozen=True):
    """The steps at `indexes` passed by an operator's word; collect their outputs."""

    indexes: tuple[int, ...]


Order = HandOver | GoBack | AnswerGate | SettleAsDone


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What an accepted control does."""

    control: Control
    """As it is recorded."""
    then: Then
    cuts_off: bool = False
    """Attempts under way end first, so that they spend nothing of the budget that it gives."""
    order: Order | None = None
    facts: tuple[Payload, ...] = ()
    words: str = ""
    """What the run waits after, where nobody drives it on. Empty: the control's name."""


def _about_the_run(_state: RunState) -> Sequence[str]:
    return ()


def _nothing_of_its_own(state: RunState, _handled: ControlHandled) -> RunState:
    return state


class ControlKind(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one control. Its driver, the edges and the policy ask this value, and know no name."""

    name: str
    label: str
    """On its button."""
    summary: str
    """What it does, for the help of the command line. Neighbours with the same summary share a line."""
    takes: Takes = Takes()
    steps: Callable[[RunState], Sequence[str]] = _about_the_run
    """The steps that it may be about now, the likeliest first."""
    refuse: Callable[[RunState, Control, Policy], str | None]
    """Why it cannot be done now; None when it can."""
    scope: Callable[[RunState, Control, bool], Scope]
    """Exactly what it would do, where it is possible; the last argument says whether somebody drives the run."""
    effect: Callable[[RunState, Control], Effect]
    fold: Callable[[RunState, ControlHandled], RunState] = _nothing_of_its_own
    """What its acceptance changes beyond `hold`, `renews` and `recovers`."""

    hold: Hold = Hold.LEAVES
    held_words: str = "paused"
    """How a run that waits because of it is called."""
    renews: bool = False
    """The step at which the run stands gets all its attempts again, at once."""
    strategy: str | None = None
    """With `renews`: of its next attempt."""
    recovers: bool = False
    """It is shown as the last recovery of the run."""
    pre_empts: bool = False
    """An attempt under way must end for it."""
    needs_secrets: bool = True
    """It cannot be carried out where the run's secrets cannot be had."""
    is_answer: bool = False
    """To what the run has asked a person."""
    pin: Pin = Pin.PLACE
    approvable: bool = True
    """A policy may require that a second person agrees to it."""
    forced_label: str = ""
    """On the button that goes beyond its limit."""
    danger: bool = False
    """Its button warns."""
    always_shown: bool = False
    """Its button stands in front even where it is not possible now."""
