"""Values as people read them: tones, times, lengths. No markup is made here but by `Markup` of escaped parts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from markupsafe import Markup

from recoup.reports.spoken import count, lasting, short_digest

_TONES: Final = {
    **dict.fromkeys(
        ("succeeded", "passed", "recovered", "finished", "accepted", "healthy", "working", "resolved",
         "verified"), "good"),
    **dict.fromkeys(("failed", "dead_letter", "rejected", "unhealthy", "quarantined", "refused", "spent"), "bad"),
    **dict.fromkeys(
        ("escalated", "waiting", "blocked", "degraded", "paused", "invalidated", "silent", "open", "pending",
         "rollback", "recovering", "draining", "troubled", "unverified", "report"), "warn"),
    **dict.fromkeys(("running", "started", "launched", "acknowledged", "assigned"), "live"),
}  # fmt: skip


def tone(word: str | None) -> str:
    """good | bad | warn | live | plain: a class; the word itself stands beside it, never a colour alone."""
    return _TONES.get(word or "", "plain")


def spoken(word: str | None) -> str:
    """`dead_letter` as people say it."""
    return (word or "").replace("_", " ")


def moment(iso: str | None) -> Markup | str:
    """When it was. Scripts make it the reader's own time, and say how long ago."""
    if not iso:
        return "—"
    shown = iso[:19].replace("T", " ")
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(iso, shown, shown[5:16])


def from_us(us: int | None) -> str | None:
    return None if us is None else datetime.fromtimestamp(us / 1e6, UTC).isoformat(timespec="milliseconds")


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def per_cent(value: float | None, digits: int = 0) -> str:
    return "—" if value is None else f"{value * 100:.{digits}f} %"


def shell(words: list[str]) -> str:
    """A command that can be pasted."""
    return shlex.join(words)


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "tone": tone,
    "spoken": spoken,
    "moment": moment,
    "from_us": from_us,
    "lasting": lasting,
    "count": count,
    "short_digest": short_digest,
    "pretty": pretty,
    "per_cent": per_cent,
    "shell": shell,
}
