"""Worst case of registered secrets and text for the redactor: milliseconds per megabyte."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator

from benchmarks.report import Figure
from recoup.redaction.redactor import SecretRedactor

TEXT_BYTES = 1 << 20
CHUNKS_BYTES = (TEXT_BYTES, 65_536, 4_096)
BAR_MS = 50
ROUNDS = 3


def run() -> Iterator[Figure]:
    slowest = 0.0
    for name, secrets, pattern in floods():
        redactor = registered(secrets)
        text = (pattern * (TEXT_BYTES // len(pattern) + 1))[:TEXT_BYTES]
        worst = max(taken_ms(redactor, text, chunk_bytes) for chunk_bytes in CHUNKS_BYTES)
        slowest = max(slowest, min(asked_ms(redactor, text) for _ in range(ROUNDS)))
        yield Figure(name, worst, "ms/MB", bar=BAR_MS, at_most=True)
    yield Figure(
        "finding which secrets it contains, slowest case", slowest, "ms/MB", bar=BAR_MS, at_most=True
    )
    yield from registrations()


def taken_ms(redactor: SecretRedactor, text: bytes, chunk_bytes: int) -> float:
    """The best of a few rounds, in processor time: other work on the machine is not the matcher's fault."""
    return min(once_ms(redactor, text, chunk_bytes) for _ in range(ROUNDS))


def once_ms(redactor: SecretRedactor, text: bytes, chunk_bytes: int) -> float:
    chunks = [text[at : at + chunk_bytes] for at in range(0, len(text), chunk_bytes)]
    stream = redactor.stream()
    gc.collect()
    began = time.thread_time()
    for chunk in chunks:
        stream.feed(chunk)
    stream.flush()
    return 1000 * (time.thread_time() - began)


def asked_ms(redactor: SecretRedactor, text: bytes) -> float:
    gc.collect()
    began = time.thread_time()
    redactor.found_in(text)
    return 1000 * (time.thread_time() - began)


def floods() -> Iterator[tuple[str, list[str], bytes]]:
    rng = random.Random(1)
    random_text = {
        letters: "".join(rng.choices(letters, k=TEXT_BYTES)) for letters in ("ab", "01", DIGITS, WORD)
    }
    yield "a PIN of zeros in zeros", ["0" * 4], b"0"
    yield "a PIN of zeros in a hex dump of zeros", ["0" * 4], b"0000 0000 0000 0000\n"
    yield "a PIN of zeros in every other block", ["0" * 4], b"0" * 4_096 + b"clean text\n" * 372
    yield "a PIN of zeros after ever more clean text", ["0" * 4], b"0" * 16_384 + b"clean text\n" * 2_600
    yield "forty secrets a…ab in a flood of a", [_like(n) for n in range(40)], b"a"
    yield "forty secrets a…ab, half a flood", [_like(n) for n in range(40)], b"a" * 31 + b"\n"
    yield "one secret back to back", ["correct-horse-battery"], b"correct-horse-battery"
    yield "one short secret back to back", ["hunter2"], b"hunter2"
    yield "a short secret in every few bytes", ["admin"], b"admin@host admin ok\n"
    yield "a short secret as often as is exact", ["admin"], b"the admin at host 12 is up\n"
    yield "fifty secrets back to back", _tokens(50), "".join(_tokens(50)).encode()
    yield "every word of two letters", _words("ab", 4), random_text["ab"].encode()
    yield "every word of two letters, longer", _words("ab", 8), random_text["ab"].encode()
    yield "every PIN, random digits", [f"{n:04}" for n in range(10_000)], random_text[DIGITS].encode()
    yield "a self-overlapping secret", ["abcabcab"], b"abc"
    yield "a long self-overlapping secret", ["ab" * 200], b"ab"
    yield (
        "a Fibonacci word",
        [_fibonacci(60), _fibonacci(100), _fibonacci(300)],
        _fibonacci(TEXT_BYTES).encode(),
    )
    yield "nested secrets of one letter", ["a" * n for n in range(4, 500)], b"a"
    yield "nested secrets of one letter, cut short", ["a" * n for n in range(20, 500)], b"a" * 30 + b"\n"
    yield "a thousand secrets with one prefix", _prefixed(1_000), "\n".join(_prefixed(1_000)).encode()
    yield "a thousand secrets' prefix, never a secret", _prefixed(1_000), b"a-prefix-of-all-secrets-"
    yield (
        "short secrets with one prefix",
        _prefixed(1_000, "a-common-prefix-"),
        "".join(_prefixed(1_000, "a-common-prefix-")).encode(),
    )
    yield (
        "windows of one text",
        [random_text[WORD][n : n + 24] for n in range(1_000)],
        random_text[WORD][:1_024].encode(),
    )
    yield (
        "prefixes of secrets in one text",
        [random_text[WORD][n : n + 16] + "!" for n in range(1_000)],
        random_text[WORD][:1_016].encode(),
    )
    yield "the prefix of a long secret", ["ab" * 20_000 + "c"], b"ab"
    yield "a long secret that never comes", ["a" * 255 + "b" + "a" * 255 + "c"], b"a"
    yield "a long symbolic secret, its prefix", ["'\"\\" * 200 + "c"], b"'\"\\"
    yield "pictures, their beginning in numbers", ["\U0001f600" * 500 + "c"], rb"\ud83d\ude00"
    yield (
        "pictures with secrets inside",
        ["\U0001f600" * 500 + "c", "0001f600", "ud83d\\ude00"],
        rb"\ud83d\ude00",
    )
    yield (
        "a long prefix with secrets inside",
        [_faces(), "ud83e\\ud"],
        _faces().encode("utf-16-be").hex(" ", 2).replace(" ", "\\u").join(("\\u", "")).encode()[:1_500],
    )
    yield "base64 of a secret, flooding", ["aaaaaaaaa"], b"YWFh"
    yield "percent signs", ["%%%%%%%%", "%25%25%25"], b"%25"
    yield "backslashes", ["\\" * 16, "\\" * 31 + "n"], b"\\"
    yield (
        "near-prefixes of sixty secrets",
        _scattered(60),
        b"".join(secret[:15].encode() + b"!" for secret in _scattered(60)),
    )
    yield (
        "a secret now and then among twenty thousand",
        [f"{n:05}" for n in range(20_000)] + ["hunter-two"],
        (b"hunter-two" + b"clean text\n" * 1_200),
    )
    yield (
        "many secrets, half a prefix each",
        _scattered(2_000),
        b"".join(secret[:8].encode() for secret in _scattered(2_000)),
    )
    yield "newlines", ["a\nb\nc\nd\ne", "x" + "\n" * 30 + "y"], b"\n"
    yield "a secret of spaces in the middle", ["a" + " " * 40 + "b"], b"a" + b" " * 39
    yield "lines of four kilobytes that begin as a secret", ["x" * 5_000 + "y"], b"x" * 4_095 + b"\n"
    yield (
        "fifty secrets, every line one",
        _tokens(50),
        "\n".join(f"INFO token {t} used" for t in _tokens(50)).encode(),
    )
    yield "symbols, every line one", [SYMBOLS], f"INFO this token {SYMBOLS} was used\n".encode()


DIGITS = "0123456789"
WORD = "abcdefghijklmnopqrstuvwxyz0123456789"
SYMBOLS = "begins-plainly-then/+'\"\\&<%$"


def registrations() -> Iterator[Figure]:
    rng = random.Random(2)
    for name, letters in (("letters", WORD), ("symbols", SYMBOLS), ("symbols and lines", SYMBOLS + "\n")):
        value = "x" + "".join(rng.choices(letters, k=65_534)) + "x"
        began = time.thread_time()
        registered([value]).redact(b"text")
        yield Figure(f"registering 64 KB of {name}", 1000 * (time.thread_time() - began), "ms")


def registered(secrets: list[str]) -> SecretRedactor:
    redactor = SecretRedactor()
    for number, value in enumerate(secrets):
        redactor.register(f"SECRET_{number}", value)
    return redactor


def _like(number: int) -> str:
    return "a" * (16 + number) + "b" + f"{number:02}"


def _tokens(count: int) -> list[str]:
    return [f"token-{n * 7919:08x}-{n:02}" for n in range(count)]


def _faces() -> str:
    """Two in five of them are written with the second pair of numbers that there is for faces."""
    rng = random.Random(4)
    return "".join(chr(rng.randrange(0x1F600, 0x1F640) + 0x300 * (n % 5 in (0, 2))) for n in range(127)) + "x"


def _scattered(count: int) -> list[str]:
    rng = random.Random(3)
    return ["".join(rng.choices(WORD, k=24)) for _ in range(count)]


def _prefixed(count: int, prefix: str = "a-prefix-of-all-secrets-") -> list[str]:
    return [f"{prefix}{n:04}" for n in range(count)]


def _words(letters: str, size: int) -> list[str]:
    words = [""]
    for _ in range(size):
        words = [word + letter for word in words for letter in letters]
    return words


def _fibonacci(size: int) -> str:
    first, second = "a", "ab"
    while len(second) < size:
        first, second = second, second + first
    return second[:size]
