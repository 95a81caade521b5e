"""The health of a workflow: its mode, and the bounded memory from which the next one follows."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from recoup.model.instant import Instant


class Mode(StrEnum):
    """Of a workflow: how cautious its runs are, or why none of them goes on."""

    RUNNING = "running"
    DEGRADED = "degraded"
    QUARANTINED = "quarantined"
    ROLLBACK = "rollback"
    PAUSED = "paused"

    @property
    def stops(self) -> bool:
        """Nothing begins in this mode."""
        return self in (Mode.QUARANTINED, Mode.ROLLBACK, Mode.PAUSED)


class Moment(msgspec.Struct, frozen=True, gc=False):
    """When and where in the workflow's stream something stands."""

    seq: int
    at: Instant


class FailedResult(msgspec.Struct, frozen=True, gc=False):
    """One failed step result."""

    moment: Moment
    step_id: str
    run_id: str
    kind: str | None = None


class Permit(msgspec.Struct, frozen=True, gc=False):
    """A run that may probe a workflow whose quarantine is over. It expires."""

    run_id: str
    moment: Moment


class Lesson(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The last time that something was about to be learned, and how steps went before and since."""

    version: str
    """What can be gone back to."""
    before: str = ""
    since: str = ""
    """Step results, oldest first: `x` failed, `.` did not."""
    due: bool = False
    """It is to be taken back, and nobody has done so yet."""


class Health(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Folded from the workflow's own stream; bounded whatever its length."""

    mode: Mode = Mode.RUNNING
    since: Moment | None = None
    """None: it never changed."""
    for_s: float | None = None
    """How long the mode lasts; None: until something ends it."""
    forced: bool = False
    """An operator's doing: nothing but an operator or its own time ends it."""
    half_open: bool = False
    """A quarantine is over and nothing has passed since: a few runs may probe."""
    reason: str = ""
    causes: tuple[int, ...] = ()
    """The sequences of the events that led here."""
    counters: dict[str, int] | None = None
    """What the limits were compared with when the mode began."""
    streaks: dict[str, tuple[int, ...]] = {}
    """Of each step that failed last: its failures in a row."""
    failures: tuple[FailedResult, ...] = ()
    """The last ones, oldest first."""
    counted_from: int = 0
    """Failures up to this sequence led to an earlier mode and count no more."""
    counted_elsewhere: dict[str, int] = {}
    """The same of each workflow whose failures led to a pause of all of them."""
    recent: str = ""
    """The last step results, oldest first: `x` failed, `.` did not."""
    clean: int = 0
    """Step results since the mode began that did not fail, in a row."""
    permits: tuple[Permit, ...] = ()
    lesson: Lesson | None = None
    boots: dict[str, Moment] = {}
    """The first event of each boot: what came before it is at least as old."""


class Refusal(msgspec.Struct, frozen=True):
    """Nothing may begin now."""

    mode: Mode
    reason: str
    left_s: float | None = None
    """After so long it is worth asking again; None: nobody knows."""
    everywhere: bool = False
    """It is the mode of all workflows together."""
