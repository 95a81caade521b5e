"""Stored bytes as facts. What cannot be decoded is an error that names the event, never one of the decoder's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recoup.errors import EventUnreadable
from recoup.model.events import Event, Payload, decode_payload
from recoup.model.instant import LATEST_US, Instant

_REASON_MAX = 200


def event_of(stream: str, seq: int, at: Instant, kind: str, raw: bytes) -> Event:
    """Raises EventUnreadable."""
    return Event(stream, seq, at, kind, fact_of(stream, seq, at, kind, raw), raw)


def sound_us(stored: object) -> int:
    """A stored time; 0 for what is none."""
    return stored if type(stored) is int and 0 <= stored <= LATEST_US else 0


def sound_count(stored: object) -> int:
    """A stored number of something; 0 for what is none."""
    return stored if type(stored) is int and stored >= 0 else 0


def sound_text(stored: object) -> str:
    """A stored text; of bytes what can be read of them."""
    if isinstance(stored, bytes):
        return stored.decode("utf-8", "replace")
    return "" if stored is None else str(stored)


def sound_instant(stored: Sequence[Any]) -> Instant:
    """Wall time, boot time and boot as they are stored; the beginning of 1970 for what is no time."""
    at = Instant(*stored)
    return at if at.is_sound else Instant(sound_us(at.wall_us), 0, "")


def fact_of(stream: str, seq: int, at: Instant, kind: str, raw: bytes) -> Payload:
    """Raises EventUnreadable."""
    if not at.is_sound:
        raise EventUnreadable(stream, seq, kind, "its time is not a time", sound_us(at.wall_us))
    try:
        return decode_payload(kind, raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:_REASON_MAX] or type(error).__name__
        raise EventUnreadable(stream, seq, kind, reason, at.wall_us) from None


def type_name(stored: bytes) -> str:
    """SQLite gives it as bytes: as text it would refuse a whole list of events because of one."""
    return stored.decode("utf-8", "replace")
