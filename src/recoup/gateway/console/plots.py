"""Small charts, drawn on the server: series in, escaped SVG out. What is drawn can be read as a table, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from markupsafe import Markup

POINTS_MAX: Final = 400
"""Of each series; the newest are kept."""
_HEIGHT: Final = 132
_LEFT: Final = 34
_RIGHT: Final = 6
_TOP: Final = 10
_FOOT: Final = 20
_LABEL_PX: Final = 62
Spoken = Callable[[float], str]


class Series(msgspec.Struct, frozen=True):
    """Values in the order of the labels; None: nothing is known there. `tone` is a class of parts.css: passed, failed,
    unknown, open, backoff, work, wait."""

    name: str
    values: Sequence[float | None]
    tone: str = "work"


def number(value: float) -> str:
    """`1200`, `0.5`: as short as it can be said."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}"


def bars(
    title: str,
    points: Sequence[tuple[str, float | None]],
    *,
    tone: str = "work",
    unit: str = "",
    spoken: Spoken = number,
    width: int = 380,
) -> Markup:
    """One bar for each label."""
    one = Series(unit or "value", [value for _, value in points], tone)
    return stacked_bars(title, [label for label, _ in points], [one], unit=unit, spoken=spoken, width=width)


def stacked_bars(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    unit: str = "",
    spoken: Spoken = number,
    width: int = 380,
) -> Markup:
    """The values of one label upon each other, the first series at the bottom."""
    labels, series = _newest(labels, series)
    sums = [sum(one.values[at] or 0 for one in series) for at in range(len(labels))]
    room = _Room(width, len(labels), _ceiling(sums))
    drawn = [_column(room, at, label, series, spoken) for at, label in enumerate(labels)]
    return _figure(title, labels, series, room, Markup("").join(drawn), unit, spoken)


def line(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    unit: str = "",
    spoken: Spoken = number,
    top: float | None = None,
    width: int = 380,
) -> Markup:
    """A curve for each series; where a value is not known it is interrupted. `top`: the axis ends there."""
    labels, series = _newest(labels, series)
    known = [value for one in series for value in one.values if value is not None]
    room = _Room(width, len(labels), top or _ceiling(known))
    drawn = [_curve(room, labels, one, spoken) for one in series]
    return _figure(title, labels, series, room, Markup("").join(drawn), unit, spoken)


class _Room(msgspec.Struct, frozen=True):
    """Where things are drawn: pixels of the picture."""

    width: int
    count: int
    top: float

    @property
    def slot(self) -> float:
        return (self.width - _LEFT - _RIGHT) / max(1, self.count)

    def middle(self, at: int) -> float:
        return _LEFT + (at + 0.5) * self.slot

    def y(self, value: float) -> float:
        return _HEIGHT - _FOOT - min(1.0, max(0.0, value / self.top)) * (_HEIGHT - _FOOT - _TOP)


def _newest(labels: Sequence[str], series: Sequence[Series]) -> tuple[Sequence[str], list[Series]]:
    assert all(len(one.values) == len(labels) for one in series), "every series has a value for every label"
    kept = [Series(one.name, one.values[-POINTS_MAX:], one.tone) for one in series]
    return labels[-POINTS_MAX:], kept


def _ceiling(values: Sequence[float]) -> float:
    """The next round number: 1, 2 or 5 times a power of ten."""
    most = max(values, default=0)
    if most <= 0:
        return 1.0
    power = 1.0
    while power > most:
        power /= 10
    while power * 10 <= most:
        power *= 10
    return next(power * step for step in (1, 2, 5, 10) if power * step >= most)


def _column(room: _Room, at: int, label: str, series: Sequence[Series], spoken: Spoken) -> Markup:
    broad, below, drawn = max(1.0, room.slot * 0.72), 0.0, list[Markup]()
    for one in series:
        value = one.values[at] or 0
        if value > 0:
            high = room.y(below) - room.y(below + value)
            drawn.append(
                Markup(
                    '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
                ).format(
                    *(one.tone, room.middle(at) - broad / 2, room.y(below + value), broad, high),
                    f"{label}: {one.name} {spoken(value)}",
                )
            )
        below += value
    return Markup("").join(drawn)


def _curve(room: _Room, labels: Sequence[str], one: Series, spoken: Spoken) -> Markup:
    path, dots, pen_down = list[str](), list[Markup](), False
    for at, value in enumerate(one.values):
        if value is not None:
            x, y = room.middle(at), room.y(value)
            path.append(f"{'L' if pen_down else 'M'}{x:.1f} {y:.1f}")
            told = f"{labels[at]}: {one.name} {spoken(value)}"
            dots.append(_DOT.format(one.tone, x, y, told))
        pen_down = value is not None
    return Markup('<path class="curve {}" d="{}"/>').format(one.tone, " ".join(path)) + Markup("").join(dots)


_DOT: Final = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="2.2"><title>{}</title></circle>')
_RULE: Final = Markup('<line class="axis" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>')
_FIGURE: Final = Markup(
    '<figure class="plot"><figcaption>{title}{key}</figcaption>'
    '<svg class="plot" viewBox="0 0 {width} {height}" role="img" aria-label="{title}. {told}">'
    "<title>{title}</title><desc>{told}</desc>{axes}{drawn}</svg>{table}</figure>"
)


def _figure(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    room: _Room,
    drawn: Markup,
    unit: str,
    spoken: Spoken,
) -> Markup:
    return _FIGURE.format(
        title=title,
        key=_key(series),
        width=room.width,
        height=_HEIGHT,
        told=_told(labels, series, unit, spoken),
        axes=_axes(room, labels, spoken),
        drawn=drawn,
        table=_table(title, labels, series, unit, spoken),
    )


def _told(labels: Sequence[str], series: Sequence[Series], unit: str, spoken: Spoken) -> str:
    """What a picture of it says, in a sentence."""
    if not labels:
        return "Nothing is known yet."
    parts = [f"{one.name} {spoken(last)}" for one in series if (last := _last(one)) is not None]
    measured = f", in {unit}" if unit else ""
    return f"From {labels[0]} to {labels[-1]}{measured}; last: {', '.join(parts) or 'nothing'}."


def _last(one: Series) -> float | None:
    return next((value for value in reversed(one.values) if value is not None), None)


def _axes(room: _Room, labels: Sequence[str], spoken: Spoken) -> Markup:
    drawn = list[Markup]()
    for part in (0.0, 0.5, 1.0):
        y = room.y(part * room.top)
        drawn.append(_RULE.format(_LEFT, room.width - _RIGHT, y, y))
        said = Markup('<text x="{}" y="{:.1f}" text-anchor="end">{}</text>')
        drawn.append(said.format(_LEFT - 5, y + 4, spoken(part * room.top)))
    every = max(1, round(_LABEL_PX / room.slot + 0.499))
    for at in range((len(labels) - 1) % every, len(labels), every):
        said = Markup('<text x="{:.1f}" y="{}" text-anchor="{}">{}</text>')
        anchor = "end" if at == len(labels) - 1 and room.slot < _LABEL_PX else "middle"
        x = room.width - _RIGHT if anchor == "end" else max(room.middle(at), _LEFT)
        drawn.append(said.format(x, _HEIGHT - 5, anchor, labels[at]))
    return Markup("").join(drawn)


def _key(series: Sequence[Series]) -> Markup:
    """Names beside their colours, where there is more than one."""
    if len(series) < 2:
        return Markup("")
    swatch = Markup(
        '<span><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="{}" x="1" y="1" width="10" height="10"/>'
        "</svg>{}</span>"
    )
    named = Markup("").join(swatch.format(one.tone, one.name) for one in series)
    return Markup('<span class="key">{}</span>').format(named)


def _table(title: str, labels: Sequence[str], series: Sequence[Series], unit: str, spoken: Spoken) -> Markup:
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(one.name) for one in series)
    rows = Markup("").join(_row(at, label, series, spoken) for at, label in enumerate(labels))
    measured = f" ({unit})" if unit else ""
    return Markup(
        '<details><summary>As a table</summary><div class="scroll" tabindex="0"><table><caption>{}</caption>'
        '<thead><tr><th scope="col">When</th>{}</tr></thead><tbody>{}</tbody></table></div></details>'
    ).format(title + measured, head, rows)


def _row(at: int, label: str, series: Sequence[Series], spoken: Spoken) -> Markup:
    told = ["—" if (value := one.values[at]) is None else spoken(value) for one in series]
    cells = Markup("").join(Markup('<td class="num">{}</td>').format(text) for text in told)
    return Markup('<tr><th scope="row">{}</th>{}</tr>').format(label, cells)
