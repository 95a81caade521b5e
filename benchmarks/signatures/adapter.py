"""`signature(text)`, as the engine computes it for a step that exited with a non-zero code."""

from __future__ import annotations

from recoup.kernel.signature import signature as signature_of
from recoup.model.failure import FailureKind


def signature(text: str) -> str:
    return signature_of(FailureKind.EXIT_NONZERO, text)
