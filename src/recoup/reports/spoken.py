"""Lengths of time and counts as people say them."""

from __future__ import annotations


def lasting(seconds: float) -> str:
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02d} h"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def since(seconds: float) -> str:
    """A moment, counted from the run's first event."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    if not hours and not minutes:
        return f"+{rest:.1f} s"
    return f"+{hours}:{minutes:02d}:{int(rest):02d}" if hours else f"+{minutes}:{int(rest):02d}"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def short_digest(digest: str | None) -> str:
    algorithm, colon, digits = (digest or "").rpartition(":")
    return f"{algorithm}{colon}{digits[:12]}"
