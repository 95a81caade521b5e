"""Whether a chosen secret is long and varied enough to withstand guessing."""

from __future__ import annotations

from typing import Final

KEY_CHARS_MIN: Final = 20
TOKEN_CHARS_MIN: Final = 32
DIFFERENT_CHARS_MIN: Final = 8
MAKE_ONE: Final = "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
"""The command that makes a good one."""


def weakness(secret: str, chars_min: int) -> str:
    """What is wrong with it, as the rest of a sentence; "" if nothing is. Random text always passes."""
    if len(secret) < chars_min:
        return f"has fewer than {chars_min} characters"
    if len(set(secret)) < DIFFERENT_CHARS_MIN:
        return f"has fewer than {DIFFERENT_CHARS_MIN} different characters"
    if secret in (secret + secret)[1:-1]:
        return "is a short text, repeated"
    return ""
