"""What a workflow has learned about its targets."""

from __future__ import annotations

import msgspec

from recoup.model.target import Element


class Entry(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One element that was taken for one target, and how that went."""

    step_id: str
    target_digest: str
    identity: str
    element: Element
    origin: str
    confidence: float
    successes: int = 1
    """Verified ones, the first of which taught it."""
    failures: int = 0


class VersionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A version of what a workflow has learned: a point that can be gone back to, for people and records."""

    version_id: str
    workflow_id: str
    created_at: str
    """RFC 3339; "" where that cannot be read."""
    success_rate_before: float | None = None
    success_rate_after: float | None = None
    components_versioned: tuple[str, ...] = ()
    entries: int | None = None
    """None: whoever tells does not know."""
    up_to: int = 0
    """The last event of the workflow's targets that is in it."""
    digest: str = ""
    """Of all of it."""
    current: bool = False
    trouble: str = ""
    """Why it cannot be used; "" where nothing speaks against it."""


class Remembered(msgspec.Struct, frozen=True):
    """An entry that may be used: looked for on the page before anything costly is."""

    element: Element
    confidence: float
    origin: str
