"""Adversarial text for every pattern, made from the pattern itself: no 1 MB of it may take longer than the bar.

python -m benchmarks.redaction.pattern_floods [RULE…]
"""

from __future__ import annotations

import os
import random
import re._constants as kinds  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import sys
import time
import warnings
from collections.abc import Collection, Iterator
from typing import Any, Final

from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.patterns.compiled import PatternSet
from recoup.redaction.patterns.rule import Rule
from recoup.redaction.patterns.stage import PatternStage

BAR_MS: Final = 50.0
FLOOD_BYTES: Final = 1 << 20
CHUNK_BYTES: Final = 65_536
TRIES: Final = 3
ENOUGH_MS: Final = 25.0
"""What takes less is not measured again."""
WORST_SHOWN: Final = 12
_CHANCE: Final = random.Random(5)

GENERAL: Final = {
    "password=": b"password=",
    "lines of passwords": b"password=abc12345\n",
    "eyJ": b"eyJ",
    "first lines of keys": b"-----BEGIN RSA PRIVATE KEY-----\n",
    "one letter": b"a",
    "newlines": b"\n",
    "words": b"pass key token secret auth: ",
    "users": b"user=alice\n",
    "an access log": b'10.0.0.1 "GET /v1/items?token=a1b2c3d4e5f6a7b8c9d0 HTTP/1.1" 200 1234 "-" "curl/8" 0.003\n',
    "urls": b"http://a:b@c ",
    "hashes": b"$2a$",
    "dashes": b"-",
    "underscores": b"_",
}


def main() -> int:
    measured = worst_first(set(sys.argv[1:]))
    for cost_ms, name in measured[:WORST_SHOWN]:
        print(f"{cost_ms:8.1f} ms/MB  {name}")
    print(f"{len(measured)} floods, worst {measured[0][0]:.1f} ms, bar {BAR_MS:g} ms")
    return int(measured[0][0] > BAR_MS)


def worst_first(wanted: Collection[str] = ()) -> list[tuple[float, str]]:
    """Milliseconds for a megabyte, and the flood; of the wanted rules, or of all.

    The best of some tries, far apart: other work on the machine makes processor time longer too, never shorter."""
    patterns = pattern_set(default_cache(os.environ))
    texts = dict(_texts(patterns, wanted))
    best = {name: _once_ms(patterns, text) for name, text in texts.items()}
    for _ in range(TRIES - 1):
        for name in [name for name, cost_ms in best.items() if cost_ms > ENOUGH_MS]:
            best[name] = min(best[name], _once_ms(patterns, texts[name]))
    return sorted(((cost_ms, name) for name, cost_ms in best.items()), reverse=True)


def _texts(patterns: PatternSet, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
    yield from GENERAL.items()
    for rule in patterns.rules:
        if not wanted or rule.name in wanted:
            for shape, text in _floods(rule):
                yield f"{rule.name}: {shape}", text


def _floods(rule: Rule) -> Iterator[tuple[str, bytes]]:
    sample = _sample(rule.pattern)
    if sample:
        yield "matches on lines", sample + b"\n"
        yield "matches on one line", sample + b" "
        yield "beginnings", sample[: max(1, len(sample) // 2)]
        yield "near misses", sample[:-2] + b"\n"


def _once_ms(patterns: PatternSet, text: bytes) -> float:
    data = (text * (FLOOD_BYTES // len(text) + 1))[:FLOOD_BYTES]
    stage, began = PatternStage(patterns), time.process_time()
    for at in range(0, len(data), CHUNK_BYTES):
        stage.feed(data[at : at + CHUNK_BYTES])
    stage.flush()
    return (time.process_time() - began) * 1e3


def _sample(pattern: str) -> bytes:
    """A text that the pattern matches, or nearly."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            parsed = parser.parse(pattern.replace("(?i)", "").replace("(?s)", ""))
        return "".join(_written(parsed)).encode()
    except (ValueError, OverflowError, parser.error):
        return b""


def _written(parsed: Any) -> Iterator[str]:
    for kind, value in parsed:
        if kind is kinds.LITERAL:
            yield chr(value)
        elif kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT):
            yield from (part for _ in range(min(value[0], 1_000)) for part in _written(value[2]))
        elif kind is kinds.SUBPATTERN:
            yield from _written(value[3])
        elif kind is kinds.BRANCH:
            yield from _written(value[1][0])
        elif kind is kinds.IN:
            yield _one_of(value)
        elif kind in (kinds.ANY, kinds.NOT_LITERAL):
            yield "q"


def _one_of(choices: Any) -> str:
    if choices[0][0] is kinds.NEGATE:
        return _CHANCE.choice("x7Qz")
    kind, value = _CHANCE.choice(choices)
    if kind is kinds.LITERAL:
        return chr(value)
    if kind is kinds.RANGE:
        return chr(_CHANCE.randint(*value))
    return "7" if value is kinds.CATEGORY_DIGIT else " " if value is kinds.CATEGORY_SPACE else "w"


if __name__ == "__main__":
    sys.exit(main())
