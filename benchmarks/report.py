"""Figures, their bars, and how they are shown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number; with a bar it must reach it (or, `at_most`, stay under it)."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_most: bool = False

    @property
    def met(self) -> bool:
        if self.bar is None:
            return True
        return self.value <= self.bar if self.at_most else self.value >= self.bar

    def line(self) -> str:
        bar = ""
        if self.bar is not None:
            side = "at most" if self.at_most else "at least"
            bar = f"   {'ok' if self.met else 'MISSED'}: {side} {self.bar:g}"
        return f"  {self.name:<48} {number(self.value):>10} {self.unit:<8}{bar}"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
