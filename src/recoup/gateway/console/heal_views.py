"""Heals as a reader wants them: values in, values out. Boxes are drawn from where elements were recorded."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup

from recoup.kernel.reviewing import changed_fields
from recoup.model.events import AttemptFailed, AttemptFinished, Event, ResolutionDetails
from recoup.model.target import Box, Element, element_words
from recoup.operations.heals import Heal

FOUND_BY: Final = {
    "exact": "exactly as it was written",
    "alias": "under another role that means the same",
    "memory": "as it was learned before",
    "semantic": "by words that mean the same",
    "spatial": "where it used to be",
    "model": "by all signs together",
    "lesson": "with the help of what was learned",
}
"""What each strategy means, in words."""
_DIFF_LINES_MAX: Final = 2_000
_PICTURE_PX_MAX: Final = 20_000


class HealLine(msgspec.Struct, frozen=True):
    """One line of the list."""

    name: str
    address: str
    workflow: str
    run_id: str
    step_id: str
    attempt: int | None
    at_iso: str
    state: str
    target: str
    taken: str
    confidence: float
    margin: float
    verified: bool
    found_by: str


def heal_address(run_id: str, step_id: str, attempt: int | None) -> str:
    return f"/heals/{run_id}/{step_id}/{attempt or 0}"


def heal_line(heal: Heal) -> HealLine:
    one, fact = heal.reviewed, heal.fact
    return HealLine(
        name=heal.name,
        address=heal_address(fact.run_id, fact.step_id, fact.attempt),
        workflow=heal.workflow,
        run_id=fact.run_id,
        step_id=fact.step_id,
        attempt=fact.attempt,
        at_iso=one.at.iso(),
        state=one.state.value,
        target=fact.target,
        taken=taken_words(heal),
        confidence=fact.confidence,
        margin=fact.margin,
        verified=fact.verified,
        found_by=fact.found_by,
    )


def taken_words(heal: Heal) -> str:
    after = heal.fact.after
    return element_words(after) if after else "an element of a run that was forgotten"


def changes_of(heal: Heal) -> list[tuple[str, str, str]]:
    """Field, before, after; without geometry, which is drawn."""
    if heal.fact.after is None:
        return []
    found = changed_fields(heal.fact.before, heal.fact.after)
    return [(name.replace("_", " "), old, new) for name, old, new in found if name != "box"]


class CandidateLine(msgspec.Struct, frozen=True):
    words: str
    confidence: float
    what: str
    """taken | runner-up | considered."""


def candidate_lines(heal: Heal) -> list[CandidateLine]:
    """The likeliest first: what was taken, the next one, and others that were considered."""
    fact = heal.fact
    if not fact.candidates:
        made = [CandidateLine(taken_words(heal), fact.confidence, "taken")]
        if fact.runner_up is not None and fact.runner_up_confidence is not None:
            words = element_words(fact.runner_up)
            made.append(CandidateLine(words, fact.runner_up_confidence, "runner-up"))
        return made
    places = ("taken", "runner-up")
    return [
        CandidateLine(f"{one.role} {one.name!r}", one.confidence, places[at] if at < 2 else "considered")
        for at, one in enumerate(fact.candidates)
    ]


def resolution_of(events: Sequence[Event], step_id: str, attempt: int | None) -> ResolutionDetails | None:
    """How the attempt looked for its target: tolerance, what was considered, what was vetoed."""
    for event in reversed(events):
        told = event.payload
        if not isinstance(told, AttemptFinished | AttemptFailed) or told.step_id != step_id:
            continue
        if attempt in (None, told.attempt):
            return told.resolution
    return None


# Pictures


class Boxed(msgspec.Struct, frozen=True):
    """A box and what it is around."""

    box: Box
    kind: str
    """before | taken | next: a class."""
    words: str


def boxes_of(heal: Heal) -> list[Boxed]:
    """Where the target was recorded, what was taken for it, and what came next."""
    fact = heal.fact
    parts: list[tuple[Element | None, str, str]] = [
        (fact.before, "before", "where it was"),
        (fact.runner_up, "next", "the next best"),
        (fact.after, "taken", "taken"),
    ]
    return [
        Boxed(one.box, kind, words)
        for one, kind, words in parts
        if one is not None and one.box.width > 0 and one.box.height > 0
    ]


def sketch(boxes: Sequence[Boxed]) -> Markup:
    """The places alone, to scale, where no picture was kept or the page was scrolled."""
    if not boxes:
        return Markup("")
    left, top = min(one.box.x for one in boxes), min(one.box.y for one in boxes)
    right = max(one.box.x + one.box.width for one in boxes)
    bottom = max(one.box.y + one.box.height for one in boxes)
    pad = max(24.0, 0.06 * max(right - left, bottom - top))
    view = (left - pad, top - pad, right - left + 2 * pad, bottom - top + 2 * pad)
    said = "; ".join(f"{one.words}: {_place(one.box)}" for one in boxes)
    return Markup(
        '<svg class="sketch" viewBox="{:.0f} {:.0f} {:.0f} {:.0f}" role="img" aria-label="Places on the page. {}">'
        "{}</svg>"
    ).format(*view, said, _drawn(boxes, unit=max(view[2], view[3]) / 480))


def over_picture(address: str, size: tuple[int, int], boxes: Sequence[Boxed], words: str) -> Markup:
    """The picture, and the boxes over it as far as they can be in it: the page's own scrolling is not recorded, so
    boxes are drawn only where all of them fit."""
    width, height = size
    fits = all(
        one.box.x >= 0
        and one.box.y >= 0
        and one.box.x + one.box.width <= width
        and one.box.y + one.box.height <= height
        for one in boxes
    )
    drawn = _drawn(boxes, unit=max(1.0, width / 900)) if fits else Markup("")
    return Markup(
        '<svg class="shot" viewBox="0 0 {w} {h}" role="img" aria-label="{words}">'
        '<image href="{address}" x="0" y="0" width="{w}" height="{h}"/>{drawn}</svg>'
    ).format(w=width, h=height, words=words, address=address, drawn=drawn)


def _drawn(boxes: Sequence[Boxed], unit: float) -> Markup:
    rect = Markup(
        '<rect class="box {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="{:.1f}" '
        'stroke-width="{:.1f}"><title>{}</title></rect>'
    )
    return Markup("").join(
        rect.format(
            *(one.kind, one.box.x, one.box.y, one.box.width, one.box.height, 3 * unit, 2.5 * unit),
            f"{one.words}: {_place(one.box)}",
        )
        for one in boxes
    )


def _place(box: Box) -> str:
    return f"{box.width:g} × {box.height:g} at {box.x:g}, {box.y:g}"


def picture_size(content: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG or a JPEG; None: it is neither, or not to be believed."""
    found = _png_size(content) if content.startswith(b"\x89PNG\r\n\x1a\n") else _jpeg_size(content)
    if found is None or not all(0 < side <= _PICTURE_PX_MAX for side in found):
        return None
    return found


def _png_size(content: bytes) -> tuple[int, int] | None:
    if len(content) < 24:
        return None
    width, height = struct.unpack(">II", content[16:24])
    return int(width), int(height)


def _jpeg_size(content: bytes) -> tuple[int, int] | None:
    if not content.startswith(b"\xff\xd8"):
        return None
    at = 2
    while at + 9 <= len(content) and content[at] == 0xFF:
        kind, length = content[at + 1], int.from_bytes(content[at + 2 : at + 4], "big")
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return int(width), int(height)
        at += 2 + max(2, length)
    return None


# Patches


def diff_lines(patch: str) -> list[tuple[str, str]]:
    """Class and text of each line; the class says what it does, a sign in the text does, too."""
    return [(_diff_class(line), line) for line in patch.splitlines()[:_DIFF_LINES_MAX]]


def _diff_class(line: str) -> str:
    if line.startswith(("diff ", "--- ", "+++ ", "index ")):
        return "file"
    if line.startswith("@@"):
        return "hunk"
    return {"+": "add", "-": "del"}.get(line[:1], "")


def said_facts(details: ResolutionDetails | None) -> list[tuple[str, str]]:
    """What is known of how it was looked for, in words."""
    if details is None:
        return []
    told: list[tuple[str, Any]] = [
        ("Elements considered", details.considered),
        ("Tolerance level", details.healing_attempt),
        ("Words must be alike by", f"{details.fuzzy_threshold_used:.0%}"),
        ("Other roles tried", ", ".join(details.role_aliases_used) or "none"),
        ("Vetoes", ", ".join(one.replace("_", " ") for one in details.vetoes) or "none"),
        ("Looked for", f"{details.duration_ms:.0f} ms"),
    ]
    return [(name, str(value)) for name, value in told]
