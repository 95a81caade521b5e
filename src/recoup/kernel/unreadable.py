"""What is said of a history that can be read only up to an event."""

from __future__ import annotations

from typing import Any

import msgspec

from recoup.model.run import Unreadable


def unreadable_words(unreadable: Unreadable) -> str:
    which = f"event {unreadable.seq}" if unreadable.seq else "an event"
    return f"unreadable: {which} ({unreadable.type}) cannot be read: {unreadable.reason}"


def unreadable_document(unreadable: Unreadable | None) -> dict[str, Any] | None:
    return None if unreadable is None else msgspec.to_builtins(unreadable)
