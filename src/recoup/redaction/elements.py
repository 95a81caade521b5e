"""Elements of a page as records show them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from recoup.model.target import Element
from recoup.redaction.redactor import SecretRedactor


class _Elements(msgspec.Struct, frozen=True):
    elements: tuple[Element, ...]


def recorded_elements(redactor: SecretRedactor, elements: Sequence[Element]) -> Sequence[Element]:
    """The same elements in the same order, redacted."""
    sealed = redactor.seal(_Elements(tuple(elements)))
    return msgspec.json.decode(sealed.data, type=_Elements).elements
