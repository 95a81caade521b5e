"""The resolver as a browser asks it: elements of one look at a page in, one of them or none out."""

from __future__ import annotations

from collections.abc import Sequence

from recoup.model.outcome import Looking
from recoup.model.target import Element, Resolution, Target
from recoup.targets.exact import find
from recoup.targets.healing import Learned
from recoup.targets.page import Page
from recoup.targets.profiles import profile
from recoup.targets.resolve import resolve


class PageResolver:
    """Remembers the index of the last look: a target is often asked for several times in it."""

    def __init__(self) -> None:
        self._elements: Sequence[Element] = ()
        self._page = Page(())

    def resolve(
        self,
        target: Target,
        elements: Sequence[Element],
        looking: Looking,
        css_matches: Sequence[int] | None,
    ) -> Resolution:
        return resolve(
            target,
            self._indexed(elements),
            profile(looking.level),
            looking.floors,
            css_matches=css_matches,
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
            self._elements, self._page = elements, Page(elements)
        return self._page
