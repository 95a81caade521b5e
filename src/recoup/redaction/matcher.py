"""Finds forms in bytes: wherever they occur, and where the end of the data may be the beginning of one.

The automaton knows only the first bytes of each form, which keeps it small however long the secrets are; what
begins like a form is then compared with it.

Work is bounded whatever was registered and whatever the text: a window of the data that has more beginnings than
ordinary text ever has (a flood) is taken to be covered whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from recoup.redaction.families import Family, begins_one, shortest_begun_bytes
from recoup.redaction.masks import first_mask, fitting_masks

Span = tuple[int, int]
Hit = tuple[int, int, int]
"""As the automaton tells it: which head, and where it begins and ends."""

HEAD_BYTES_MAX: Final = 16
SPROUT_BYTES_MAX: Final = 3
TRUNCATED_BYTES_MIN: Final = 4
DFA_STATES_MAX: Final = 32_768
SCREENED_HEADS_MAX: Final = 64
BLOCK_BYTES_MIN: Final = 1_024
BLOCK_BYTES_MAX: Final = 32_768
GLANCE_BYTES: Final = 128
WINDOW_BYTES: Final = 4_096
WINDOW_BYTES_MAX: Final = 6_144
"""So that a chunk of the usual size and what was held back before it are one window."""
SLICE_BYTES: Final = 256
COMPARISONS_MAX: Final = 192
"""In the bytes of a window: no ordinary text has the beginning of a secret in every 21 bytes."""
FLOODS_MAX: Final = 5
SEARCHED_FORMS_MAX: Final = 16
"""After so many windows of flood, so many forms are still searched for one by one; if it is more, all occur."""


class Findings(NamedTuple):
    spans: list[Span]
    """What the forms cover, in order; spans that overlap or touch are one."""
    pending: int
    """Where the longest end of the data begins that may go on to be a form; its length if none may."""


class FormMatcher:
    """An immutable set of forms, ready to search with."""

    def __init__(self, forms: Collection[bytes], comparisons_max: int = COMPARISONS_MAX) -> None:
        assert forms, "a matcher without forms would never find anything"
        self._forms = sorted(forms)
        self._every_form = frozenset(forms)
        by_head = _by_head(self._forms)
        self._heads = BytesAhoCorasick(list(by_head), MatchKind.Standard, _implementation(by_head))
        self._screen = _screen(by_head) or self._heads
        families = by_head.values()
        self._only_forms = [family[0] if len(family) == 1 else None for family in families]
        # What the automaton found of these need not be compared.
        self._whole = [len(family) == 1 and len(family[0]) <= HEAD_BYTES_MAX for family in families]
        self._families = {head: Family(forms) for head, forms in enumerate(families) if len(forms) > 1}
        self.masks = fitting_masks(forms)
        self.mask = first_mask(self.masks)
        self._sprouts = {form[:size] for size in range(1, SPROUT_BYTES_MAX + 1) for form in self._forms}
        self._longest_bytes = max(map(len, forms))
        self._letters = bytes(set[int]().union(*forms))
        self._comparisons_max = comparisons_max

    def find(self, data: bytes) -> Findings:
        spans, pending = self.search(data)
        return Findings(merged(spans), pending)

    def search(self, data: bytes) -> Findings:
        """The same, with each span by itself and in no order."""
        spans: list[Span] = []
        pending = self._short_pending(data)
        for start, end in self._windows(data):
            pending = min(pending, self._find_in_window(data, start, end, spans))
        return Findings(spans, pending)

    def truncated(self, data: bytes) -> int:
        """Like `pending`, but only for ends that already give away half of a form."""
        size = len(data)
        places: set[int] = {*range(max(0, size - _BEYOND), size), *self._places(data)}
        for start in sorted(places):
            if _tells(size - start, shortest_begun_bytes(self._forms, data[start:])):
                return start
        return size

    def occurs(self, data: bytes) -> bool:
        spans: list[Span] = []
        for start, end in self._windows(data):
            self._find_in_window(data, start, end, spans)
            if spans:
                return True
        return False

    def occurring(self, data: bytes) -> frozenset[bytes]:
        """In a flood of many forms perhaps a few that do not."""
        found: set[bytes] = set()
        flood, floods = b"", 0
        for start, end in self._windows(data):
            slices, left = self._hits(data, start, end)
            if left >= 0:
                found |= self._standing(data, slices, found)
            elif flood != (flood := data[start : end + self._longest_bytes]):  # most floods repeat themselves
                floods += 1
                if floods > FLOODS_MAX:
                    return self._occurring_after(data, start, found)
                found |= self._occurring_in_flood(flood, found)
        return frozenset(found)

    def _windows(self, data: bytes) -> Iterator[Span]:
        """Pieces of the data that hold all beginnings of forms. Clean data is passed over in large blocks."""
        view, size = memoryview(data), len(data)
        at, block_bytes = 0, min(max(size // 8, BLOCK_BYTES_MIN), BLOCK_BYTES_MAX)
        near = size > BLOCK_BYTES_MIN  # a flood comes in pieces, too
        while at < size:
            first = self._first_head(view[at : at + block_bytes + _BEYOND], near)
            near = first >= 0
            if near:
                start = max(at, at + first - _BEYOND)
                at = size if size - start <= WINDOW_BYTES_MAX else start + WINDOW_BYTES
                yield start, at
                block_bytes = BLOCK_BYTES_MIN
            else:
                at += block_bytes
                block_bytes = min(8 * block_bytes, BLOCK_BYTES_MAX)

    def _first_head(self, view: memoryview, near: bool) -> int:
        """Where the first one begins, or -1. `near`: probably soon, and all of the others are not worth finding."""
        # Finds no overlapping heads, which is quicker, and good enough to tell that there is none.
        search = self._screen.find_matches_as_indexes
        found = search(view[:GLANCE_BYTES]) if near else None
        # One that begins earlier but is cut off by the end of the glance may come before what begins at its end.
        if not found or found[0][1] > GLANCE_BYTES - HEAD_BYTES_MAX:
            found = search(view)
        return found[0][1] if found else -1

    def _find_in_window(self, data: bytes, start: int, end: int, spans: list[Span]) -> int:
        """Adds what is covered to `spans`, and returns what is pending."""
        slices, left = self._hits(data, start, end)
        size = pending = len(data)
        whole, only_forms, add = self._whole, self._only_forms, spans.append
        for at, found in slices:
            for head, offset, stop in found:
                if left < 0:
                    return min(pending, self._flood(data, at + _first_near(found, offset), end, spans))
                if whole[head]:
                    add((at + offset, at + stop))
                    continue
                place, form = at + offset, only_forms[head]
                if form is None:
                    form_bytes, unfinished, compared = self._families[head].look(data, place)
                    left -= compared
                    if form_bytes:
                        add((place, place + form_bytes))
                    if unfinished and place < pending:
                        pending = place
                elif data.startswith(form, place):
                    add((place, place + len(form)))
                elif size - len(form) < place < pending and form.startswith(data[place:]):
                    pending = place
        return pending

    def _hits(self, data: bytes, start: int, end: int) -> tuple[list[tuple[int, list[Hit]]], int]:
        """The heads that begin in a window, and how many comparisons are left. Below zero: there are more."""
        slices, left = [], self._comparisons_max * max(end - start, WINDOW_BYTES) // WINDOW_BYTES
        for at in range(start, end, SLICE_BYTES):
            # Overlapping: a search that skips what it found misses a secret that begins inside another one.
            found = self._heads.find_matches_as_indexes(data[at : at + SLICE_BYTES + _BEYOND], True)
            if found:
                slices.append((at, found))
                left -= len(found)
                if left < 0:  # all of a flood would take too long
                    break
        return slices, left

    def _flood(self, data: bytes, first: int, end: int, spans: list[Span]) -> int:
        """Whatever begins between here and the end of the window is covered, as far as it may reach."""
        size = len(data)
        spans.append((first, min(size, end + self._longest_bytes)))
        tail = data[max(0, size - self._longest_bytes + 1) :]
        # No form goes on over a byte that is in none of them.
        unfinished = max(first, size - len(tail) + len(tail.rstrip(self._letters)))
        return unfinished if unfinished < end else size

    def _standing(
        self, data: bytes, slices: Iterable[tuple[int, list[Hit]]], known: Collection[bytes]
    ) -> set[bytes]:
        """The forms that were hit and are there, at least those that are not known."""
        places: defaultdict[int, list[int]] = defaultdict(list)
        for at, found in slices:
            for head, offset, _ in found:
                places[head].append(at + offset)
        standing: set[bytes] = set()
        for head, starts in places.items():
            form = self._only_forms[head]
            if form is None:
                standing |= self._families[head].standing(data, starts)
            elif form not in known and any(data.startswith(form, start) for start in starts):
                standing.add(form)
        return standing

    def _occurring_in_flood(self, data: bytes, known: Collection[bytes]) -> set[bytes]:
        """Looks for each form instead of at each place; where there are too many of them, all are taken to occur."""
        heads = {head for head, _, _ in self._heads.find_matches_as_indexes(data, True)}
        forms = [form for head in heads for form in self._forms_of(head) if form not in known]
        many = self._comparisons_max
        return {*forms[many:], *(form for form in forms[:many] if form in data)}

    def _occurring_after(self, data: bytes, start: int, known: set[bytes]) -> frozenset[bytes]:
        """Those that are known, too."""
        if len(self._forms) - len(known) > SEARCHED_FORMS_MAX:
            return self._every_form
        return frozenset(form for form in self._forms if form in known or data.find(form, start) >= 0)

    def _forms_of(self, head: int) -> Sequence[bytes]:
        form = self._only_forms[head]
        return self._families[head].forms if form is None else [form]

    def _short_pending(self, data: bytes) -> int:
        """What is pending among the ends of the data that are shorter than a head."""
        size, sprouts = len(data), self._sprouts
        for start in range(max(0, size - _BEYOND), size):
            if data[start : start + SPROUT_BYTES_MAX] in sprouts and begins_one(self._forms, data[start:]):
                return start
        return size

    def _places(self, data: bytes) -> Iterator[int]:
        """Where heads begin, if there is no flood."""
        for start, end in self._windows(data):
            for at, found in self._hits(data, start, end)[0]:
                yield from (at + offset for _, offset, _ in found)


def _first_near(found: list[Hit], offset: int) -> int:
    """Hits come in the order of their ends: one that begins a little earlier than that at `offset` may come later."""
    ended = bisect_right(found, offset + HEAD_BYTES_MAX, key=_stop)
    return min(start for _, start, _ in found[:ended] if start + _BEYOND >= offset)


_stop: Final = itemgetter(2)


def merged(spans: Iterable[Span]) -> list[Span]:
    whole: list[Span] = []
    last = -1
    for span in sorted(spans):
        start, end = span
        if start > last:
            whole.append(span)
            last = end
        elif end > last:
            whole[-1] = (whole[-1][0], end)
            last = end
    return whole


_BEYOND: Final = HEAD_BYTES_MAX - 1


def _by_head(forms: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    """Of sorted forms. No head begins with another one, so that at most one is found at any place."""
    by_head: dict[bytes, list[bytes]] = {}
    head = None
    for form in forms:
        if head is None or not form.startswith(head):
            head = form[:HEAD_BYTES_MAX]
            by_head[head] = []
        by_head[head].append(form)
    return by_head


def _implementation(heads: Iterable[bytes]) -> Implementation:
    """A DFA is twice as fast, at up to a kilobyte for each byte of the heads."""
    dfa = sum(map(len, heads)) <= DFA_STATES_MAX
    return Implementation.DFA if dfa else Implementation.ContiguousNFA


def _screen(heads: Collection[bytes]) -> BytesAhoCorasick | None:
    """Finds few heads ten times as fast, but no overlapping ones."""
    few = len(heads) <= SCREENED_HEADS_MAX
    return BytesAhoCorasick(list(heads), MatchKind.LeftmostFirst) if few else None


def _tells(seen_bytes: int, form_bytes: int) -> bool:
    return seen_bytes >= TRUNCATED_BYTES_MIN and 0 < form_bytes <= 2 * seen_bytes
