"""What a workflow has learned about its targets."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from recoup.model.instant import Instant
from recoup.model.target import Element

Key = tuple[str, str]
"""A step and the digest of its target."""


COMPONENTS = ("memory", "targets", "index", "prototypes")
"""What a version holds: what was learned, what targets looked like, vectors of both, and screens."""
_VERSION = re.compile(r"v([0-9]{6,9})")


def version_name(number: int) -> str:
    return f"v{number:06d}"


def number_of(version: str) -> int:
    """0: it is no version's name."""
    found = _VERSION.fullmatch(version)
    return int(found[1]) if found else 0


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


class Screen(msgspec.Struct, frozen=True):
    """A screen as whole numbers: nothing of it can be read."""

    marks: tuple[int, ...]
    """Of its title and the names of what can be acted on."""
    layout: tuple[int, ...]
    """How much of that lies in which part of the page."""
    viewport: tuple[float, float]
    scale: float
    """Device pixels for each CSS pixel."""


class WhichScreen(msgspec.Struct, frozen=True):
    """The nearest known screen. A proposal: by itself it decides nothing."""

    screen_id: str
    confidence: float
    """How alike they are beyond what any two pages are, from 0 to 1. No probability."""
    margin: float
    """By how much the next one is less alike."""
    low_confidence: bool
    drift: tuple[str, ...] = ()
    """What moved, in words."""

    @property
    def runtime_drift(self) -> bool:
        return bool(self.drift)


class State(msgspec.Struct, frozen=True):
    """All that was learned, at one point of the stream."""

    entries: Mapping[tuple[Key, str], Entry] = {}
    """By target and identity, the one that was used longest ago first."""
    forbidden: Mapping[Key, frozenset[str]] = {}
    screens: Mapping[str, Screen] = {}
    """By step: what the page looked like when its target was last proven."""


class Found(msgspec.Struct, frozen=True):
    """What targets looked like when they were last found to the letter, when some were healed, and how long the slow
    ones took. Facts, no lessons: they are not taken back."""

    observed: Mapping[Key, Element] = {}
    healed: tuple[Instant, ...] = ()
    took_ms: Mapping[Key, tuple[int, ...]] = {}


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A version, ready for use: all that the stream says up to it."""

    version: str
    up_to: int
    """The last event that is in it; the next one is the snapshot itself."""
    state: State
    found: Found
