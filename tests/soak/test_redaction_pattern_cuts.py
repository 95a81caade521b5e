"""Texts made of what the rules look for, in floods and alone, cut anywhere: what comes out depends on the text only."""

from __future__ import annotations

import random
import re._constants as kinds  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import string
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import pytest

from recoup.redaction.patterns.catalogue import pattern_set
from recoup.redaction.patterns.compiled import PatternSet
from recoup.redaction.patterns.stage import PatternStage

SHARDS = 20
TEXTS = 1_000
TEXT_BYTES_MAX = 60_000
FLOOD_BYTES_MAX = 6_000
LINE_MB = 64
GROWTH_KB_MAX = 24 << 10


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SHARDS))
def test_what_comes_out_never_depends_on_the_cuts(seed: int) -> None:
    for number in range(TEXTS):
        rng = random.Random(seed * TEXTS + number)
        text = b"".join(piece(rng) for _ in range(rng.randint(1, 9)))[:TEXT_BYTES_MAX]
        places = cuts(rng, len(text))
        chunks = [text[i:j] for i, j in zip([0, *places], [*places, len(text)], strict=True)]
        assert redacted(chunks) == redacted([text]), f"text {seed * TEXTS + number}"


@pytest.mark.soak
def test_a_line_of_64_megabytes_passes_in_little_memory() -> None:
    done = subprocess.run([sys.executable, "-c", LONG_LINE], capture_output=True, timeout=600, check=True)
    passed, secrets, growth_kb = map(int, done.stdout.split())
    assert passed > LINE_MB << 20
    assert secrets == 0
    assert growth_kb < GROWTH_KB_MAX


LONG_LINE = f"""
import resource
from recoup.redaction.patterns.catalogue import pattern_set
from recoup.redaction.patterns.stage import PatternStage

secret = b"gh" + b"p_" + b"aB3dE5gH7j" * 3 + b"kL9mN1"
chunk = (b"compiled 214 files, " * 3_300)[:65_500] + b" " + secret[:30]
stage = PatternStage(pattern_set(None))
passed = secrets = 0
tail = b""
for number in range({LINE_MB << 4} + 1):
    out = stage.feed(chunk) + stage.feed(secret[30:] + b" ")
    passed, secrets, tail = passed + len(out), secrets + (tail + out).count(secret), out[-64:]
    if number == 64:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
out = stage.flush()
secrets += (tail + out).count(secret)
print(passed + len(out), secrets, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def redacted(chunks: Iterable[bytes]) -> bytes:
    stage = PatternStage(patterns())
    return b"".join([*map(stage.feed, chunks), stage.flush()])


@cache
def patterns() -> PatternSet:
    return pattern_set(None)


def cuts(rng: random.Random, size: int) -> list[int]:
    if rng.random() < 0.2:
        step = rng.choice((1, 2, 3)) if size < 3_000 else rng.choice((61, 997, 4_096))
        return list(range(step, size, step))
    return sorted(rng.randint(0, size) for _ in range(rng.randint(1, 12)))


def piece(rng: random.Random) -> bytes:
    make = rng.choices((flood, filler, repeated), (5, 2, 3))[0]
    return make(rng)


def flood(rng: random.Random) -> bytes:
    """What one of the rules looks for, or a part of it, once or very often."""
    text = rng.choice(samples())[:300]
    text = text[: rng.randint(1, len(text))] if rng.random() < 0.3 else text
    text += rng.choice((b"\n", b"\n", b"\n", b" ", b"", b"\r\n", b"\n\n\n", b"\n\n\n\n"))
    return text * rng.choice((1, 1, 2, 5, rng.randint(1, FLOOD_BYTES_MAX // len(text))))


def filler(rng: random.Random) -> bytes:
    """About as long as the limits of what is looked at together."""
    low, high = rng.choice(((1, 300), (990, 1_100), (4_000, 6_000), (14_000, 18_000)))
    return b"x" * rng.randint(low, high) + rng.choice((b"\n", b"", b" "))


def repeated(rng: random.Random) -> bytes:
    text, most = rng.choice(REPEATED)
    return text * rng.randint(1, most)


REPEATED = (
    (b"user = bob\n", 3),
    (b"username=alice\n", 3),
    (b"\n", 6),
    (b"step build: 214 files in 3.2 s\n", 20),
    (b"no newline ", 20),
    (b"password=abc12345\n", 500),
    (b'token="a1b2c3d4e5f6" ', 500),
    (b"-----BEGIN X PRIVATE KEY-----\n", 300),
    (b"password", 500),
    (b"key:\n", 300),
    (b'password="a" ', 500),
)


@cache
def samples() -> list[bytes]:
    rng = random.Random(7)
    return [text for rule in patterns().rules if (text := sample(rule.pattern, rng))]


def sample(pattern: str, rng: random.Random) -> bytes:
    """A text that the pattern matches, or nearly."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            parsed = parser.parse(pattern.replace("(?i)", "").replace("(?s)", ""))
        return "".join(written(parsed, rng)).encode()
    except (ValueError, OverflowError, parser.error):
        return b""


def written(parsed: Any, rng: random.Random) -> Iterator[str]:
    for kind, value in parsed:
        if kind is kinds.LITERAL:
            yield chr(value)
        elif kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT):
            yield from (part for _ in range(min(value[0], 1_000)) for part in written(value[2], rng))
        elif kind is kinds.SUBPATTERN:
            yield from written(value[3], rng)
        elif kind is kinds.BRANCH:
            yield from written(value[1][0], rng)
        elif kind is kinds.IN:
            yield one_of(value, rng)
        elif kind in (kinds.ANY, kinds.NOT_LITERAL):
            yield "q"


def one_of(choices: Any, rng: random.Random) -> str:
    if choices[0][0] is kinds.NEGATE:
        return rng.choice("x7Qz")
    kind, value = rng.choice(choices)
    if kind is kinds.RANGE:
        return chr(rng.randint(*value))
    return chr(value) if kind is kinds.LITERAL else rng.choice(string.digits + " w")
