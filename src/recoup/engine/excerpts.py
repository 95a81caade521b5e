"""What may be stored of an attempt's output: redacted first and cut then, for a cut through a secret would let its end
pass."""

from __future__ import annotations

from recoup.model.outcome import Captured, Outcome
from recoup.ports import Redactor

_LEAD_IN_BYTES = 64 << 10


def end_of(redactor: Redactor, captured: Captured, limit: int) -> str:
    """The last of what was printed, at most so many bytes."""
    if limit <= 0 or not captured.total:
        return ""
    redacted = redactor.redact(captured.last(limit + _LEAD_IN_BYTES))
    return redacted.data[-limit:].decode("utf-8", "replace").strip()


def excerpt(redactor: Redactor, outcome: Outcome, detail: str, limit: int) -> str:
    """The end of what was printed, what went to stderr after it, and what was found wrong last."""
    said = redactor.redact(detail).data[: limit // 4].decode("utf-8", "replace")
    room = limit - len(said.encode()) - 2
    errors = end_of(redactor, outcome.stderr, room * 2 // 3 if outcome.stdout.total else room)
    printed = end_of(redactor, outcome.stdout, room - len(errors.encode()))
    return "\n".join(part for part in (printed, errors, said) if part)
