"""Events of a run as lines that people read. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from recoup.kernel.description import Description, describe
from recoup.model.events import Event

PAYLOAD_CHARS_MAX: Final = 6_000
_WORDS_CHARS_MAX: Final = 300
_LIVE: Final = frozenset({"started", "launched", "resumed"})


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    at: str
    type: str
    tone: str
    step_id: str
    attempt: str
    words: str
    payload: str
    cut: bool


def event_line(event: Event) -> EventLine:
    """With its stored form, so that what another version has written is shown, too."""
    stored: dict[str, Any] = {"reason": f"cannot be read: {event.unreadable}"}
    if event.unreadable is None:
        stored = msgspec.json.decode(event.raw, type=dict[str, Any])
    description = None if event.unreadable is not None else describe(event.payload)
    shown = json.dumps(stored, indent=2, ensure_ascii=False)
    return EventLine(
        seq=event.seq,
        at=event.at.iso(),
        type=event.type,
        tone=_tone(event, description),
        step_id=str(stored.get("stepId") or ""),
        attempt=str(stored.get("attempt") or ""),
        words=_words(stored if description is None else {"reason": description.text}),
        payload=shown[:PAYLOAD_CHARS_MAX],
        cut=len(shown) > PAYLOAD_CHARS_MAX,
    )


def _tone(event: Event, description: Description | None) -> str:
    """`live`: something begins."""
    begins = event.type.rpartition(".")[2] in _LIVE
    return "live" if begins else "plain" if description is None else str(description.tone)


def _words(stored: dict[str, Any]) -> str:
    text = " ".join(str(stored.get("reason") or "").split())
    return text if len(text) <= _WORDS_CHARS_MAX else f"{text[:_WORDS_CHARS_MAX]}…"
