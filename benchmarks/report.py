"""What a benchmark tells: figures with their bars and spread, the others at the same work, and what was left out."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from typing import TypeVar

import msgspec

QUICK = "RECOUP_BENCH_QUICK"
"""Set to anything: small forms, which show that everything works and say nothing about speed."""

T = TypeVar("T")


class Spread(msgspec.Struct, frozen=True):
    """The lowest and the highest of so many repetitions."""

    low: float
    high: float
    count: int


class Peer(msgspec.Struct, frozen=True):
    """Another system at the same work, measured in the same minutes; or the bare work, without any system."""

    name: str
    value: float
    ratio: float
    """How far ahead of it we are: below 1 we lose, whether more or less is better."""
    floor: float | None = None
    """The least ratio that we hold ourselves to."""
    spread: Spread | None = None
    ratio_spread: Spread | None = None
    bare: bool = False
    """No system: what any system pays for. To be behind it is no loss."""
    keeps: str = ""
    """What is sure to outlive a loss of power, and in which database. It is what makes a comparison fair."""

    @property
    def met(self) -> bool:
        return self.floor is None or self.ratio >= self.floor


class Figure(msgspec.Struct, frozen=True):
    """One measured number of ours. With a bar it must reach it (or, `at_most`, stay under it)."""

    name: str
    ours: float
    unit: str
    bar: float | None = None
    at_most: bool = False
    """Less is better."""
    spread: Spread | None = None
    peers: tuple[Peer, ...] = ()
    keeps: str = ""
    """As of a peer."""
    note: str = ""

    @property
    def met(self) -> bool:
        return self.bar_met and all(peer.met for peer in self.peers)

    @property
    def bar_met(self) -> bool:
        if self.bar is None:
            return True
        return self.ours <= self.bar if self.at_most else self.ours >= self.bar


class LeftOut(msgspec.Struct, frozen=True):
    """What could not be measured here, and why."""

    what: str
    why: str


Row = Figure | LeftOut


def of_rounds(
    name: str,
    values: Sequence[float],
    unit: str,
    bar: float | None = None,
    *,
    at_most: bool = False,
    peers: Sequence[Peer] = (),
    keeps: str = "",
    note: str = "",
) -> Figure:
    """The median, with its spread."""
    return Figure(name, median(values), unit, bar, at_most, spread_of(values), tuple(peers), keeps, note)


def against(
    name: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    at_most: bool = False,
    floor: float | None = None,
    bare: bool = False,
    keeps: str = "",
    paired: bool = False,
) -> Peer:
    """Medians, and their ratio; `paired`, where both took turns: the median of the ratios of the turns."""
    ratios = [_ahead(*turn, at_most) for turn in zip(ours, theirs, strict=True)] if paired else []
    ratio = median(ratios) if ratios else _ahead(median(ours), median(theirs), at_most)
    return Peer(
        name, median(theirs), ratio, floor, spread_of(theirs), spread_of(ratios), bare=bare, keeps=keeps
    )


def _ahead(ours: float, theirs: float, at_most: bool) -> float:
    return theirs / ours if at_most else ours / theirs


def spread_of(values: Sequence[float]) -> Spread | None:
    return Spread(min(values), max(values), len(values)) if len(values) > 1 else None


def lines(row: Row) -> list[str]:
    """For the terminal."""
    if isinstance(row, LeftOut):
        return [f"  {row.what}: not run: {row.why}"]
    return [_figure_line(row), *(_peer_line(row, peer) for peer in row.peers)]


def _figure_line(figure: Figure) -> str:
    told = f"  {figure.name:<52} {number(figure.ours):>10} {figure.unit:<8} {span(figure.spread):<22}"
    return f"{told} {_verdict(figure.bar_met, bar_words(figure))}".rstrip()


def _peer_line(figure: Figure, peer: Peer) -> str:
    told = f"    {peer.name:<50} {number(peer.value):>10} {figure.unit:<8} {span(peer.spread):<22}"
    floor = f"at least {peer.floor:g}" if peer.floor is not None else ""
    return f"{told} {number(peer.ratio)} times {_verdict(peer.met, floor)}".rstrip()


def _verdict(met: bool, bar: str) -> str:
    return f"{'ok' if met else 'MISSED'}: {bar}" if bar else ""


def bar_words(figure: Figure) -> str:
    if figure.bar is None:
        return ""
    return f"{'at most' if figure.at_most else 'at least'} {figure.bar:g}"


def span(spread: Spread | None) -> str:
    return f"{number(spread.low)}–{number(spread.high)} of {spread.count}" if spread else ""


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def scaled(full: T, quick: T) -> T:
    """How much of it: in full, or in the small form."""
    return quick if os.environ.get(QUICK) else full
