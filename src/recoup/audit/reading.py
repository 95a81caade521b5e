"""What was exported, for people who look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from recoup.audit.chain import next_line
from recoup.audit.folder import AuditFolder
from recoup.audit.line import TooLong
from recoup.errors import StateError


class Shown(msgspec.Struct, frozen=True):
    """What one must know of a line to choose it."""

    stream: str
    seq: int
    at: str
    type: str
    n: int


def lines(root: Path) -> Iterator[tuple[bytes, Shown]]:
    """All whole lines, without their ends. Raises StateError at one that cannot be read."""
    decode = msgspec.json.Decoder(Shown).decode
    for path in AuditFolder(root).files():
        with path.open("rb") as file:
            try:
                while line := next_line(file):
                    if line.endswith(b"\n"):
                        yield line[:-1], decode(line)
            except (msgspec.MsgspecError, TooLong) as error:
                raise StateError(
                    f"{path} cannot be read: {error}", hint="Look for damage: recoup audit verify"
                ) from None
