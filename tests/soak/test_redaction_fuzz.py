"""A million texts made of forms and pieces of forms, cut anywhere, against a reference that buffers everything.

The reference knows the forms and nothing else of the matcher: it looks for each of them at every place.
"""

from __future__ import annotations

import random
import string
from itertools import pairwise

import pytest

from recoup.redaction.forms import refusal, torn_hex_forms, written_forms
from recoup.redaction.masking import MaskingStage
from recoup.redaction.masks import mask_for
from recoup.redaction.matcher import FormMatcher

SHARDS = 40
REGISTRATIONS = 500
TEXTS = 50
NO_LIMIT = 1 << 62
ALPHABETS = (
    "ab",
    "a",
    "abc-",
    "01",
    string.ascii_letters + string.digits,
    "ab/+\"'\\ \n\t&<%$é日",
    "ab[]<>(|*",
    "ab\r\n",
    string.printable.strip(),
    "äж日😀x",
)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SHARDS))
def test_the_stream_gives_what_the_reference_gives(seed: int) -> None:
    rng = random.Random(seed)
    flooded = 0
    for _ in range(REGISTRATIONS):
        case = Case(rng)
        for _ in range(TEXTS):
            flooded += case.try_a_text(rng)
    cases = REGISTRATIONS * TEXTS
    print(f"redaction fuzz: seed {seed}, {cases} cases equal, {flooded} of them floods by the usual limit")


class Case:
    """A few secrets, and what the reference has to know about them."""

    def __init__(self, rng: random.Random) -> None:
        self.secrets = [_secret(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
        self.forms = sorted(frozenset[bytes]().union(*map(all_forms, self.secrets)))
        self.mask = mask_for(self.forms)
        # Ends that give away half of a form which is cut off there.
        self.telling = {
            form[:size] for form in self.forms for size in range(max(4, -(-len(form) // 2)), len(form))
        }
        self.exact = FormMatcher(self.forms, comparisons_max=NO_LIMIT)
        self.usual = FormMatcher(self.forms)

    def try_a_text(self, rng: random.Random) -> bool:
        """Whether the usual matcher took it for a flood."""
        text = self._text(rng)
        pieces = _cut(text, rng)
        expected = self._reference(text)
        assert _through(self.exact, pieces) == expected, (self.secrets, pieces)
        usual = _through(self.usual, pieces)
        assert usual == expected or _shows_no_more(usual, expected, self.mask), (self.secrets, pieces)
        return usual != expected

    def _text(self, rng: random.Random) -> bytes:
        parts: list[bytes] = []
        for _ in range(rng.randint(1, 5)):
            form = rng.choice(self.forms)
            cut = rng.randint(0, len(form))
            noise = "".join(rng.choices("ab/-\n\"'é 0", k=rng.randint(0, 8))).encode()
            parts.append(rng.choice((form, form, form[:cut], form[cut:], noise, form[cut:] + form)))
        return b"".join(parts)

    def _reference(self, text: bytes) -> bytes:
        covered = bytearray(len(text))
        for form in self.forms:
            at = text.find(form)
            while at >= 0:
                covered[at : at + len(form)] = b"\x01" * len(form)
                at = text.find(form, at + 1)
        for at in range(len(text)):
            if text[at:] in self.telling:
                covered[at:] = b"\x01" * (len(text) - at)
                break
        return self._masked(text, bytes(covered))

    def _masked(self, text: bytes, covered: bytes) -> bytes:
        out, at = [], 0
        while at < len(text):
            change = covered.find(b"\x00" if covered[at] else b"\x01", at)
            end = change if change >= 0 else len(text)
            out.append(self.mask if covered[at] else text[at:end])
            at = end
        return b"".join(out)


def all_forms(secret: str) -> frozenset[bytes]:
    return written_forms(secret) | torn_hex_forms(secret)


def _secret(rng: random.Random) -> str:
    while True:
        size = rng.choice((4, 5, 8, 16, 17, 20, 33, 60))
        value = "".join(rng.choices(rng.choice(ALPHABETS), k=size))
        if rng.random() < 0.2:
            value = value[: rng.randint(1, size)] * 3
        if rng.random() < 0.03:
            value = (value * 80)[:400]
        if refusal(value) is None:
            return value


def _cut(text: bytes, rng: random.Random) -> list[bytes]:
    if rng.random() < 0.03:
        return [text[at : at + 1] for at in range(len(text))]
    cuts = {rng.randint(0, len(text)) for _ in range(rng.randint(0, 4))}
    return [text[start:end] for start, end in pairwise(sorted({0, len(text), *cuts}))]


def _through(matcher: FormMatcher, pieces: list[bytes]) -> bytes:
    stage = MaskingStage(lambda: matcher)
    return b"".join([*map(stage.feed, pieces), stage.flush()])


def _shows_no_more(out: bytes, expected: bytes, mask: bytes) -> bool:
    """Whatever is shown is shown by the reference, too, in the same order; a flood may mask the middle of a piece."""
    pieces, number, at = expected.split(mask), 0, 0
    for shown in filter(None, out.split(mask)):
        while number < len(pieces) and (found := pieces[number].find(shown, at)) < 0:
            number, at = number + 1, 0
        if number == len(pieces):
            return False
        at = found + len(shown)
    return True
