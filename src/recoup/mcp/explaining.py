"""Why a run stopped, what was tried, and what can be done: put together from what is recorded, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from recoup.mcp.desk import Document

TRIED_MAX: Final = 20
NOTES_MAX: Final = 20
WORDS_CHARS_MAX: Final = 600
_FAILED: Final = "task.step.attempt.failed"
_NOTED: Final = {
    "task.self_heal.exhausted": "recovery was given up",
    "task.run.failed": "the run failed",
    "task.run.dead_lettered": "the run was given up",
    "task.run.cancelled": "the run was cancelled",
    "task.run.waiting": "the run waits",
    "task.run.blocked": "the run is held back",
    "task.run.interrupted": "the driver was told to stop",
    "Escalated": "handed over to a person",
}
_TELLING: Final = frozenset({_FAILED, *_NOTED})
_AGAIN: Final = "Mend the cause, then submit_plan with reuse={run}: what is proven is not done again."
_BY_ITSELF: Final = (
    "Nothing need be done now: the next worker tries it again by itself, as often as delivery_max allows."
)
_UNREADABLE: Final = (
    "An event cannot be read, so nobody acts on the run: an operator upgrades Recoup or restores a backup."
)
_CAN: Final = {
    "failed": (_AGAIN,),
    "dead_letter": (_AGAIN,),
    "cancelled": ("submit_plan with reuse={run} goes on from where it was.",),
    "escalated": (
        "Find out whether the step was done, then control_run action=settle step={step} settle_as=done or not-done.",
    ),
    "waiting": (
        "At a gate: control_run action=approve or reject, by somebody who may decide it.",
        "After a pause or a takeover: control_run action=resume.",
        "Where waitingUntil is set: nothing need be done before that time.",
    ),
    "blocked": ("get_mode of its workflow says why; an operator sets the mode, and the run goes on.",),
    "running": (
        "It is not over. get_events shows what it does; control_run action=pause, cancel and others steer it.",
    ),
    "queued": ("No worker has taken it yet: is one running (recoup worker, recoup serve --workers)?",),
    "succeeded": ("Nothing: it succeeded.",),
}


def is_telling(event: Document) -> bool:
    """One that cannot be read has no payload, and tells nothing."""
    return event.get("type") in _TELLING and isinstance(event.get("payload"), dict)


def explained(run: Document, steps: Document, events: Iterable[Document]) -> Document:
    """`events`: those that tell something, in order."""
    told = list(events)
    frontier = run.get("frontier") or {}
    step = str(frontier.get("stepId") or "STEP")
    failed = [_attempt(event) for event in told if event["type"] == _FAILED]
    can = (_BY_ITSELF,) if run["retryable"] else _CAN[str(run["status"])]
    can = can if run.get("unreadable") is None else (_UNREADABLE,)
    return {
        **{key: run[key] for key in ("runId", "workflow", "status", "reason", "failureClass", "failureKind")},
        **{key: run[key] for key in ("retryable", "waitingFor", "waitingUntil", "liveControl")},
        "unreadable": run.get("unreadable"),
        "knownGood": [one["stepId"] for one in steps["steps"][: run["knownGoodPrefixLength"]]],
        "stoppedAt": run.get("frontier"),
        "happened": [_note(event) for event in told if event["type"] in _NOTED][-NOTES_MAX:],
        "tried": failed[-TRIED_MAX:],
        "attemptsFailed": len(failed),
        "canBeDone": [words.format(run=run["runId"], step=step) for words in can],
    }


def _attempt(event: Document) -> Document:
    said: dict[str, Any] = event["payload"]
    names = ("stepId", "attempt", "summary", "failureKind", "failureClass", "failureSignature")
    return {
        "at": event["at"],
        **{name: said.get(name) for name in names},
        "changedFiles": (said.get("changedFiles") or [])[:TRIED_MAX],
        "followedBy": said.get("strategy"),
        "because": said.get("reason"),
    }


def _note(event: Document) -> Document:
    said: dict[str, Any] = event["payload"]
    words = {name: said[name] for name in ("stepId", "reason", "hint") if said.get(name)}
    return {"at": event["at"], "what": _NOTED[event["type"]], **words}
