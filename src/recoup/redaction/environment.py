"""Which environment variables hold secrets, by their names: a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

VALUE_CHARACTERS_MIN: Final = 8

_WORDS: Final = frozenset(
    ("token", "secret", "password", "passwd", "key", "credential", "credentials", "auth", "apikey")
)
_NO_SECRETS: Final = frozenset(("SSH_AUTH_SOCK",))
_NO_VALUES: Final = frozenset(
    ("undefined", "disabled", "not-set", "not_set", "required", "optional", "redacted", "[redacted]")
)


def secret_names(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to register without being asked, with their values."""
    return {name: value for name, value in environ.items() if names_a_secret(name) and _is_a_secret(value)}


def names_a_secret(name: str) -> bool:
    return name.upper() not in _NO_SECRETS and not _WORDS.isdisjoint(name.lower().split("_"))


def _is_a_secret(value: str) -> bool:
    value = value.strip()
    if len(value) < VALUE_CHARACTERS_MIN or value.lower() in _NO_VALUES:
        return False
    # Masking "********" or "--------" would eat rulers and placeholders, and hide nothing.
    return len(set(value)) > 1
