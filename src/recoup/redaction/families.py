"""Forms in order: which of them stands at a place, and which may still come to stand there.

However many there are, few comparisons tell.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

COMPARED_FORMS_MAX: Final = 256


class Family:
    """Several forms with one head."""

    __slots__ = ("_longest_bytes", "_parents", "forms")

    def __init__(self, forms: Sequence[bytes]) -> None:
        """`forms` are sorted."""
        self.forms = forms
        self._parents = _parents(forms)
        self._longest_bytes = max(map(len, forms))

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

    def standing(self, data: bytes, place: int) -> list[bytes]:
        """Every form that stands here."""
        rest = data[place : place + self._longest_bytes]
        at, found = bisect_right(self.forms, rest) - 1, []
        while at >= 0:
            if rest.startswith(self.forms[at]):
                found.append(self.forms[at])
            at = self._parents[at]
        return found


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
