"""Masks registered secrets in a stream of bytes: one stage of the way from a step's output to storage."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Protocol

from recoup.redaction.matcher import Findings, Span, merged


class Matcher(Protocol):
    """Finds forms; `matcher.FormMatcher` says how."""

    @property
    def mask(self) -> bytes: ...

    def find(self, data: bytes) -> Findings: ...

    def truncated(self, data: bytes) -> int: ...


class MaskingStage:
    """Passes bytes on at once, except for an end that may go on to be a secret.

    `matcher` is asked at each piece, so that a secret registered meanwhile is honoured from then on.
    """

    def __init__(self, matcher: Callable[[], Matcher | None]) -> None:
        self._matcher = matcher
        self.hidden = 0
        self._reset()

    def feed(self, chunk: bytes) -> bytes:
        matcher = self._matcher()
        if matcher is None:
            return chunk
        data = self._held + chunk
        spans, pending = matcher.find(data)
        return self._pass_on(data, pending, spans, matcher.mask)

    def flush(self) -> bytes:
        """What was held back. It is masked if it gives away half of a secret that was cut off here."""
        matcher, data = self._matcher(), self._held
        if matcher is None or not data:
            passed = b""
        else:
            spans = merged([*matcher.find(data).spans, (matcher.truncated(data), len(data))])
            passed = self._pass_on(data, len(data), spans, matcher.mask)
        self._reset()
        return passed

    def _reset(self) -> None:
        self._held = b""
        # How many of the held bytes belong to a secret whose mask was passed on already.
        self._masked_bytes = 0
        self._after_mask = False

    def _pass_on(self, data: bytes, until: int, spans: list[Span], mask: bytes) -> bytes:
        """The data with its masks up to `until`; the rest is held."""
        self._held = data[until:]
        if not spans and not self._after_mask:
            return data[:until]
        hidden = spans[: bisect_left(spans, (until,))]
        if self._after_mask:
            hidden = merged([(0, self._masked_bytes), *hidden])
        gaps = _gaps(data, hidden, until)
        if self._after_mask:
            del gaps[0]
        self.hidden += len(gaps) - 1
        self._after_mask = bool(hidden) and hidden[-1][1] >= until
        self._masked_bytes = hidden[-1][1] - until if self._after_mask else 0
        return mask.join(gaps)


def masked(data: bytes, matcher: Matcher) -> bytes:
    """The whole of some data at once, with nothing said about what might have followed."""
    return matcher.mask.join(_gaps(data, matcher.find(data).spans, len(data)))


def _gaps(data: bytes, spans: Sequence[Span], until: int) -> list[bytes]:
    """What stands before, between and after the spans."""
    gaps: list[bytes] = []
    at = 0
    for start, end in spans:
        gaps.append(data[at:start])
        at = end
    gaps.append(data[at:until])
    return gaps
