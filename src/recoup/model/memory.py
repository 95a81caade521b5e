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


class Remembered(msgspec.Struct, frozen=True):
    """An entry that may be used: looked for on the page before anything costly is."""

    element: Element
    confidence: float
    origin: str
