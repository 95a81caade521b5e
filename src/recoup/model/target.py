"""What a browser step is about: the element as a plan names it, and elements as a page shows them."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from recoup.model.ident import Ident

TEXT_MAX = 500
"""Of an element's words, as they are collected and recorded."""


class Box(msgspec.Struct, frozen=True, gc=False):
    """In CSS pixels of the whole page, so that scrolling changes nothing."""

    x: float
    y: float
    width: float
    height: float


class Element(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One element of a page as the collector sees it; recorded, it is the full description of a target.

    Texts are collapsed (runs of white space are one space) and cut at TEXT_MAX. What is typed into a field is in none
    of them.
    """

    tag: str
    """Lower case."""
    role: str = ""
    """As ARIA computes it, explicit or implicit; "" where there is none."""
    type: str = ""
    """Of an input or a button."""
    name: str = ""
    """The accessible name."""
    text: str = ""
    """What is to be read in it."""
    id: str = ""
    test_id: str = ""
    name_attribute: str = ""
    classes: tuple[str, ...] = ()
    href: str = ""
    """As it is written, not resolved."""
    alt: str = ""
    title: str = ""
    placeholder: str = ""
    label: str = ""
    """Of a form field: the words of its label."""
    attributes: dict[str, str] = {}
    """Others that tell something (aria-*, data-*, for, action, src), few and short."""
    box: Box = Box(0, 0, 0, 0)
    neighbours: tuple[str, ...] = ()
    """Words around it, nearest first."""
    container: str = ""
    """Words that tell the nearest list item, row, card or fieldset from its siblings; "" where it is in none."""
    ancestors: tuple[str, ...] = ()
    """Roles, or tags where there is none, from the parent upwards; at most eight."""
    xpath: str = ""
    id_xpath: str = ""
    """The same from the nearest ancestor with an id."""
    frame: tuple[int, ...] = ()
    """Which frame, by numbers from the page down; () is the page itself."""
    visible: bool = True
    enabled: bool = True


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An element as a plan names it: in short, or recorded in full, or both. All that is said must hold."""

    role: str | None = None
    name: str | None = None
    text: str | None = None
    label: str | None = None
    placeholder: str | None = None
    test_id: str | None = None
    css: str | None = None
    near: str | None = None
    """Whole, visible words in its row, card or list item; where it is in none, close to it."""
    inside: str | None = None
    """Whole, visible words: only within the smallest list item, row, card or section that holds them, and in no other
    row, card or list item of it."""
    nth: int | None = None
    """Of several that fit, in the order of the page, from 1; negative from the end."""
    frame: str | None = None
    """CSS of the frame, or its name; None: any frame of the same origin."""
    recorded: Element | None = None


SHORT = ("role", "name", "text", "label", "placeholder", "test_id", "css", "near", "inside", "frame")
"""The texts of a target that people write."""


def target_words(target: Target) -> str:
    """In a few words, as a person would name it."""
    said = [f"{name.replace('_', ' ')} {getattr(target, name)!r}" for name in SHORT if getattr(target, name)]
    if target.nth is not None:
        said.append(f"number {target.nth}")
    if not said and target.recorded is not None:
        said = [element_words(target.recorded)]
    return ", ".join(said)


def element_words(element: Element) -> str:
    """In a few words, as a person would see it."""
    shown = element.name or element.text or element.label or element.id
    return f"{element.role or element.tag} {shown[:80]!r}" if shown else element.role or element.tag


def said_by(element: Element) -> str:
    """What names it to a person: the first thing that is to be read or heard."""
    return (
        element.text or element.name or element.label or element.placeholder or element.alt or element.title
    )


def identity_of(element: Element) -> tuple[str, ...]:
    """All that names it. Where it is and what is around it may have changed."""
    return (
        element.tag, element.role, element.type, plain(said_by(element)), element.id, element.test_id,
        element.name_attribute, element.href, plain(element.container),
    )  # fmt: skip


def plain(text: str) -> str:
    """To the letter, but for case and white space. Punctuation counts: `+` is not `-`."""
    return " ".join(text.split()).casefold()


class Fingerprint(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a page is, compared part by part. Digests: addresses and names may hold anything."""

    url: Ident
    """Normalised: without a fragment, parameters sorted."""
    title: Ident
    names: tuple[Ident, ...] = ()
    """Of role and name of what can be acted on, each once, sorted; at most 200."""


EXACT, ALIAS, SEMANTIC, SPATIAL, MODEL = "exact", "alias", "semantic", "spatial", "model"
"""How the element of a target is found."""
TIMING, FORMAT = "timing", "format"
"""What else may be needed: to wait for as long as it usually takes, and to type a value as the field wants it."""


class HealMode(StrEnum):
    """What is done when a target is not found as it was written."""

    OFF = "off"
    REPORT = "report"
    """Say what would have been taken, and fail."""
    APPLY = "apply"


class Heal(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a step or a plan says about healing. None: nothing."""

    mode: HealMode | None = None
    max_level: int | None = None
    learn: bool | None = None
    """From heals that were verified."""


class Profile(msgspec.Struct, frozen=True):
    """How far an attempt may look: which elements are considered, never which one is accepted."""

    level: int
    min_ratio: float
    """Of the text that must be alike."""
    padding: float
    """By how much the area around the recorded place is widened."""
    expands_roles: bool


class Floors(msgspec.Struct, frozen=True):
    """What is accepted: a calibrated probability, and by how much it is ahead of the next."""

    confidence: float
    margin: float


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One candidate, for people and records."""

    index: int
    """Its place among the elements of the page."""
    confidence: float
    element: Element


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An element that was considered, in short: for those who ask what else there was."""

    role: str
    name: str
    confidence: float


CANDIDATES_MAX = 5


def candidate_of(score: Score) -> Candidate:
    """Nothing is cut off: half a secret would not be known for one."""
    element = score.element
    return Candidate(
        role=element.role or element.tag, name=said_by(element), confidence=round(score.confidence, 4)
    )


class Resolution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which element was chosen, or why none was."""

    chosen: Score | None
    best: Score | None
    """The most likely one, also where none was chosen."""
    runner_up: Score | None = None
    """The next one that is not the same thing (nested in it, or around it)."""
    further: tuple[Score, ...] = ()
    """Those after it, each another thing."""
    margin: float = 0.0
    strategy: str = "none"
    """exact | alias | memory | semantic | spatial | model | lesson | none."""
    led_by: str = ""
    """lesson: the identity of what was learned that led here."""
    reason: str = ""
    """Why none was chosen."""
    vetoes: tuple[str, ...] = ()
    profile: Profile
    floors: Floors
    role_aliases_used: tuple[str, ...] = ()
    clamped: bool = False
    """The area to look in went beyond the page and was cut."""
    considered: int = 0
    duration_ms: float = 0.0

    @property
    def healed(self) -> bool:
        return self.chosen is not None and self.strategy != "exact"

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The likeliest first, each thing once."""
        told = (self.best, self.runner_up, *self.further)
        return tuple(candidate_of(score) for score in told[:CANDIDATES_MAX] if score is not None)
