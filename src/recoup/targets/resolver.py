"""The resolver as a browser asks it: elements of one look at a page in, one of them or none out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from recoup.model.outcome import Looking
from recoup.model.redacted import MASKS
from recoup.model.target import Element, Resolution, Target
from recoup.targets.exact import find
from recoup.targets.healing import Learned
from recoup.targets.page import Page
from recoup.targets.profiles import profile
from recoup.targets.resolve import resolve

AsRecorded = Callable[[Sequence[Element]], Sequence[Element]]
"""Elements as a record of them would show them: redacted."""


class PageResolver:
    """Remembers the index of the last look: a target is often asked for several times in it.

    Records mask what looks like a secret. An element whose record holds a mask is compared with the page as a record
    would show it, so that the mask itself is no difference.
    """

    def __init__(self, as_recorded: AsRecorded | None = None) -> None:
        self._as_recorded = as_recorded
        self._elements: Sequence[Element] = ()
        self._page = Page(())
        self._compared: tuple[str, Page] | None = None

    def resolve(
        self,
        target: Target,
        elements: Sequence[Element],
        looking: Looking,
        css_matches: Sequence[int] | None,
    ) -> Resolution:
        page = self._indexed(elements)
        known = (*(one.element for one in looking.remembered), *looking.lessons, *looking.proposed)
        mask = _mask_in(known if target.recorded is None else (target.recorded, *known))
        compared = self._as_records_show(mask) if mask and self._as_recorded else page
        if compared is not page and target.recorded is not None:
            target = msgspec.structs.replace(target, recorded=self._redacted([target.recorded], mask)[0])
        return resolve(
            target,
            page,
            profile(looking.level),
            looking.floors,
            css_matches=css_matches,
            compared=compared,
            learned=Learned(
                remembered=looking.remembered,
                forbidden=looking.forbidden,
                lessons=looking.lessons,
                proposed=looking.proposed,
            ),
        )

    def matches(
        self, target: Target, elements: Sequence[Element], css_matches: Sequence[int] | None
    ) -> Sequence[int]:
        """Every element that is as the target is written; nothing healed."""
        return find(target, self._indexed(elements), css_matches).indices

    def _indexed(self, elements: Sequence[Element]) -> Page:
        if elements is not self._elements:
            self._elements, self._page, self._compared = elements, Page(elements), None
        return self._page

    def _as_records_show(self, mask: str) -> Page:
        if self._compared is None or self._compared[0] != mask:
            self._compared = mask, Page(self._redacted(self._page.elements, mask))
        return self._compared[1]

    def _redacted(self, elements: Sequence[Element], mask: str) -> list[Element]:
        """With the mask that the record has: which one is used depends on the secrets that are registered."""
        assert self._as_recorded is not None, "asked only where it is known"
        redacted = self._as_recorded(elements)
        return [msgspec.convert(_with_mask(msgspec.to_builtins(one), mask), Element) for one in redacted]


def _mask_in(elements: Sequence[Element]) -> str:
    """The first mask in any of them; "" where there is none."""
    written = b"".join(map(msgspec.json.encode, elements))
    return next((mask.decode() for mask in MASKS if mask in written), "")


def _with_mask(value: Any, mask: str) -> Any:
    match value:
        case str():
            for other in MASKS:
                value = value.replace(other.decode(), mask)
            return value
        case dict():
            return {key: _with_mask(item, mask) for key, item in value.items()}
        case list() | tuple():
            return [_with_mask(item, mask) for item in value]
    return value
