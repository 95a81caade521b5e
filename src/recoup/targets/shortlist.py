"""Which elements are worth a closer look, out of a whole page, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from recoup.model.target import Element
from recoup.targets.features import Wanted
from recoup.targets.page import Bools, Floats, Ints, Page

SHORTLIST_MAX: Final = 24
ALWAYS: Final = 100.0
TIGHT_AREA: Final = 6.0
"""An element around another is the same thing for a click while it is at most so many times larger."""
OVERLAP_SAME: Final = 0.85


def shortlist(wanted: Wanted, page: Page, limit: int = SHORTLIST_MAX, *, always: Sequence[int] = ()) -> Ints:
    """The likeliest, likeliest first; those that are `always` worth it before all others."""
    likely = _likely(wanted, page)
    likely[list(always)] += ALWAYS
    if len(likely) <= limit:
        return np.argsort(-likely, kind="stable")
    some = np.argpartition(-likely, limit)[:limit]
    return some[np.argsort(-likely[some], kind="stable")]


def _likely(wanted: Wanted, page: Page) -> Floats:
    likely, element = _by_words(wanted, page), wanted.element
    if element.id:
        likely[page.ids.get(element.id, [])] += 2.0
    if element.test_id:
        likely[page.test_ids.get(element.test_id, [])] += 3.0
    if element.name_attribute:
        likely[page.name_attributes.get(element.name_attribute, [])] += 1.5
    if wanted.facets.link:
        likely[page.links.get(wanted.facets.link, [])] += 2.5
    if wanted.facets.said:
        likely[page.speakers.get(wanted.facets.said, [])] += 2.0
    if element.tag in page.tags:
        likely[page.tags[element.tag]] += 0.6
    for name in element.classes:
        if name in page.classes:
            having = page.classes[name]
            likely[having] += 0.8 / (1 + len(having) / 10)
    return likely + _by_place(element, page)


def _by_words(wanted: Wanted, page: Page) -> Floats:
    likely = np.zeros(len(page))
    for word, rarity in wanted.rarity.items():
        if word in page.holders:
            likely[page.holders[word]] += 3.0 * rarity / wanted.rarity_sum
    return likely / (1.0 + np.maximum(0, page.lengths - len(wanted.facets.words)) / 8)


def _by_place(element: Element, page: Page) -> Floats:
    box = element.box
    if not box.width * box.height:
        return np.zeros(len(page))
    x, y, width, height = page.sides
    away = np.hypot(x - box.x, y - box.y)
    size = np.abs(np.log((width + 4) / (box.width + 4))) + np.abs(np.log((height + 4) / (box.height + 4)))
    nearness: Floats = 1.2 / (1 + away / 150) + 0.8 / (1 + size)
    return nearness


def one_thing(page: Page, candidates: Ints) -> Bools:
    """Which of them are the same thing for a click: nested and of like size, or one on top of the other."""
    order, end = (places[candidates] for places in page.nesting)
    boxes = page.boxes[candidates]
    area = boxes[:, 2] * boxes[:, 3]
    inside = (order[:, None] <= order[None, :]) & (order[None, :] < end[:, None])
    tight = area[:, None] <= TIGHT_AREA * np.maximum(1.0, area[None, :])
    nested = inside & tight
    return (
        nested | nested.T | (_shared_area(boxes, area) >= OVERLAP_SAME) | np.eye(len(candidates), dtype=bool)
    )


def _shared_area(boxes: Floats, area: Floats) -> Floats:
    left, top = boxes[:, 0], boxes[:, 1]
    right, bottom = left + boxes[:, 2], top + boxes[:, 3]
    width = np.minimum(right[:, None], right[None, :]) - np.maximum(left[:, None], left[None, :])
    height = np.minimum(bottom[:, None], bottom[None, :]) - np.maximum(top[:, None], top[None, :])
    both = np.maximum(0, width) * np.maximum(0, height)
    either = area[:, None] + area[None, :] - both
    shared: Floats = np.divide(both, either, out=np.zeros_like(both), where=either > 0)
    return shared
