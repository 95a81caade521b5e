"""What is answered about recorded runs under another policy. `recoup simulate --policy FILE --json` prints the same."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from recoup.model.answers.answer import Answer
from recoup.model.mode import Mode


class DifferenceKind(StrEnum):
    """How a decision made again differs from the recorded one."""

    OTHER_WAIT = "other_wait"
    """The only one after which the rest of the run can still be compared."""
    STOPS_EARLIER = "stops_earlier"
    GOES_ON = "goes_on"
    OTHER_RESET = "other_reset"
    OTHER_END = "other_end"
    CUT_OFF = "cut_off"
    """An attempt took longer than it would have been given."""
    NOT_CUT_OFF = "not_cut_off"
    """An attempt was stopped that would have been given longer."""


class Difference(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """Where a run would have gone another way."""

    kind: DifferenceKind
    seq: int
    at: str
    recorded: str
    instead: str
    step_id: str | None = None
    attempt: int | None = None
    attempts_saved: int = 0
    seconds_saved: Annotated[float, Meta(description="Less than 0: spent.")] = 0
    recovery_lost: Annotated[
        bool, Meta(description="The step passed in the end after the attempts that would not have been made.")
    ] = False
    more_attempts_max: Annotated[int | None, Meta(description="The bound of an unknown future.")] = None


class ReplayedRun(Answer, frozen=True, kw_only=True):
    """One recorded run under another policy."""

    run_id: str
    workflow: str
    decisions: Annotated[int, Meta(description="Decisions made again, up to where the future is unknown.")]
    differences: list[Difference]
    unknown_from: Annotated[
        int | None, Meta(description="Nothing is claimed about events from this sequence on.")
    ]
    verdict: Annotated[str, Meta(description="other_wait, stops_earlier, goes_on or unknown.")]


class WorkflowTally(Answer, frozen=True, kw_only=True):
    """What would have become of the runs of one workflow."""

    workflow: str
    runs: int
    verdicts: dict[str, int]
    decisions: int
    attempts_saved: int
    seconds_saved: float
    seconds_spent: float
    recoveries_lost: int
    more_attempts_max: Annotated[
        int, Meta(description="The bounds of all unknown futures that go on longer, together.")
    ]


class ModeChange(Answer, frozen=True):
    at: str
    mode: Mode
    reason: str


class Withheld(Answer, frozen=True):
    """A recorded attempt that would not have begun: what its run would have done instead is unknown."""

    at: str
    run_id: str
    step_id: str
    attempt: int | None
    mode: Mode


class LetGo(Answer, frozen=True):
    """A run was blocked that would not have been: what it would have done is unknown."""

    at: str
    run_id: str


class WorkflowModes(Answer, frozen=True, kw_only=True):
    """The modes of one workflow, from its recorded step results."""

    workflow: str
    results: int
    recorded: dict[str, int]
    replayed: dict[str, int]
    would_have_begun: list[ModeChange]
    would_not_have_begun: list[ModeChange]
    attempts_blocked: int
    blocked: list[Withheld]
    runs_not_blocked: int
    not_blocked: list[LetGo]

    @property
    def differs(self) -> bool:
        changed = self.would_have_begun or self.would_not_have_begun
        return bool(changed or self.attempts_blocked or self.runs_not_blocked)


class WhatIfAnswer(Answer, frozen=True, kw_only=True):
    """As `recoup simulate --policy FILE --json` prints it."""

    same: bool
    policy_digest: str
    runs: int
    cut: bool
    complete: Annotated[bool, Meta(description="False: time was up before all of these runs were looked at.")]
    workflows: list[WorkflowTally]
    modes: list[WorkflowModes]
    most_different: list[str]
    different: list[ReplayedRun]
    unseen_keys: list[str]
    unreadable: list[str]
    """Runs that were left out: an event of theirs cannot be read."""
