"""What an agent has told about its own work so far, and what one of its events says."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Event = dict[str, Any]

TEXT_CHARS_MAX: Final = 64 << 10
MESSAGE_CHARS_MAX: Final = 1 << 20
DENIALS_MAX: Final = 20
_COUNT_MAX: Final = 1_000_000_000
_SESSION: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Heard(NamedTuple):
    """One event: whether it was progress, and what the agent does now, for people."""

    progress: bool
    note: str = ""


class Trouble(NamedTuple):
    """What went wrong in the agent's own terms: the deciding fact (`rate_limit`, `http_503`, …) and its words."""

    event: str
    fact: str
    words: str = ""
    retry_after_s: float | None = None


@dataclass(slots=True)
class Story:
    """Folded from an agent's events, one after the other."""

    session_id: str | None = None
    turns: int | None = None
    cost_usd: float | None = None
    last_command: str = ""
    message: str = ""
    """Its last one: what it would have printed without events."""
    denials: list[str] = field(default_factory=list)
    trouble: Trouble | None = None
    """Why the agent gave up."""
    waiting: Trouble | None = None
    """What it is waiting for: its service, again and again."""
    events: int = 0
    ended: bool = False
    """The agent has said that it is done, well or not."""

    def has_session(self, session_id: Any) -> None:
        """Only what has the form of an id: it is kept as it is."""
        if isinstance(session_id, str) and _SESSION.fullmatch(session_id):
            self.session_id = session_id

    def ran(self, command: str) -> Heard:
        self.last_command = command[:TEXT_CHARS_MAX]
        return Heard(True, f"runs: {command}")

    def said(self, message: str) -> Heard:
        self.message = message[-MESSAGE_CHARS_MAX:]
        return Heard(True, first_line(message))

    def denied(self, tool: str) -> None:
        if len(self.denials) < DENIALS_MAX and tool not in self.denials:
            self.denials.append(tool[:TEXT_CHARS_MAX])


def first_line(text: str) -> str:
    return next((line.strip() for line in text[:TEXT_CHARS_MAX].splitlines() if line.strip()), "")


# An event is somebody else's: whatever is not of the expected type counts as absent.


def text(event: Any, *path: str) -> str:
    value = _at(event, path)
    return value if isinstance(value, str) else ""


def table(event: Any, *path: str) -> Event:
    value = _at(event, path)
    return value if isinstance(value, dict) else {}


def rows(event: Any, *path: str) -> list[Event]:
    value = _at(event, path)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def count(event: Any, *path: str) -> int | None:
    value = _at(event, path)
    return value if type(value) is int and 0 <= value <= _COUNT_MAX else None


def amount(event: Any, *path: str) -> float | None:
    value = _at(event, path)
    fits = type(value) in (int, float) and 0 <= value <= _COUNT_MAX and math.isfinite(value)
    return float(value) if fits else None


def _at(event: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        event = event.get(key) if isinstance(event, dict) else None
    return event
