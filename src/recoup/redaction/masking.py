"""Masks registered secrets in a stream of bytes: one stage of the way from a step's output to storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recoup.redaction.matcher import FormMatcher, Span, merged


class MaskingStage:
    """Passes bytes on at once, except for an end that may go on to be a secret.

    `matcher` is asked at each piece, so that a secret registered meanwhile is honoured from then on.
    """

    def __init__(self, matcher: Callable[[], FormMatcher | None]) -> None:
        self._matcher = matcher
        self._reset()

    def feed(self, chunk: bytes) -> bytes:
        matcher = self._matcher()
        if matcher is None:
            return chunk
        data = self._held + chunk
        return self._pass_on(data, matcher.pending(data), matcher.spans(data), matcher.mask)

    def flush(self) -> bytes:
        """What was held back. It is masked if it gives away half of a secret that was cut off here."""
        matcher, data = self._matcher(), self._held
        if matcher is None or not data:
            passed = b""
        else:
            cut_off = (matcher.truncated(data), len(data))
            spans = merged([*matcher.spans(data), cut_off])
            passed = self._pass_on(data, len(data), spans, matcher.mask)
        self._reset()
        return passed

    def _reset(self) -> None:
        self._held = b""
        # How many of the held bytes belong to a secret whose mask was passed on already.
        self._masked_bytes = 0
        self._after_mask = False

    def _pass_on(self, data: bytes, until: int, spans: Sequence[Span], mask: bytes) -> bytes:
        """The data with its masks up to `until`; the rest is held."""
        parts: list[bytes] = []
        at = self._masked_bytes
        for start, end in spans:
            if start >= until:
                break
            self._plain(parts, data[at:start])
            self._mask(parts, mask)
            at = max(at, end)
        self._plain(parts, data[at:until])
        self._held = data[until:]
        self._masked_bytes = max(0, at - until)
        return b"".join(parts)

    def _plain(self, parts: list[bytes], text: bytes) -> None:
        if text:
            parts.append(text)
            self._after_mask = False

    def _mask(self, parts: list[bytes], mask: bytes) -> None:
        if not self._after_mask:
            parts.append(mask)
            self._after_mask = True


def masked(data: bytes, matcher: FormMatcher) -> bytes:
    """The whole of some data at once, with nothing said about what might have followed."""
    parts, at = [], 0
    for start, end in matcher.spans(data):
        parts += [data[at:start], matcher.mask]
        at = end
    return b"".join([*parts, data[at:]])
