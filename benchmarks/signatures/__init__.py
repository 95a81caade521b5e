"""Failure signatures on logs of other systems: same for the same event, different for another."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.evaluators import SHARED, evaluated
from benchmarks.report import Figure, LeftOut, Row


def run() -> Iterator[Row]:
    found = evaluated("evaluate_signatures.py", "signatures/adapter.py", "--data", SHARED / "data" / "logs")
    if isinstance(found, LeftOut):
        yield found
        return
    yield Figure("precision", found["precision"], "", bar=0.999)
    yield Figure("recall", found["recall"], "", bar=0.8)
    yield Figure("a line", found["us_per_line"], "µs", bar=40, at_most=True)
