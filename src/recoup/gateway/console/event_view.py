"""Events of a run as lines that people read. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from recoup.model.events import Event

PAYLOAD_CHARS_MAX: Final = 6_000
_WORDS_CHARS_MAX: Final = 300
_SAYING: Final = ("reason", "summary", "detail", "hint")
_TONES: Final = {
    "failed": "bad", "exhausted": "bad", "dead_lettered": "bad", "cancelled": "bad", "rejected": "bad",
    "finished": "good", "succeeded": "good", "healed": "good", "reused": "good",
    "waiting": "warn", "triggered": "warn", "escalated": "warn", "invalidated": "warn", "blocked": "warn",
    "started": "live", "launched": "live", "resumed": "live",
}  # fmt: skip


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
    """From the stored form, so that what another version has written is shown, too."""
    stored: dict[str, Any] = {"reason": f"cannot be read: {event.unreadable}"}
    if event.unreadable is None:
        stored = msgspec.json.decode(event.raw, type=dict[str, Any])
    shown = json.dumps(stored, indent=2, ensure_ascii=False)
    return EventLine(
        seq=event.seq,
        at=event.at.iso(),
        type=event.type,
        tone=_TONES.get(event.type.rpartition(".")[2], "plain"),
        step_id=str(stored.get("stepId") or ""),
        attempt=str(stored.get("attempt") or ""),
        words=_words(stored),
        payload=shown[:PAYLOAD_CHARS_MAX],
        cut=len(shown) > PAYLOAD_CHARS_MAX,
    )


def _words(stored: dict[str, Any]) -> str:
    parts = [
        str(stored[name]).replace("_", " ") for name in ("action", "verdict", "strategy") if stored.get(name)
    ]
    parts += [str(stored[name]) for name in _SAYING if stored.get(name)][:1]
    said = " ".join(": ".join(parts).split())
    return said if len(said) <= _WORDS_CHARS_MAX else f"{said[:_WORDS_CHARS_MAX]}…"
