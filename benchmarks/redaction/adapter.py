"""The product's own redactor behind the evaluator's interface: registered secrets, and the patterns always."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache

from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.patterns.compiled import PatternSet
from recoup.redaction.redactor import SecretRedactor


def redact(chunks: Iterable[bytes], secrets: list[str]) -> Iterator[bytes]:
    redactor = SecretRedactor(_patterns())
    for number, secret in enumerate(secrets):
        redactor.register(f"secret {number}", secret)
    stream = redactor.stream()
    for chunk in chunks:
        yield stream.feed(chunk).data
    yield stream.flush().data


@cache
def _patterns() -> PatternSet:
    return pattern_set(default_cache(os.environ))
