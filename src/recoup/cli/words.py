"""Facts in words, for people who watch."""

from __future__ import annotations

import msgspec

from recoup.cli.output import seconds
from recoup.kernel.healing import adapted_words, healed_words, rejected_words
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.outcome import Progress


class Line(msgspec.Struct, frozen=True):
    """One line about one fact; `tone` picks a colour."""

    text: str
    tone: str = "plain"
    hint: str = ""
    """What to do about it, on a line of its own."""


def line_of(event: Event) -> Line | None:
    """None: not worth a line."""
    payload = event.payload
    if isinstance(payload, ev.StepPayload):
        return _step_line(payload)
    return _run_line(payload)


def words_of(event: Event) -> str:
    """For a complete list: includes facts that the live view leaves out."""
    payload = event.payload
    match payload:
        case ev.RunSubmitted():
            count = len(payload.plan.steps)
            return f"submitted: {payload.workflow}, {count} step{'' if count == 1 else 's'}"
        case ev.AttemptLaunched():
            return f"{payload.step_id}: process {payload.keeper.pid} performs it"
        case _:
            line = line_of(event)
            return line.text if line else ""


def _step_line(payload: ev.StepPayload) -> Line | None:
    name = payload.step_id
    match payload:
        case ev.AttemptStarted():
            again = f" ({payload.strategy})" if payload.strategy else ""
            return Line(f"{name}: attempt {payload.attempt}{again}{_PHASES.get(payload.phase, '')}")
        case ev.AttemptFinished(phase="always"):
            return Line(f"{name}: always done{_handlers(payload)}", "bad" if payload.reason else "plain")
        case ev.AttemptFinished(settled_by="operator"):
            by = f" by {payload.actor}" if payload.actor else ""
            done = "settled as done" if payload.verdict == "unverified" else "approved"
            return Line(f"{name}: {done}{by}", "good")
        case ev.AttemptFinished():
            return Line(f"{name}: {_verdict_words(payload)} in {seconds(payload.duration_ms / 1000)}", "good")
        case ev.AttemptFailed():
            return Line(f"{name}: attempt {payload.attempt} failed: {payload.summary}", "bad")
        case ev.SelfHealTriggered() | ev.SelfHealEscalated():
            wait = f", next attempt in {seconds(payload.delay_ms / 1000)}" if payload.delay_ms else ""
            return Line(f"{name}: {_strategy_words(payload.strategy)}: {payload.reason}{wait}", "heal")
        case ev.SelfHealExhausted():
            return Line(f"{name}: recovery exhausted: {payload.reason}", "bad")
        case ev.StepReused():
            what = "skipped" if payload.skipped else payload.verdict
            return Line(f"{name}: reused, {what} in run {payload.from_run_id}", "good")
        case ev.StepInvalidated():
            return Line(f"{name}: no longer known to be good: {payload.reason}", "heal")
        case ev.ResumeFromStep():
            return Line(f"going on from {name}: {payload.reason}", "heal")
        case ev.TargetHealed():
            return Line(f"{name}: {healed_words(payload)}", "heal")
        case ev.TargetAdapted():
            return Line(f"{name}: {adapted_words(payload)}", "heal")
        case ev.TargetRejected():
            return Line(f"{name}: {rejected_words(payload)}", "heal")
        case ev.BrowserReset():
            return Line(f"{name}: a new browser", "heal")
        case ev.PageLost():
            again = ", ".join(payload.steps)
            return Line(f"{name}: {payload.reason}; performed again to get the page back: {again}", "heal")
        case ev.StepSkipped():
            return Line(f"{name}: skipped, {payload.reason}")
        case ev.CheckpointIncomplete():
            first = payload.missing[0] if payload.missing else None
            example = f", such as {first.path} ({first.why})" if first else ""
            return Line(f"{name}: the checkpoint lacks {_paths(payload.missing_count)}{example}", "heal")
        case ev.SecretFound():
            return Line(f"{name}: the secret {', '.join(payload.names)} lies in {payload.where}", "heal")
        case _:
            return None


def _run_line(payload: ev.Payload) -> Line | None:
    match payload:
        case ev.RunStarted():
            at = f" at {payload.baseline.commit[:12]}" if payload.baseline and payload.baseline.commit else ""
            return Line(f"started{at}")
        case ev.WorkflowModeChanged():
            tone = "good" if payload.mode == "running" else "bad"
            return Line(f"the workflow is {payload.mode} now: {payload.reason}", tone)
        case ev.RunTakenOver():
            return Line(f"taken over: {payload.reason}", "heal")
        case ev.RunResumed():
            return Line(f"resumed: {payload.reason}", "heal")
        case ev.RunWaiting():
            return Line(
                f"waiting: {payload.reason}" + (f" until {payload.until}" if payload.until else ""), "heal"
            )
        case ev.CheckpointRestored():
            origin = "the beginning" if payload.step_index is None else f"the end of {payload.step_id}"
            return Line(f"workspace restored from {origin}: {payload.reason}", "heal")
        case ev.WorkspaceChanged():
            count, kept = payload.changed_files_count, "" if payload.kept else ", not kept"
            return Line(f"an operator changed {count} file{'' if count == 1 else 's'}{kept}", "heal")
        case ev.RunInterrupted():
            return Line(f"interrupted: {payload.reason}", "heal")
        case ev.ControlHandled():
            return Line(f"{payload.action} {payload.outcome}: {payload.detail or payload.reason}", "heal")
        case ev.Escalated():
            return Line(f"handed over: {payload.reason}", "bad", payload.hint)
        case ev.RunSucceeded():
            return Line(f"succeeded: {payload.reason}", "good")
        case ev.RunFailed() | ev.RunDeadLettered():
            return Line(
                f"{'dead letter' if isinstance(payload, ev.RunDeadLettered) else 'failed'}: {payload.reason}",
                "bad",
            )
        case ev.RunCancelled():
            return Line(f"cancelled: {payload.reason}", "bad")
        case _:
            return None


def progress_words(progress: Progress) -> str:
    """`loading 3 of 10`, or as much of it as is known."""
    done = f"{progress.done:g}" if progress.done is not None else ""
    count = f"{done} of {progress.total:g}" if done and progress.total is not None else done
    return " ".join(part for part in (progress.note.text.strip(), count) if part)


def _paths(count: int) -> str:
    return "1 path" if count == 1 else f"{count} paths"


_PHASES = {
    "rebuild": ": performed again to restore the workspace or the page",
    "rescue": ": rescue",
    "always": ": always",
}


def _handlers(payload: ev.AttemptFinished) -> str:
    return f", {payload.reason}" if payload.reason else ""


def _verdict_words(payload: ev.AttemptFinished) -> str:
    if payload.settled_by == "already_done":
        return "was done already, its checks say"
    return str(payload.verdict)


def _strategy_words(strategy: str | None) -> str:
    return {"soft_reset": "soft reset", "hard_reset": "hard reset", "retry": "retry"}.get(
        strategy or "", "recovery"
    )
