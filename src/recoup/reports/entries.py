"""Decisions, controls and changes of mode: one line each, in order, with their reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from recoup.kernel.healing import adapted_words, healed_words, rejected_words
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.ids import EVERY_WORKFLOW, workflow_stream
from recoup.model.mode import Mode
from recoup.reports.plain import Plain
from recoup.reports.spoken import count, lasting, since
from recoup.reports.view import Entry, Heal, Tone

_REASON_CHARS_MAX = 600
_NAME_CHARS_MAX = 120
_CAUSES_SHOWN_MAX = 5
_HEALED = "target.healed"
_EVERYWHERE = "every workflow"
_SAME_TIME_US = 1_000_000
"""What the end of the run brought about is told with it."""

Said = tuple[str, Tone, str, str]
"""What, how to take it, about whom, why."""
Timed = Iterable[tuple[Event, float]]


def decisions(timed: Timed, plain: Plain) -> tuple[Entry, ...]:
    found: list[Entry] = []
    last: Event | None = None
    alike = 1
    for event, at_s in timed:
        said = _decision(event.payload)
        if said is None:
            continue
        if last is not None and _goes_on(last, event):
            alike += 1
            found[-1] = msgspec.structs.replace(found[-1], about=_several(last, event, alike, plain))
            continue
        found.append(_entry(event, at_s, said, plain))
        last, alike = event, 1
    return tuple(found)


def controls(timed: Timed, plain: Plain) -> tuple[Entry, ...]:
    return tuple(
        _entry(event, at_s, said, plain)
        for event, at_s in timed
        if (said := _control(event.payload)) is not None
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


def _entry(event: Event, at_s: float, said: Said, plain: Plain) -> Entry:
    what, tone, about, reason = said
    return Entry(
        event.seq,
        since(at_s),
        plain.line(what, _NAME_CHARS_MAX),
        tone,
        plain.line(about, _NAME_CHARS_MAX),
        plain.line(reason, _REASON_CHARS_MAX),
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


def _decision(payload: ev.Payload) -> Said | None:
    if isinstance(payload, ev.StepPayload):
        return _about_step(payload)
    return _about_run(payload)


def _about_step(payload: ev.StepPayload) -> Said | None:
    reason, step = payload.reason or "", payload.step_id
    match payload:
        case ev.SelfHealTriggered() | ev.SelfHealEscalated():
            wait = f", next attempt in {lasting(payload.delay_ms / 1000)}" if payload.delay_ms else ""
            return (payload.strategy or "recovery").replace("_", " "), Tone.WARN, step, reason + wait
        case ev.SelfHealExhausted():
            return "exhausted", Tone.BAD, step, reason
        case ev.AttemptFailed(gives_up=True):
            return "given up", Tone.BAD, step, reason
        case ev.StepReused():
            return "reused", Tone.GOOD, step, f"{payload.verdict} in run {payload.from_run_id}"
        case ev.StepInvalidated():
            return "invalidated", Tone.WARN, step, reason
        case ev.StepSkipped():
            return "skipped", Tone.PLAIN, step, reason
        case ev.ResumeFromStep():
            return "resume from step", Tone.WARN, step, reason
        case ev.TargetHealed():
            return "target healed", Tone.GOOD if payload.verified else Tone.WARN, step, healed_words(payload)
        case ev.TargetAdapted():
            said = f"target {payload.strategy}"
            return said, Tone.GOOD if payload.verified else Tone.WARN, step, adapted_words(payload)
        case ev.TargetRejected():
            return "no target", Tone.BAD, step, rejected_words(payload)
        case ev.BrowserReset():
            return "new browser", Tone.WARN, step, reason
        case ev.PageLost():
            return "page lost", Tone.WARN, step, f"{reason}; performed again: {', '.join(payload.steps)}"
        case ev.AttemptFinished(settled_by="already_done"):
            return "already done", Tone.GOOD, step, "its checks hold, so it is not performed again"
        case _:
            return None


def _about_run(payload: ev.Payload) -> Said | None:
    match payload:
        case ev.RunStarted():
            commit = payload.baseline.commit if payload.baseline else None
            return (
                "started",
                Tone.PLAIN,
                "",
                f"delivery {payload.delivery}" + (f" at {commit[:12]}" if commit else ""),
            )
        case ev.RunTakenOver():
            return "taken over", Tone.WARN, "", payload.reason
        case ev.RunResumed():
            return "resumed", Tone.PLAIN, "", f"delivery {payload.delivery}: {payload.reason}"
        case ev.RunInterrupted():
            return "interrupted", Tone.WARN, "", payload.reason
        case ev.RunWaiting():
            until = f", until {payload.until[:19]}Z" if payload.until else ""
            return "waiting", Tone.WARN, payload.step_id or "", payload.reason + until
        case ev.RunBlocked():
            until = f", until {payload.until[:19]}Z" if payload.until else ""
            return "blocked", Tone.BAD, "", payload.reason + until
        case ev.CheckpointRestored():
            origin = "the beginning" if payload.step_index is None else f"the end of {payload.step_id}"
            return "workspace restored", Tone.WARN, "", f"from {origin}: {payload.reason}"
        case ev.Escalated():
            return "handed over", Tone.BAD, payload.step_id or "", payload.reason
        case ev.RunSucceeded():
            return "succeeded", Tone.GOOD, "", payload.reason
        case ev.RunFailed():
            again = ", worth another delivery" if payload.retryable else ""
            return "failed", Tone.BAD, payload.step_id or "", payload.reason + again
        case ev.RunDeadLettered():
            return "dead letter", Tone.BAD, payload.step_id or "", payload.reason
        case ev.RunCancelled():
            return "cancelled", Tone.BAD, payload.actor, payload.reason
        case _:
            return None


def _control(payload: ev.Payload) -> Said | None:
    match payload:
        case ev.ControlHandled():
            tone = Tone.PLAIN if payload.outcome == "accepted" else Tone.BAD
            words = [payload.action.replace("_", " "), payload.step_id or "", payload.argument or ""]
            why = f"{payload.reason} ({payload.detail})" if payload.detail else payload.reason
            return " ".join([*filter(None, words), payload.outcome]), tone, payload.actor, why
        case ev.WorkspaceHandedOver():
            return "workspace handed over", Tone.PLAIN, payload.actor, ""
        case ev.WorkspaceChanged():
            files = ", ".join(payload.changed_files[:10])
            kept = "kept" if payload.kept else "not kept"
            how_many = count(payload.changed_files_count, "file")
            return f"{how_many} changed", Tone.WARN, "operator", f"{kept}: {files}"
        case _:
            return None


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
