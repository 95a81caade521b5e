"""What was measured, kept in one file: the page is made of it, so that one table can be measured again.

The file stands beside the page and is committed with it. A folder for throw-away things would be lost with every clone,
and a page could not be brought up to date without measuring everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.machine import Machine
from benchmarks.report import Figure, LeftOut, Row


class Section(msgspec.Struct, frozen=True):
    """One benchmark, as it went the last time."""

    name: str
    about: str
    command: str
    measured_at: str
    took_s: float
    machine: Machine
    busy_cores: float
    """Used by others, just before it began."""
    versions: dict[str, str]
    figures: tuple[Figure, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    failed: str = ""
    pace_ms: tuple[float, ...] = ()
    """How long the same small piece of work took just before it, and just after."""

    @property
    def missed(self) -> int:
        return sum(not figure.met for figure in self.figures)


class Results(msgspec.Struct, frozen=True):
    sections: dict[str, Section] = {}

    def with_section(self, section: Section) -> Results:
        return Results({**self.sections, section.name: section})


def split(rows: Sequence[Row]) -> tuple[tuple[Figure, ...], tuple[LeftOut, ...]]:
    figures = tuple(row for row in rows if isinstance(row, Figure))
    return figures, tuple(row for row in rows if isinstance(row, LeftOut))


def read(path: Path) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.is_file() else Results()


def write(path: Path, results: Results) -> None:
    """Whole or not at all: an interrupted benchmark must not cost those before it."""
    document = msgspec.to_builtins(results)
    for name, section in results.sections.items():
        _with_verdicts(document["sections"][name], section)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    new.replace(path)


def _with_verdicts(document: dict[str, Any], section: Section) -> None:
    """For those who read the file by other means; here they follow from the rest."""
    for told, figure in zip(document["figures"], section.figures, strict=True):
        told["met"] = figure.met
