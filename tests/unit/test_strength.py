"""Secrets that somebody chose."""

from __future__ import annotations

import secrets

import pytest
from tests.keys import KEY, TOKEN

from recoup.errors import SettingsError, UsageError
from recoup.settings import require_strong_key
from recoup.strength import KEY_CHARS_MIN, TOKEN_CHARS_MIN, weakness
from recoup.tokens import given


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ("x", "fewer than 20 characters"),
        ("a" * 64, "different characters"),
        ("0123456" * 9, "different characters"),
        ("open sesame " * 5, "repeated"),
    ],
)
def test_a_weak_key_is_refused_and_the_message_makes_a_good_one(secret: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words) as refused:
        require_strong_key(secret)
    assert "secrets.token_urlsafe(32)" in refused.value.hint and secret not in refused.value.message


@pytest.mark.parametrize("token", ["short", "a" * 32, "ab" * 20])
def test_a_weak_token_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match="RECOUP_TOKEN") as refused:
        given(token)
    assert "secrets.token_urlsafe(32)" in refused.value.hint and token not in refused.value.message


def test_random_keys_and_tokens_are_taken() -> None:
    require_strong_key(None)
    for one in (KEY, secrets.token_hex(16), secrets.token_urlsafe(32), secrets.token_urlsafe(16)):
        assert weakness(one, KEY_CHARS_MIN) == ""
    assert weakness(TOKEN, TOKEN_CHARS_MIN) == ""
    given(TOKEN)
