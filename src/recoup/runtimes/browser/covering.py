"""What of the texts of a page must not be seen in a picture: values in, places out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recoup.model.redacted import MASKS

Hide = Callable[[str], str]
"""A text as records may show it."""
Hit = tuple[int, int, int]
"""Which text, and from where to where, as scripts count."""

_END = "\n\x00"
_MASKS = [mask.decode() for mask in MASKS]


def hits_in(texts: Sequence[str], typed: Sequence[str], hide: Hide) -> list[Hit]:
    """In each text from the first to the last character that is hidden. What is split over several is hidden in all of
    them."""

    def hidden(text: str) -> str:
        for secret in typed:
            text = text.replace(secret, _MASKS[0])
        # With something after it: the beginning of a secret may go on in the next text, which is looked at below.
        return hide(text + _END).removesuffix(_END)

    if hidden("\n".join(texts)) == "\n".join(texts):
        return []
    found = [_hit(number, text, hidden(text)) for number, text in enumerate(texts)]
    hits = [hit for hit in found if hit is not None]
    covered = {number for number, _, _ in hits}
    left = [number for number in range(len(texts)) if number not in covered]
    return hits + _split(texts, left, hidden)


def _split(texts: Sequence[str], left: Sequence[int], hidden: Hide) -> list[Hit]:
    """Hits over several texts: all of those from the first to the last."""
    together = "\n".join(texts[number] for number in left)
    hit = _hit(0, together, hidden(together))
    if hit is None:
        return []
    _, start, end = hit
    hits, at = [], 0
    for number in left:
        size = _units(texts[number])
        if at < end and at + size > start:
            hits.append((number, 0, size))
        at += size + 1
    return hits


def _hit(number: int, text: str, shown: str) -> Hit | None:
    if shown == text:
        return None
    begins = [at for mask in _MASKS if (at := shown.find(mask)) >= 0]
    ends = [at + len(mask) for mask in _MASKS if (at := shown.rfind(mask)) >= 0]
    if not begins:
        return number, 0, _units(text)
    start, end = min(begins), len(text) - (len(shown) - max(ends))
    return number, _units(text[:start]), _units(text[: max(start, end)])


def _units(text: str) -> int:
    """As scripts count: in halves of what is beyond the basic plane."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
