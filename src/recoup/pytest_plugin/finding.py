"""Which element of the page is the recorded one, if any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from playwright.async_api import ElementHandle, Page

from recoup.kernel.healing import floors
from recoup.model.mode import Mode
from recoup.model.policy import Policy
from recoup.model.target import Element, Resolution, Target
from recoup.pytest_plugin.looking import frame_at, look
from recoup.pytest_plugin.records import Record
from recoup.targets.page import Page as PageIndex
from recoup.targets.profiles import profile
from recoup.targets.resolve import resolve

POLICY: Final = Policy()


@dataclass(frozen=True)
class Candidate:
    """What may be taken for the recorded element."""

    node: ElementHandle
    element: Element
    confidence: float
    margin: float


@dataclass(frozen=True)
class Nothing:
    """Why nothing is taken."""

    reason: str


async def find(page: Page, record: Record) -> Candidate | Nothing:
    """As strictly as possible: each level considers more, and the floors are those of a workflow that is well."""
    frame = frame_at(page, record.frame)
    if frame is None:
        return Nothing("the frame that it was in is not there")
    seen = await look(frame)
    made = _resolved(record.element, seen.elements)
    chosen = made.chosen
    if chosen is None:
        return Nothing(made.reason or "nothing on the page is like it")
    node = await seen.node(chosen.index)
    if node is None or chosen.element.frame:
        return Nothing("it is in another frame now" if node else "it is gone again")
    return Candidate(node, chosen.element, chosen.confidence, made.margin)


def _resolved(recorded: Element, elements: tuple[Element, ...]) -> Resolution:
    page, target = PageIndex(elements), Target(recorded=recorded)
    accepted = floors(Mode.RUNNING, POLICY)
    made = resolve(target, page, profile(0), accepted)
    for level in range(1, POLICY.heal_level_max + 1):
        if made.chosen is not None:
            break
        made = resolve(target, page, profile(level), accepted)
    return made
