"""What all answers share."""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An answer to a program. Its fields are the document: names in camelCase, no others."""


class PlainAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same with names as they are written here: between probes and gateways, and as commands print them."""
