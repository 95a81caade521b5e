"""No bit of a secret stands beside its mask, wherever base64 groups and lines begin."""

from __future__ import annotations

import base64
import random
import re
import string

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from recoup.kernel.signature import signature
from recoup.redaction.redactor import SecretRedactor

LETTERS = string.ascii_letters + string.digits + "+/-_.:!"
SECRETS = st.text(LETTERS, min_size=9, max_size=90)
BESIDE = st.binary(max_size=70)
WRAPPED = st.sampled_from([0, 64, 76])


def other_than(secret: str, seed: int) -> str:
    """Another one of the same length, different in every character."""
    choice = random.Random(seed)
    return "".join(choice.choice([c for c in LETTERS if c != own]) for own in secret)


def written(before: bytes, secret: str, after: bytes, columns: int, urlsafe: bool, padded: bool) -> bytes:
    encode = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    text = encode(before + secret.encode() + after)
    text = text if padded else text.rstrip(b"=")
    lines = [text[at : at + columns] for at in range(0, len(text), columns)] if columns else [text]
    return b"\n".join(lines) + b"\n"


def occurrences(secret: str, text: bytes) -> int:
    """Of those that overlap each."""
    return len(re.findall(b"(?=%b)" % re.escape(secret.encode()), text))


def masked(secret: str, text: bytes) -> bytes:
    redactor = SecretRedactor()
    redactor.register("TOKEN", secret)
    return redactor.redact(text).data


@settings(max_examples=150, deadline=None)
@given(SECRETS, BESIDE, BESIDE, WRAPPED, st.booleans(), st.booleans(), st.integers(0, 99))
def test_no_character_that_is_left_depends_on_the_secret(
    secret: str, before: bytes, after: bytes, columns: int, urlsafe: bool, padded: bool, seed: int
) -> None:
    secrets = (secret, other_than(secret, seed), other_than(secret, seed + 1))
    # What stands beside one and continues it, as 8 does after 888, is rightly hidden with it.
    assume(all(occurrences(one, before + one.encode() + after) == 1 for one in secrets))
    shown = {masked(one, written(before, one, after, columns, urlsafe, padded)) for one in secrets}
    assert len(shown) == 1, shown


@pytest.mark.parametrize("command", ["echo", "printf"])
def test_what_a_shell_hands_to_base64_leaves_nothing_but_the_mask(command: str) -> None:
    ending = b"\n" if command == "echo" else b""
    for characters in range(9, 40):
        secret = "".join(random.Random(characters).choices(LETTERS, k=characters))
        for columns in (0, 64, 76):
            assert masked(secret, written(b"", secret, ending, columns, False, True)).strip() == b"[redacted]"


def test_two_failures_that_differ_only_in_the_secret_have_one_signature() -> None:
    told = set()
    for characters in (20, 21, 22, 23):
        for seed in range(3):
            secret = "".join(random.Random(seed).choices(string.ascii_letters, k=characters))
            text = b"denied: " + base64.b64encode(secret.encode() + b"\n") + b" is no token"
            told.add(signature("exit_nonzero", masked(secret, text).decode()))
    assert len(told) == 1


def test_base64_of_other_text_is_left_alone() -> None:
    text = base64.b64encode(b"an ordinary line of text that holds no secret at all") + b"\n"
    assert masked("correct0horse1battery", text * 50) == text * 50
    assert re.search(rb"redacted", masked("correct0horse1battery", b"Cg==\nK\nAA==\n")) is None
