"""Finds forms in bytes: wherever they occur, and where the end of the data may be the beginning of one.

The automaton knows only the first bytes of each form, which keeps it small however long the secrets are; what
begins like a form is then compared with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from recoup.redaction.masks import mask_for

Span = tuple[int, int]

HEAD_BYTES_MAX: Final = 16
TRUNCATED_BYTES_MIN: Final = 4
DFA_STATES_MAX: Final = 32_768
SCREENED_HEADS_MAX: Final = 64


class FormMatcher:
    """An immutable set of forms, ready to search with."""

    def __init__(self, forms: Collection[bytes]) -> None:
        assert forms, "a matcher without forms would never find anything"
        by_head = _by_head(forms)
        self._heads = BytesAhoCorasick(list(by_head), MatchKind.Standard, _implementation(by_head))
        self._screen = _screen(by_head)
        self._forms = tuple(by_head.values())
        self.mask = mask_for(forms)
        self._shortest_by_prefix = _shortest_by_prefix(forms)
        self._longest_bytes = max(map(len, forms))

    def occurs(self, data: bytes) -> bool:
        return any(True for _ in self._occurrences(data))

    def occurring(self, data: bytes) -> frozenset[bytes]:
        return frozenset(form for _, form in self._occurrences(data))

    def spans(self, data: bytes) -> list[Span]:
        """What the forms cover, in order; spans that overlap or touch are one."""
        return merged((start, start + len(form)) for start, form in self._occurrences(data))

    def pending(self, data: bytes) -> int:
        """Where the longest end of the data begins that may go on to be a form; its length if none may."""
        return min((start for start, _ in self._beginnings(data)), default=len(data))

    def truncated(self, data: bytes) -> int:
        """Like `pending`, but only for ends that already give away half of a form."""
        size = len(data)
        telling = (start for start, form_bytes in self._beginnings(data) if _tells(size - start, form_bytes))
        return min(telling, default=size)

    def _occurrences(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        for head, start, _ in self._hits(data):
            for form in self._forms[head]:
                if data.startswith(form, start):
                    yield start, form

    def _beginnings(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Each place from which the data ends as a form begins, with the length of the shortest such form."""
        tail = data[-self._longest_bytes :]
        offset = len(data) - len(tail)
        for size in range(1, min(HEAD_BYTES_MAX, len(tail) + 1)):
            if shortest := self._shortest_by_prefix.get(tail[-size:]):
                yield len(data) - size, shortest
        for head, start, _ in self._hits(tail):
            if fitting := [len(form) for form in self._forms[head] if _begins(form, tail, start)]:
                yield offset + start, min(fitting)

    def _hits(self, data: bytes) -> list[tuple[int, int, int]]:
        if self._screen and not self._screen.find_matches_as_indexes(data):
            return []
        # Overlapping: a search that skips what it found misses a secret that begins inside another one.
        return self._heads.find_matches_as_indexes(data, True)


def _by_head(forms: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    by_head: dict[bytes, list[bytes]] = {}
    for form in sorted(forms):
        by_head.setdefault(form[:HEAD_BYTES_MAX], []).append(form)
    return by_head


def _implementation(heads: Iterable[bytes]) -> Implementation:
    """A DFA is twice as fast, at up to a kilobyte for each byte of the heads."""
    dfa = sum(map(len, heads)) <= DFA_STATES_MAX
    return Implementation.DFA if dfa else Implementation.ContiguousNFA


def _screen(heads: Collection[bytes]) -> BytesAhoCorasick | None:
    """Finds few heads ten times as fast but no overlapping ones: good enough to tell that there is none."""
    few = len(heads) <= SCREENED_HEADS_MAX
    return BytesAhoCorasick(list(heads), MatchKind.LeftmostFirst) if few else None


def _shortest_by_prefix(forms: Iterable[bytes]) -> dict[bytes, int]:
    """For each proper prefix shorter than a whole head, the length of the shortest form that begins so."""
    shortest: dict[bytes, int] = {}
    for form in sorted(forms, key=len, reverse=True):
        for size in range(1, min(HEAD_BYTES_MAX, len(form))):
            shortest[form[:size]] = len(form)
    return shortest


def merged(spans: Iterable[Span]) -> list[Span]:
    whole: list[Span] = []
    for start, end in sorted(spans):
        if whole and start <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        else:
            whole.append((start, end))
    return whole


def _tells(seen_bytes: int, form_bytes: int) -> bool:
    return seen_bytes >= TRUNCATED_BYTES_MIN and 2 * seen_bytes >= form_bytes


def _begins(form: bytes, data: bytes, start: int) -> bool:
    return len(form) > len(data) - start and form.startswith(data[start:])
