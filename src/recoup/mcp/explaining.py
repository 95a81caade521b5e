"""Why a run stopped, what was tried, and what can be done: put together from what is recorded, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from recoup.kernel.advice import Advice
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


def is_telling(event: Document) -> bool:
    """One that cannot be read has no payload, and tells nothing."""
    return event.get("type") in _TELLING and isinstance(event.get("payload"), dict)


def explained(run: Document, steps: Document, events: Iterable[Document]) -> Document:
    """`events`: those that tell something, in order."""
    told = list(events)
    failed = [_attempt(event) for event in told if event["type"] == _FAILED]
    return {
        **{key: run[key] for key in ("runId", "workflow", "status", "reason", "failureClass", "failureKind")},
        **{key: run[key] for key in ("retryable", "waitingFor", "waitingUntil", "liveControl")},
        "unreadable": run.get("unreadable"),
        "knownGood": [one["stepId"] for one in steps["steps"][: run["knownGoodPrefixLength"]]],
        "stoppedAt": run.get("frontier"),
        "happened": [_note(event) for event in told if event["type"] in _NOTED][-NOTES_MAX:],
        "tried": failed[-TRIED_MAX:],
        "attemptsFailed": len(failed),
        "canBeDone": [str(Advice(one["text"], one.get("command"))) for one in run.get("advice", ())],
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
