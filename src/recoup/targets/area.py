"""Which candidates an attempt may consider: like words, a shared key, or a place near the recorded one."""

from __future__ import annotations

from typing import Final

import msgspec

from recoup.model.target import Box, Element, Profile
from recoup.targets.features import AT
from recoup.targets.page import Bools, Floats, Page

REACH_PX: Final = 400.0
"""How far around the recorded place is looked, before padding."""
KEYS: Final = ("id", "test_id", "name_attribute", "link")


class Area(msgspec.Struct, frozen=True):
    """Where to look, cut at the edges of the page."""

    box: Box
    clamped: bool


NOWHERE: Final = Area(Box(0, 0, -1, -1), clamped=False)


def area_around(element: Element, page: Page, profile: Profile) -> Area:
    """The recorded place and `REACH_PX` around it, the more the wider the profile; nowhere, if no place is known."""
    box = element.box
    if not box.width * box.height:
        return NOWHERE
    reach = REACH_PX * profile.padding
    wide = (box.x - reach, box.y - reach, box.x + box.width + reach, box.y + box.height + reach)
    left, top, right, bottom = page.edges
    x, y = min(max(wide[0], left), right), min(max(wide[1], top), bottom)
    until_x, until_y = max(min(wide[2], right), x), max(min(wide[3], bottom), y)
    return Area(Box(x, y, until_x - x, until_y - y), (x, y, until_x, until_y) != wide)


def considered(rows: Floats, boxes: Floats, profile: Profile, area: Area) -> Bools:
    """Which candidates, told by their features and boxes, this profile lets be taken."""
    alike = (rows[:, AT["said_alike"]] >= profile.min_ratio) | (rows[:, AT["face_equal"]] > 0)
    named = (rows[:, [AT[key] for key in KEYS]] == 1.0).any(axis=1) | (rows[:, AT["rarest_parameter"]] > 0)
    kind = (rows[:, AT["tag"]] > 0) | (rows[:, AT["role"]] > 0)
    if profile.expands_roles:
        kind |= rows[:, AT["role_alias"]] > 0
    found: Bools = alike | named | (kind & _within(area.box, boxes))
    return found


def _within(area: Box, boxes: Floats) -> Bools:
    x, y = boxes[:, 0] + boxes[:, 2] / 2, boxes[:, 1] + boxes[:, 3] / 2
    across = (area.x <= x) & (x <= area.x + area.width)
    inside: Bools = across & (area.y <= y) & (y <= area.y + area.height)
    return inside
