"""Text that the program makes or has checked itself, and that may stand in storage as it is."""

from __future__ import annotations

from typing import Annotated

import msgspec

STRUCTURAL = "structural"

Ident = Annotated[str, msgspec.Meta(extra={STRUCTURAL: True})]
"""An id, a digest, a name from a closed list, a time. Never free text: redaction leaves it alone, so that a short
secret whose letters happen to occur in a digest cannot tear the ledger."""

NAMED_BY_KEY = "named by key"

NamedText = Annotated[str, msgspec.Meta(extra={NAMED_BY_KEY: True})]
"""Free text of a struct that stands under a name, such as the default of an input: the name may say that it is a
secret."""
