"""What is said of a history that can be read only up to an event."""

from __future__ import annotations

from recoup.model.answers.runs import UnreadableEvent
from recoup.model.run import Unreadable


def unreadable_words(unreadable: Unreadable) -> str:
    which = f"event {unreadable.seq}" if unreadable.seq else "an event"
    return f"unreadable: {which} ({unreadable.type}) cannot be read: {unreadable.reason}"


def unreadable_document(unreadable: Unreadable | None) -> UnreadableEvent | None:
    if unreadable is None:
        return None
    return UnreadableEvent(seq=unreadable.seq, type=unreadable.type, reason=unreadable.reason)
