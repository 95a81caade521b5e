"""Why a run stopped, what was tried, and what can be done: put together from what is recorded, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from recoup.kernel.advice import Advice
from recoup.kernel.description import describe
from recoup.mcp.desk import Document
from recoup.model import events as ev

TRIED_MAX: Final = 20
NOTES_MAX: Final = 20
WORDS_CHARS_MAX: Final = 600
_FAILED: Final = ev.AttemptFailed.TYPE
_NOTED: Final = frozenset(
    payload.TYPE
    for payload in (
        *(ev.SelfHealExhausted, ev.RunFailed, ev.RunDeadLettered, ev.RunCancelled),
        *(ev.RunWaiting, ev.RunBlocked, ev.RunInterrupted, ev.Escalated),
    )
)
_TELLING: Final = _NOTED | {_FAILED}


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
    stored: dict[str, Any] = event["payload"]
    words = {name: stored[name] for name in ("stepId", "reason", "hint") if stored.get(name)}
    return {"at": event["at"], "what": _text(event["type"], stored), **words}


def _text(event_type: str, stored: dict[str, Any]) -> str:
    """The type, where a newer gateway says what this version does not understand."""
    try:
        description = describe(ev.decode_payload(event_type, msgspec.json.encode(stored)))
    except msgspec.MsgspecError:
        return event_type
    return event_type if description is None else description.text
