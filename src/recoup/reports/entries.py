"""Decisions, controls and changes of mode: one line each, in order, with their reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from recoup.kernel.description import Description, Tone, Topic, describe
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.ids import EVERY_WORKFLOW, workflow_stream
from recoup.model.mode import Mode
from recoup.reports.plain import Plain
from recoup.reports.spoken import count, lasting, since
from recoup.reports.view import Entry, Heal

_REASON_CHARS_MAX = 600
_NAME_CHARS_MAX = 120
_CAUSES_SHOWN_MAX = 5
_HEALED = "target.healed"
_EVERYWHERE = "every workflow"
_SAME_TIME_US = 1_000_000
"""What the end of the run brought about is told with it."""

Timed = Iterable[tuple[Event, float]]


def decisions(timed: Timed, plain: Plain) -> tuple[Entry, ...]:
    found: list[Entry] = []
    last: Event | None = None
    alike = 1
    for event, at_s in timed:
        description = describe(event.payload)
        if description is None or description.topic is not Topic.DECISION:
            continue
        if last is not None and _goes_on(last, event):
            alike += 1
            found[-1] = msgspec.structs.replace(found[-1], about=_several(last, event, alike, plain))
            continue
        found.append(_entry(event, at_s, description, plain))
        last, alike = event, 1
    return tuple(found)


def controls(timed: Timed, plain: Plain) -> tuple[Entry, ...]:
    return tuple(
        _entry(event, at_s, description, plain)
        for event, at_s in timed
        if (description := describe(event.payload)) is not None and description.topic is Topic.CONTROL
    )


def modes(events: Sequence[Event], run: Sequence[Event], plain: Plain) -> tuple[Entry, ...]:
    """The mode that the workflow had when the run was submitted, and what changed until the run's last event."""
    began, ended = run[0].at.wall_us, run[-1].at.wall_us
    changes = [event for event in events if isinstance(event.payload, ev.WorkflowModeChanged)]
    earlier = [event for event in changes if event.at.wall_us < began]
    before = {event.stream: event for event in earlier}.values()
    during = [event for event in changes if began <= event.at.wall_us <= ended + _SAME_TIME_US]
    shown = sorted((*before, *during), key=lambda event: event.at.wall_us)
    return tuple(_mode_entry(event, plain) for event in shown)


def mode_of(entries: Sequence[Entry]) -> str:
    """Of the workflow, and of all of them where that is another than running."""
    own = [entry.what for entry in entries if entry.about != _EVERYWHERE]
    everywhere = [entry.what for entry in entries if entry.about == _EVERYWHERE]
    mode = own[-1] if own else str(Mode.RUNNING)
    if not everywhere or everywhere[-1] == Mode.RUNNING:
        return mode
    return f"{mode}; {_EVERYWHERE}: {everywhere[-1]}"


def heals(timed: Timed, plain: Plain) -> tuple[Heal, ...]:
    """From the stored form, so that a reader of another version shows them too."""
    return tuple(_heal(event, at_s, plain) for event, at_s in timed if event.type == _HEALED)


def _entry(event: Event, at_s: float, description: Description, plain: Plain) -> Entry:
    return Entry(
        event.seq,
        since(at_s),
        plain.line(description.label, _NAME_CHARS_MAX),
        description.tone,
        plain.line(description.about, _NAME_CHARS_MAX),
        plain.line(description.detail, _REASON_CHARS_MAX),
    )


def _goes_on(last: Event, event: Event) -> bool:
    """One decision about many steps is many events."""
    match last.payload, event.payload:
        case ev.StepReused(from_run_id=one), ev.StepReused(from_run_id=other):
            return one == other
        case ev.StepInvalidated(), ev.StepInvalidated():
            return last.at == event.at
    return False


def _several(first: Event, last: Event, alike: int, plain: Plain) -> str:
    assert isinstance(first.payload, ev.StepPayload) and isinstance(last.payload, ev.StepPayload)
    names = f"{plain.line(first.payload.step_id, 60)} … {plain.line(last.payload.step_id, 60)}"
    return f"{names} ({count(alike, 'step')})"


def _mode_entry(event: Event, plain: Plain) -> Entry:
    change = event.payload
    assert isinstance(change, ev.WorkflowModeChanged)
    tone = Tone.GOOD if change.mode is Mode.RUNNING else Tone.BAD if change.mode.stops else Tone.WARN
    lasts = f", for {lasting(change.for_s)}" if change.for_s is not None else ""
    causes = f" (events {', '.join(map(str, change.causes[:10]))} of the workflow)" if change.causes else ""
    if change.causes_elsewhere:
        causes = f" (events {_elsewhere(change.causes_elsewhere)})"
    everywhere = event.stream == workflow_stream(EVERY_WORKFLOW)
    who = f" by {change.actor}" if change.actor else ""
    return Entry(
        event.seq,
        f"{event.at.iso()[:19]}Z",
        f"{change.mode}{' (half open)' if change.half_open else ''}",
        tone,
        _EVERYWHERE if everywhere else "",
        plain.line(f"from {change.previous}{who}: {change.reason}{lasts}{causes}", _REASON_CHARS_MAX),
    )


def _elsewhere(causes: Mapping[str, Sequence[int]]) -> str:
    few = list(causes.items())[:_CAUSES_SHOWN_MAX]
    said = "; ".join(
        f"{', '.join(map(str, seqs[-_CAUSES_SHOWN_MAX:]))} of {workflow}" for workflow, seqs in few
    )
    return said + (" ..." if len(causes) > len(few) else "")


def _heal(event: Event, at_s: float, plain: Plain) -> Heal:
    stored = msgspec.json.decode(event.raw, type=dict[str, object])

    def words(key: str) -> str:
        value = stored.get(key)
        return plain.line(
            value if isinstance(value, str) else "" if value is None else repr(value), _REASON_CHARS_MAX
        )

    return Heal(since(at_s), words("stepId"), words("before"), words("after"), words("reason"))
