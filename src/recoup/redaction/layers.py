"""Forms that come one after another, ready to search with: a new one costs no more than the last few before it.

Forms are kept in layers, each with its own automaton. A layer is made of what was added since the last search, and
takes in the layers before it while all are small. Once enough text was searched to make up for it, all layers become
one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Final

import msgspec

from recoup.redaction.masks import first_mask
from recoup.redaction.matcher import Findings, FormMatcher, merged
from recoup.redaction.seams import JOINED_BYTES_MIN, Joined, holds_seam, joined

LAYER_FORMS_MAX: Final = 512
"""Of a layer that takes in the one before it: what one more form costs at most."""
SEARCHED_BYTES_PER_FORM: Final = 256
"""To search so much in one layer more takes as long as to add a form to an automaton."""


class Layer:
    """Some forms, with an automaton for text and one for JSON."""

    def __init__(self, forms: Collection[bytes]) -> None:
        self.forms = forms

    @cached_property
    def text(self) -> FormMatcher:
        return FormMatcher(self.forms)

    @cached_property
    def encoded(self) -> FormMatcher:
        written = {*self.forms, *map(_in_json, self.forms)}
        return self.text if len(written) == len(self.forms) else FormMatcher(written)

    @cached_property
    def seamed_text(self) -> FormMatcher | None:
        return _of_seamed(self.forms)

    @cached_property
    def seamed_encoded(self) -> FormMatcher | None:
        return _of_seamed({*self.forms, *map(_in_json, self.forms)})


def text_matcher(layers: Sequence[Layer]) -> LayeredMatcher:
    return LayeredMatcher(
        [layer.text for layer in layers], [m for layer in layers if (m := layer.seamed_text)]
    )


def encoded_matcher(layers: Sequence[Layer]) -> LayeredMatcher:
    seamed = [m for layer in layers if (m := layer.seamed_encoded)]
    return LayeredMatcher([layer.encoded for layer in layers], seamed)


class Layers:
    """A growing set of forms."""

    def __init__(self) -> None:
        self._layers: list[Layer] = []
        self._fresh: list[Collection[bytes]] = []
        self.layered_forms = 0
        """Number of forms that were put into layers, all told: what adding them has cost."""

    def add(self, forms: Collection[bytes]) -> None:
        self._fresh.append(forms)

    def all(self) -> Sequence[Layer]:
        if self._fresh:
            self._put(set[bytes]().union(*self._fresh), LAYER_FORMS_MAX)
            self._fresh = []
        return self._layers

    def unite(self, searched_bytes: int) -> None:
        """One layer of all, if that is worth it by now. `searched_bytes`: since the last form was added."""
        every = sum(len(layer.forms) for layer in self._layers)
        if len(self._layers) > 1 and searched_bytes > SEARCHED_BYTES_PER_FORM * every:
            self._put(set(), every)

    def _put(self, forms: set[bytes], forms_max: int) -> None:
        while self._layers and len(self._layers[-1].forms) + len(forms) <= forms_max:
            forms.update(self._layers.pop().forms)
        self._layers = [*self._layers, Layer(forms)]
        self.layered_forms += len(forms)


class LayeredMatcher:
    """Several layers as one: what any of them finds is found, also where a seam tears it, and what overlaps is one."""

    def __init__(self, matchers: Sequence[FormMatcher], seamed: Sequence[FormMatcher]) -> None:
        """`seamed`: of the forms that hold what a seam is made of; without its seams no text holds them."""
        assert matchers, "a matcher without forms would never find anything"
        self._matchers = matchers
        self._seamed = seamed
        self.mask = first_mask(frozenset.intersection(*(one.masks for one in matchers)))
        self.searched_bytes = 0

    def find(self, data: bytes) -> Findings:
        spans, pending = self._search(data)
        return Findings(merged(spans), pending)

    def occurs(self, data: bytes) -> bool:
        if (without := joined(data)) is None:
            self.searched_bytes += len(data)
            return any(one.occurs(data) for one in self._matchers)
        return bool(self._search_joined(data, without).spans)

    def truncated(self, data: bytes) -> int:
        place = min(one.truncated(data) for one in self._matchers)
        if (without := joined(data)) is None:
            return place
        return min(place, without.begin(min(one.truncated(without.data) for one in self._matchers)))

    def occurring(self, data: bytes) -> frozenset[bytes]:
        found = frozenset[bytes]().union(*(one.occurring(data) for one in self._matchers))
        if (without := joined(data)) is None:
            return found
        torn = [one.occurring(without.data) for one in self._matchers]
        return found.union(form for forms in torn for form in forms if len(form) >= JOINED_BYTES_MIN)

    def _search(self, data: bytes) -> Findings:
        without = joined(data)
        return _all_of(self._each(data)) if without is None else self._search_joined(data, without)

    def _search_joined(self, data: bytes, without: Joined) -> Findings:
        """One pass over the text without its seams, and one over the text for what only that can hold."""
        spans, pending = _all_of(self._each(without.data))
        there = [span for one in spans if (span := without.span(*one)) is not None]
        rest = without.pending(pending)
        if rest is None:  # nothing that goes over a seam may have begun
            start = without.rest(pending)
            rest = start + _all_of(self._each(data[start:])).pending
        plain = self._matchers if without.is_uneven else self._seamed
        found = _all_of([one.search(data) for one in plain], len(data))
        return Findings([*there, *found.spans], min(rest, found.pending))

    def _each(self, data: bytes) -> list[Findings]:
        self.searched_bytes += len(data)
        return [one.search(data) for one in self._matchers]


def _all_of(found: Sequence[Findings], size: int = 0) -> Findings:
    """`size`: where nothing is pending if nothing was asked."""
    if len(found) == 1:
        return found[0]
    return Findings(
        [span for one in found for span in one.spans], min((f.pending for f in found), default=size)
    )


def _of_seamed(forms: Collection[bytes]) -> FormMatcher | None:
    seamed = [form for form in forms if holds_seam(form)]
    return FormMatcher(seamed) if seamed else None


def _in_json(form: bytes) -> bytes:
    """How a string that holds this form is written in JSON. One that is no text can be in no string."""
    try:
        return msgspec.json.encode(form.decode())[1:-1]
    except UnicodeDecodeError:
        return form
