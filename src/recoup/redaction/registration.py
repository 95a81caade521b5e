"""Redactors that know secrets by their names."""

from __future__ import annotations

from collections.abc import Mapping

from recoup.errors import UsageError
from recoup.redaction.environment import secret_names
from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.redactor import SecretRedactor


def environment_redactor(environ: Mapping[str, str]) -> SecretRedactor:
    """Hides what is secret by the names of the environment, and what looks like a secret anywhere."""
    redactor = SecretRedactor(pattern_set(default_cache(environ)))
    for name, value in secret_names(environ).items():
        register_secret(redactor, name, value)
    return redactor


def register_secret(redactor: SecretRedactor, name: str, value: str) -> None:
    try:
        redactor.register(name, value)
    except ValueError as error:
        raise UsageError(
            f"the secret {name} cannot be kept out of the records: {error}",
            hint=f"Give {name} another value, or take it out of the secrets of the plan if it is none.",
        ) from None
