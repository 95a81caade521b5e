"""What there is to say about a plan that was turned: what was not, and what is worth knowing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from recoup.shapes.tree import clipped

REMARKS_SHOWN_MAX = 200
WHERE_CHARS_MAX = 200


class Remark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing, and where it stands in the plan of openchrome."""

    where: str
    reason: str
    step: int | None = None
    """Its order, as openchrome counts."""
    tool: str | None = None


class Remarks:
    """Collects them in the order in which they are found."""

    def __init__(self, not_turned: Sequence[Remark], notes: Sequence[Remark]) -> None:
        self.not_turned = list(not_turned)
        self.notes = list(notes)

    def refuse(self, where: str, reason: str, step: int | None = None, tool: str | None = None) -> None:
        self.not_turned.append(Remark(where=where, reason=reason, step=step, tool=tool))

    def note(self, where: str, reason: str) -> None:
        self.notes.append(Remark(where=where, reason=reason))

    def add(self, other: Remarks) -> None:
        self.not_turned += other.not_turned
        self.notes += other.notes


def remark_lines(title: str, remarks: Sequence[Remark]) -> Iterator[str]:
    if remarks:
        yield title
    for remark in remarks[:REMARKS_SHOWN_MAX]:
        yield f"  {_line(remark)}"
    if len(remarks) > REMARKS_SHOWN_MAX:
        yield f"  and {len(remarks) - REMARKS_SHOWN_MAX:,} more"


def _line(remark: Remark) -> str:
    step = "" if remark.step is None else f" (step {remark.step}, {clipped(remark.tool or '')})"
    return " ".join(f"{clipped(remark.where, WHERE_CHARS_MAX)}{step}: {remark.reason}".split())
