"""What a report shows, before it is a page: plain text, places on the time axis, and tones."""

from __future__ import annotations

import msgspec

from recoup.kernel.advice import Advice
from recoup.kernel.description import Tone


class Fact(msgspec.Struct, frozen=True):
    """One line of the head of the page."""

    label: str
    value: str
    code: bool = False


class Bar(msgspec.Struct, frozen=True):
    """A stretch of time; places are fractions of the axis."""

    kind: str
    """passed | failed | unknown | open | backoff | work | wait."""
    begin: float
    end: float
    words: str


class Tick(msgspec.Struct, frozen=True):
    at: float
    words: str


class Lane(msgspec.Struct, frozen=True):
    """The attempts of one step, with the waits between them."""

    index: int
    step_id: str
    title: str
    mark: str
    tone: Tone
    words: str
    bars: tuple[Bar, ...]
    quiet: bool
    """It passed at its first attempt, was skipped or reused, or never ran: many of these may be folded into one."""
    bars_left_out: int = 0


class Timeline(msgspec.Struct, frozen=True):
    lanes: tuple[Lane, ...]
    run: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    breaks: tuple[Tick, ...]
    """Where nobody worked for long, and the axis is shorter than the time."""
    run_left_out: int = 0


class FailedAttempt(msgspec.Struct, frozen=True):
    attempt: int
    at: str
    lasted: str
    phase: str
    strategy: str
    """What was decided."""
    reason: str


class FailureGroup(msgspec.Struct, frozen=True):
    """Attempts of one step that ended alike."""

    step_id: str
    cls: str
    kind: str
    signature: str
    summary: str
    excerpt: tuple[str, ...]
    attempts: tuple[FailedAttempt, ...]
    attempts_count: int
    changed_files: tuple[str, ...]
    changed_files_count: int
    evidence: tuple[str, ...]


class DiffView(msgspec.Struct, frozen=True):
    """What a step, or an operator, changed."""

    owner: str
    files: tuple[str, ...]
    files_count: int
    added: int
    removed: int
    lines: tuple[str, ...]
    lines_left_out: int


class Heal(msgspec.Struct, frozen=True):
    """A target that was found other than by its recorded description."""

    at: str
    step_id: str
    before: str
    after: str
    reason: str


class StepRow(msgspec.Struct, frozen=True):
    index: int
    step_id: str
    title: str
    kind: str
    mark: str
    tone: Tone
    verdict: str
    attempts: int
    checkpoint: str
    reason: str


class Prefix(msgspec.Struct, frozen=True):
    """What need not be done again, and the first step that must, with the reason."""

    good: int
    total: int
    frontier: str
    frontier_reason: str
    steps: tuple[StepRow, ...]


class Entry(msgspec.Struct, frozen=True):
    """One decision, control or change of mode."""

    seq: int
    at: str
    what: str
    tone: Tone
    about: str
    """The step or the person."""
    reason: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    workflow: str
    objective: str
    status: str
    tone: Tone
    reason: str
    advice: tuple[Advice, ...]
    facts: tuple[Fact, ...]
    timeline: Timeline
    failures: tuple[FailureGroup, ...]
    diffs: tuple[DiffView, ...]
    heals: tuple[Heal, ...]
    prefix: Prefix
    decisions: tuple[Entry, ...]
    controls: tuple[Entry, ...]
    modes: tuple[Entry, ...]
    left_out: tuple[str, ...]
    as_of: str
