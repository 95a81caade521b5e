"""What happened, in words: one description of each event, wherever it is shown.

To add an event type: one case here. Lists of events, the live view, reports, the console and MCP print what it returns.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from recoup.kernel.healing import adapted_words, healed_words, rejected_words
from recoup.kernel.wording import duration
from recoup.model import events as ev


class Tone(StrEnum):
    """How something is to be taken; pages give it a colour and a word or sign, never a colour alone."""

    GOOD = "good"
    BAD = "bad"
    WARN = "warn"
    PLAIN = "plain"


class Topic(StrEnum):
    """What part of a report tells it."""

    DECISION = "decision"
    CONTROL = "control"
    NONE = ""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    """The whole line, with the step it is about."""
    tone: Tone = Tone.PLAIN
    label: str = ""
    """What happened, in a few words."""
    about: str = ""
    """The step or the person."""
    detail: str = ""
    """Why, or what of it."""
    hint: str = ""
    """What to do about it."""
    topic: Topic = Topic.NONE
    live: bool = True
    """Worth a line in live output."""


def describe(payload: ev.Payload) -> Description | None:
    """None: there are no words for it; its type says all, or this version does not know it."""
    if isinstance(payload, ev.StepPayload):
        return _attempt(payload) or _recovery(payload) or _step(payload)
    return _start(payload) or _stop(payload) or _operator(payload)


def _attempt(payload: ev.StepPayload) -> Description | None:
    match payload:
        case ev.AttemptStarted():
            again = f" ({payload.strategy})" if payload.strategy else ""
            return _of_step(payload, f"attempt {payload.attempt}{again}{_PHASES.get(payload.phase, '')}")
        case ev.AttemptLaunched():
            launched = _of_step(payload, f"process {payload.keeper.pid} performs it")
            return msgspec.structs.replace(launched, live=False)
        case ev.AttemptFinished():
            return _finished(payload)
        case ev.AttemptFailed():
            text = f"attempt {payload.attempt} failed: {payload.summary}"
            if not payload.gives_up:
                return _of_step(payload, text, Tone.BAD, label="failed", detail=payload.summary)
            return _decision(payload, "given up", Tone.BAD, payload.reason or "", text=text)
        case _:
            return None


def _finished(payload: ev.AttemptFinished) -> Description:
    took = f"in {duration(payload.duration_ms / 1000)}"
    if payload.phase == "always":
        why = f", {payload.reason}" if payload.reason else ""
        return _of_step(payload, f"always done{why}", Tone.BAD if payload.reason else Tone.PLAIN)
    if payload.settled_by == "operator":
        done = "settled as done" if payload.verdict == "unverified" else "approved"
        return _of_step(payload, done + (f" by {payload.actor}" if payload.actor else ""), Tone.GOOD)
    if payload.settled_by == "already_done":
        text = f"was done already, its checks say {took}"
        why = "its checks hold, so it is not performed again"
        return _decision(payload, "already done", Tone.GOOD, why, text=text)
    return _of_step(payload, f"{payload.verdict} {took}", Tone.GOOD)


def _recovery(payload: ev.StepPayload) -> Description | None:
    reason = payload.reason or ""
    match payload:
        case ev.SelfHealTriggered() | ev.SelfHealEscalated():
            wait = f", next attempt in {duration(payload.delay_ms / 1000)}" if payload.delay_ms else ""
            label = (payload.strategy or "recovery").replace("_", " ")
            return _decision(payload, label, Tone.WARN, f"{reason}{wait}")
        case ev.SelfHealExhausted():
            return _decision(payload, "exhausted", Tone.BAD, reason, text=f"recovery exhausted: {reason}")
        case ev.TargetHealed():
            tone, words = _verified(payload.verified), healed_words(payload)
            return _decision(payload, "target healed", tone, words, text=words)
        case ev.TargetAdapted():
            tone, words = _verified(payload.verified), adapted_words(payload)
            return _decision(payload, f"target {payload.strategy}", tone, words, text=words)
        case ev.TargetRejected():
            words = rejected_words(payload)
            return _decision(payload, "no target", Tone.BAD, words, text=words)
        case ev.BrowserReset():
            return _decision(payload, "new browser", Tone.WARN, reason, text="a new browser")
        case ev.PageLost():
            again = ", ".join(payload.steps)
            text = f"{reason}; performed again to get the page back: {again}"
            return _decision(
                payload, "page lost", Tone.WARN, f"{reason}; performed again: {again}", text=text
            )
        case _:
            return None


def _step(payload: ev.StepPayload) -> Description | None:
    reason, name = payload.reason or "", payload.step_id
    match payload:
        case ev.StepReused():
            what = "skipped" if payload.skipped else payload.verdict
            detail = f"{what} in run {payload.from_run_id}"
            return _decision(payload, "reused", Tone.GOOD, detail, text=f"reused, {detail}")
        case ev.StepInvalidated():
            text = f"no longer known to be good: {reason}"
            return _decision(payload, "invalidated", Tone.WARN, reason, text=text)
        case ev.StepSkipped():
            return _decision(payload, "skipped", Tone.PLAIN, reason, text=f"skipped, {reason}")
        case ev.ResumeFromStep():
            going = _decision(payload, "resume from step", Tone.WARN, reason)
            return msgspec.structs.replace(going, text=f"going on from {name}: {reason}")
        case ev.CheckpointIncomplete():
            first = payload.missing[0] if payload.missing else None
            example = f", such as {first.path} ({first.why})" if first else ""
            paths = "1 path" if payload.missing_count == 1 else f"{payload.missing_count} paths"
            return _of_step(payload, f"the checkpoint lacks {paths}{example}", Tone.WARN)
        case ev.SecretFound():
            names = ", ".join(payload.names)
            return _of_step(payload, f"the secret {names} lies in {payload.where}", Tone.WARN)
        case _:
            return None


def _start(payload: ev.Payload) -> Description | None:
    match payload:
        case ev.RunSubmitted():
            count = len(payload.plan.steps)
            text = f"submitted: {payload.workflow}, {count} step{'' if count == 1 else 's'}"
            return Description(text=text, label="submitted", live=False)
        case ev.RunStarted():
            commit = payload.baseline.commit if payload.baseline else None
            at = f" at {commit[:12]}" if commit else ""
            return _of_run("started", Tone.PLAIN, f"delivery {payload.delivery}{at}", text=f"started{at}")
        case ev.RunTakenOver():
            return _of_run("taken over", Tone.WARN, payload.reason)
        case ev.RunResumed():
            detail = f"delivery {payload.delivery}: {payload.reason}"
            return _of_run("resumed", Tone.WARN, detail, text=f"resumed: {payload.reason}")
        case ev.RunInterrupted():
            return _of_run("interrupted", Tone.WARN, payload.reason)
        case ev.CheckpointRestored():
            origin = "the beginning" if payload.step_index is None else f"the end of {payload.step_id}"
            detail = f"from {origin}: {payload.reason}"
            return _of_run("workspace restored", Tone.WARN, detail, text=f"workspace restored {detail}")
        case _:
            return None


def _stop(payload: ev.Payload) -> Description | None:
    match payload:
        case ev.RunWaiting() | ev.RunBlocked():
            waits = isinstance(payload, ev.RunWaiting)
            label, tone = ("waiting", Tone.WARN) if waits else ("blocked", Tone.BAD)
            until, shown = (
                ("", "") if payload.until is None else (payload.until, f", until {payload.until[:19]}Z")
            )
            text = f"{label}: {payload.reason}" + (f" until {until}" if until else "")
            step = payload.step_id if isinstance(payload, ev.RunWaiting) else None
            return _of_run(label, tone, payload.reason + shown, text=text, about=step)
        case ev.Escalated():
            handed = _of_run("handed over", Tone.BAD, payload.reason, about=payload.step_id)
            return msgspec.structs.replace(handed, hint=payload.hint)
        case ev.RunSucceeded():
            return _of_run("succeeded", Tone.GOOD, payload.reason)
        case ev.RunFailed():
            again = ", worth another delivery" if payload.retryable else ""
            text = f"failed: {payload.reason}"
            return _of_run("failed", Tone.BAD, payload.reason + again, text=text, about=payload.step_id)
        case ev.RunDeadLettered():
            return _of_run("dead letter", Tone.BAD, payload.reason, about=payload.step_id)
        case ev.RunCancelled():
            return _of_run("cancelled", Tone.BAD, payload.reason, about=payload.actor)
        case ev.WorkflowModeChanged():
            text = f"the workflow is {payload.mode} now: {payload.reason}"
            tone = Tone.GOOD if payload.mode == "running" else Tone.BAD
            return Description(text=text, tone=tone, label=str(payload.mode), detail=payload.reason)
        case _:
            return None


def _operator(payload: ev.Payload) -> Description | None:
    match payload:
        case ev.ControlHandled():
            why = f"{payload.reason} ({payload.detail})" if payload.detail else payload.reason
            words = [payload.action.replace("_", " "), payload.step_id or "", payload.argument or ""]
            return Description(
                text=f"{payload.action} {payload.outcome}: {payload.detail or payload.reason}",
                tone=Tone.WARN if payload.outcome == "accepted" else Tone.BAD,
                label=" ".join([*filter(None, words), payload.outcome]),
                about=payload.actor,
                detail=why,
                topic=Topic.CONTROL,
            )
        case ev.WorkspaceHandedOver():
            text = f"the workspace was handed over to {payload.actor}"
            return Description(
                text=text, label="workspace handed over", about=payload.actor, topic=Topic.CONTROL, live=False
            )
        case ev.WorkspaceChanged():
            return _changed(payload)
        case _:
            return None


def _changed(payload: ev.WorkspaceChanged) -> Description:
    count = payload.changed_files_count
    files, kept = f"{count:,} file{'' if count == 1 else 's'}", "kept" if payload.kept else "not kept"
    return Description(
        text=f"an operator changed {files}{'' if payload.kept else ', not kept'}",
        tone=Tone.WARN,
        label=f"{files} changed",
        about="operator",
        detail=f"{kept}: {', '.join(payload.changed_files[:10])}",
        topic=Topic.CONTROL,
    )


def _of_step(
    payload: ev.StepPayload, text: str, tone: Tone = Tone.PLAIN, label: str = "", detail: str = ""
) -> Description:
    name = payload.step_id
    return Description(text=f"{name}: {text}", tone=tone, label=label or text, about=name, detail=detail)


def _decision(payload: ev.StepPayload, label: str, tone: Tone, detail: str, *, text: str = "") -> Description:
    """`text`: the line, if it is not the label with the detail."""
    described = _of_step(payload, text or f"{label}: {detail}", tone, label, detail)
    return msgspec.structs.replace(described, topic=Topic.DECISION)


def _of_run(label: str, tone: Tone, detail: str, *, text: str = "", about: str | None = None) -> Description:
    line = text or f"{label}: {detail}"
    return Description(
        text=line, tone=tone, label=label, about=about or "", detail=detail, topic=Topic.DECISION
    )


def _verified(verified: bool) -> Tone:
    return Tone.GOOD if verified else Tone.WARN


_PHASES = {
    "rebuild": ": performed again to restore the workspace or the page",
    "rescue": ": rescue",
    "always": ": always",
}
