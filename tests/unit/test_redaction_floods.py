"""Text that is nothing but secrets and beginnings of secrets: masked no less, and perhaps a little more."""

from __future__ import annotations

import random

import pytest

from recoup.redaction.masks import MASK
from recoup.redaction.matcher import COMPARISONS_MAX, WINDOW_BYTES, FormMatcher
from recoup.redaction.redactor import SecretRedactor

FLOODS = {
    "zeros": (["0" * 4], b"0" * 20_000),
    "zeros in groups": (["0" * 4], b"0000 0001 " * 2_000),
    "back to back": (["hunter2"], b"hunter2" * 3_000),
    "one letter, many secrets": (
        ["a" * n + f"b{n}" for n in range(16, 56)],
        b"a" * 20_000 + b"b20" + b"a" * 20_000,
    ),
    "nested": (["a" * n for n in range(4, 120)], (b"a" * 50 + b"\n") * 400),
    "all words of two letters": (
        [f"{n:04b}" for n in range(16)],
        "".join(random.Random(1).choices("01 ", k=20_000)).encode(),
    ),
    "one prefix": ([f"a-common-prefix-{n:03}" for n in range(200)], b"a-common-prefix-" * 2_000),
    "a long beginning": (["ab" * 300 + "c"], b"ab" * 10_000 + b"c" + b"ab" * 10_000),
}


def registered(secrets: list[str]) -> SecretRedactor:
    redactor = SecretRedactor()
    for number, secret in enumerate(secrets):
        redactor.register(f"SECRET_{number}", secret)
    return redactor


@pytest.mark.parametrize("chunk_bytes", [997, 4_096, 1 << 20])
@pytest.mark.parametrize("flood", FLOODS)
def test_no_secret_survives_a_flood_and_the_text_around_it_does(flood: str, chunk_bytes: int) -> None:
    secrets, text = FLOODS[flood]
    before, after = b"what stands before\n" * 500, b"\nwhat stands after" * 1_000
    stream = registered(secrets).stream()
    data = before + text + after
    chunks = [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)]
    out = b"".join([*(stream.feed(chunk).data for chunk in chunks), stream.flush().data])
    assert out.startswith(before)
    assert out.endswith(after[-len(after) // 2 :])
    assert not any(secret.encode() in out for secret in secrets)


def test_what_is_held_back_in_a_flood_is_no_longer_than_the_longest_form() -> None:
    stream = registered(["ab" * 300 + "c"]).stream()
    for _ in range(20):
        stream.feed(b"ab" * 5_000)
    assert len(stream.flush().data) < 300


def test_nothing_is_held_back_after_a_byte_that_is_in_no_form() -> None:
    """Parts of the base64 of a secret, many at every place: too many to look at each."""
    stream = registered(["a" * 240]).stream()
    stream.feed(b"FhYW" * 20 + b"FhYF" + b"FhYW" * 20 + b"~")
    assert stream.flush().data == b""


def test_as_many_secrets_as_a_log_may_hold_are_masked_one_by_one() -> None:
    line = b"user admin at host\n"
    assert WINDOW_BYTES // len(line) > COMPARISONS_MAX
    line = b"the user admin at host 123\n"
    out = registered(["admin"]).redact(line * 10_000).data
    assert out == line.replace(b"admin", MASK) * 10_000


def test_the_forms_that_occur_in_a_flood_are_told_apart() -> None:
    matcher = FormMatcher([b"0000", b"00001", b"00002", b"1111", b"abcdefgh-abcdefgh-ijkl"])
    assert matcher.occurring(b"0" * 10_000 + b"1" + b"0" * 10_000) == {b"0000", b"00001"}
    assert matcher.occurring(b"0" * 10_000 + b" 1111") == {b"0000", b"1111"}


def test_a_secret_that_begins_in_a_flood_and_ends_long_after_it_is_hidden() -> None:
    long = "0" * 4 + "x" * 500 + "the end of the long secret"
    hidden = registered(["0" * 4, long])
    for shift in range(0, WINDOW_BYTES, 97):
        text = b"0" * (3 * WINDOW_BYTES + shift) + long.encode()[4:] + b" and on"
        out = hidden.redact(text).data
        assert b"the end" not in out
        assert out.endswith(b"]") or out.endswith(b" on")


def test_in_an_endless_flood_every_secret_that_occurs_is_named() -> None:
    rng = random.Random(2)
    zeros = b"".join(b"0" * rng.randint(9, 40) + rng.choice((b"\1", b"\2")) for _ in range(10_000))
    few = FormMatcher([b"0000", b"00003", b"1111", b"never-there"])
    assert few.occurring(zeros) == {b"0000"}
    assert few.occurring(zeros + b" 1111") == {b"0000", b"1111"}
    many = FormMatcher([b"0000", *(f"other-{n}".encode() for n in range(100))])
    assert many.occurring(zeros + b"other-7") >= {b"0000", b"other-7"}
