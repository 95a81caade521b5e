"""Moments as people read them: in the zone of this machine, which is always named. JSON keeps UTC."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final

from recoup.kernel.wording import one_line

_ZONE: list[tzinfo | None] = [None]
"""None: the zone of this machine, as TZ says."""
_DAY: Final = "%Y-%m-%d %H:%M"


def use_utc() -> None:
    _ZONE[0] = UTC


def minute(moment: str | int) -> str:
    """`2026-11-18 09:28 EST`, from an ISO time or from microseconds."""
    return _shown(moment, f"{_DAY} %Z")


def second(moment: str | int) -> str:
    return _shown(moment, f"{_DAY}:%S %Z")


def clock(moment: str | int) -> str:
    """`09:28:57 EST`."""
    return _shown(moment, "%H:%M:%S %Z")


def _shown(moment: str | int, form: str) -> str:
    """What is no moment (a damaged record, say) is shown as it is."""
    try:
        if isinstance(moment, str):
            at = datetime.fromisoformat(moment)
            at = at if at.tzinfo else at.replace(tzinfo=UTC)
        else:
            at = datetime.fromtimestamp(moment / 1e6, UTC)
        return at.astimezone(_ZONE[0]).strftime(form)
    except (ValueError, OverflowError, OSError):
        return one_line(str(moment))
