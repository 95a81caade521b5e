"""References in plans: `${{ NAME }}` with inputs.NAME, steps.ID.outputs.NAME, run.id or run.workflow.

An odd number of backslashes before `${{` makes it plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

OPENING = "${{"


class TemplateError(ValueError):
    """A reference, a condition or a value that cannot be filled in; says where and what to do."""


class Reference(msgspec.Struct, frozen=True):
    """One reference and where it stands in its text."""

    name: str
    """As scopes know it: `inputs.customer`, `steps.fetch.outputs.count`, `run.id`."""
    root: str
    """inputs | steps | run."""
    field: str
    step_id: str | None
    start: int
    end: int


class Escape(msgspec.Struct, frozen=True):
    """`\\${{`: the start of a reference that is none. The span is that of the backslash and the `$`."""

    start: int
    end: int


Mark = Reference | Escape


def references(text: str) -> tuple[Reference, ...]:
    """All references of a text in order. Raises TemplateError at the first that is not well formed."""
    return tuple(mark for mark in marks(text) if isinstance(mark, Reference))


def marks(text: str) -> Iterator[Mark]:
    """References and escapes, in order."""
    position = 0
    while (opening := text.find(OPENING, position)) >= 0:
        if _backslashes_before(text, opening, position) % 2:
            yield Escape(opening - 1, opening + 1)
            position = opening + len(OPENING)
        else:
            reference = _reference(text, opening)
            yield reference
            position = reference.end


def _backslashes_before(text: str, end: int, start: int) -> int:
    before = text[start:end]
    return len(before) - len(before.rstrip("\\"))


def where(text: str, position: int) -> str:
    """For messages: `line 2, column 7`."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"line {line}, column {column}"


def _reference(text: str, start: int) -> Reference:
    found = _REFERENCE.match(text, start)
    if found is None:
        raise TemplateError(f"{where(text, start)}: {_what_is_wrong(text, start)}")
    root, _, rest = found["name"].partition(".")
    step_id, _, field = rest.rpartition(".outputs.") if root == "steps" else (None, "", rest)
    return Reference(found["name"], root, field, step_id, start, found.end())


_ELSEWHERE = {
    "env": "steps have Recoup's environment: use the variable in the script, such as `$NAME`",
    "secrets": "name the variable under `secrets:` in the plan and use it in the script, such as `$NAME`",
    "github": "nothing is known of GitHub here: pass it as an input, `inputs.NAME`",
}
"""What other tools look up, and what to do here."""


def _what_is_wrong(text: str, start: int) -> str:
    closing = text.find("}}", start)
    if closing < 0:
        return "`${{` is not closed: write `}}` after the name, or `\\${{` for the characters themselves"
    written = " ".join(text[start + 3 : closing].split())
    shown = written if len(written) <= 60 else written[:59] + "…"
    for root, instead in _ELSEWHERE.items():
        if written.startswith(f"{root}."):
            return f"`{shown}` is not a reference: {instead}"
    return f"`{shown}` is not a reference: write inputs.NAME, steps.ID.outputs.NAME, run.id or run.workflow"


_FIELD = r"[A-Za-z_][A-Za-z0-9_-]{0,99}"
_STEP_ID = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}"
_REFERENCE = re.compile(
    rf"\$\{{\{{\s*(?P<name>inputs\.{_FIELD}|steps\.{_STEP_ID}\.outputs\.{_FIELD}|run\.(?:id|workflow))\s*\}}\}}"
)
