"""Forms in order: which of them stands at a place, and which may still come to stand there.

However many there are, few comparisons tell.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from typing import Final

COMPARED_FORMS_MAX: Final = 256
LOOKED_UP_SIZES_MAX: Final = 4
"""To look forms up by their sizes is quicker than to search, if there are so few."""


class Family:
    """Several forms with one head."""

    __slots__ = ("_known", "_longest_bytes", "_parents", "_sizes", "forms")

    def __init__(self, forms: Sequence[bytes]) -> None:
        """`forms` are sorted."""
        self.forms = forms
        self._parents = _parents(forms)
        self._known = frozenset(forms)
        self._sizes = sorted(set(map(len, forms)))
        self._longest_bytes = self._sizes[-1]

    def look(self, data: bytes, place: int) -> tuple[int, bool, int]:
        """The length of the longest form here or 0, whether the data may end in the beginning of one, and how
        many forms that took."""
        forms = self.forms
        rest = data[place : place + self._longest_bytes]
        after = bisect_right(forms, rest)
        # A rest as long as the longest form is no beginning of any.
        unfinished = len(rest) < self._longest_bytes and after < len(forms) and forms[after].startswith(rest)
        # Any form that the data goes on with is also how the last one in order before it begins.
        at, compared = after - 1, 1
        while at >= 0 and not rest.startswith(forms[at]):
            at = self._parents[at]
            compared += 1
        return len(forms[at]) if at >= 0 else 0, unfinished, compared

    def standing(self, data: bytes, places: Sequence[int]) -> Set[bytes]:
        """Every form that stands at one of the places."""
        if len(self._sizes) <= LOOKED_UP_SIZES_MAX:
            return self._known.intersection(data[at : at + size] for size in self._sizes for at in places)
        # Each once: most floods repeat themselves.
        rests = {data[place : place + self._longest_bytes] for place in places}
        return {form for rest in rests for form in self._beginning(rest)}

    def _beginning(self, rest: bytes) -> Iterator[bytes]:
        at = bisect_right(self.forms, rest) - 1
        while at >= 0:
            if rest.startswith(self.forms[at]):
                yield self.forms[at]
            at = self._parents[at]


def begins_one(forms: Sequence[bytes], rest: bytes) -> bool:
    """Whether one of the sorted forms begins with all of `rest` and goes on."""
    after = bisect_right(forms, rest)
    return after < len(forms) and forms[after].startswith(rest)


def shortest_begun_bytes(forms: Sequence[bytes], rest: bytes) -> int:
    """The length of the shortest of the sorted forms that begin with all of `rest` and go on; 0 if none does."""
    after = bisect_right(forms, rest)
    fitting = [len(form) for form in forms[after : after + COMPARED_FORMS_MAX] if form.startswith(rest)]
    if len(fitting) == COMPARED_FORMS_MAX:  # one of the others may be as short as it can be
        return len(rest) + 1
    return min(fitting, default=0)


def _parents(forms: Sequence[bytes]) -> list[int]:
    """For each form the place of the longest other one that it begins with, or -1."""
    parents: list[int] = []
    for at, form in enumerate(forms):
        parent = at - 1
        while parent >= 0 and not form.startswith(forms[parent]):
            parent = parents[parent]
        parents.append(parent)
    return parents
