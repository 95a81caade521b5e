"""The timeline as HTML rows with SVG lanes: percentages, so that it is as wide as the screen."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from recoup.kernel.description import Tone
from recoup.reports.room import fitting
from recoup.reports.spoken import count
from recoup.reports.view import Bar, Lane, Tick, Timeline

_FOLD_FROM_LANES = 40
"""With fewer steps each has a row of its own."""
_FOLDED_MIN = 4
_FOLD_BYTES_MAX = 1_000
_NAME_CHARS_MAX = 40
_HEIGHTS = {"backoff": 4, "wait": 6, "work": 8, "passed": 10}
_LANE_PX = 18
_CLEAR, _CLEAR_ON_A_PHONE = 0.14, 0.38
"""As far from a break as both can be read."""
_SEAM = 0.12
"""Of the axis, in per cent: between attempts that follow each other at once."""
_KEY = (
    ("passed", "passed"),
    ("failed", "failed"),
    ("unknown", "how it ended is not known"),
    ("open", "has not ended"),
    ("backoff", "backoff"),
    ("wait", "nobody works on it"),
)


def chart(view: Timeline, limit_bytes: int) -> tuple[str, int]:
    """The chart, and how many steps it leaves out."""
    run = (
        '<div class="row"><div class="name"><span class="mark"></span><span class="id soft">run</span></div>'
        f"{_svg(view.run)}</div>"
    )
    folds_max = min(len(view.lanes) // _FOLDED_MIN, limit_bytes // 4 // _FOLD_BYTES_MAX)
    left_bytes = limit_bytes - len(run.encode()) - folds_max * _FOLD_BYTES_MAX
    kept = fitting((_row(lane) for lane in view.lanes), left_bytes)
    shown = view.lanes[: len(kept.pieces)]
    rows = _folded(list(zip(shown, kept.pieces, strict=True)), folds_max)
    head = f'<div class="row axis"><div class="name"></div>{_ticks(view)}</div>'
    used = {bar.kind for lane in shown for bar in lane.bars} | {bar.kind for bar in view.run}
    body = f'<div class="chart">{_grid(view)}{head}{run}{"".join(rows)}</div>{_key(used)}'
    return body, kept.left_out


def _folded(rows: Sequence[tuple[Lane, str]], folds_max: int) -> list[str]:
    if len(rows) < _FOLD_FROM_LANES:
        return [row for _, row in rows]
    found: list[str] = []
    for (quiet, _), group in groupby(
        rows, key=lambda pair: (pair[0].quiet, pair[0].mark if pair[0].quiet else "")
    ):
        alike = list(group)
        if quiet and len(alike) >= _FOLDED_MIN and folds_max > 0:
            found.append(_fold(alike))
            folds_max -= 1
        else:
            found += [row for _, row in alike]
    return found


def _fold(rows: Sequence[tuple[Lane, str]]) -> str:
    first, last = rows[0][0], rows[-1][0]
    bars = [bar for lane, _ in rows for bar in lane.bars]
    merged = (
        [Bar(bars[0].kind, min(b.begin for b in bars), max(b.end for b in bars), count(len(rows), "step"))]
        if bars
        else []
    )
    names = " … ".join(f"<bdi>{escape(lane.step_id[:_NAME_CHARS_MAX])}</bdi>" for lane in (first, last))
    return (
        f'<details class="fold"><summary class="row"><div class="name">{_mark(first.mark, first.tone)}'
        f'<span class="id">{count(len(rows), "step")}</span><span class="time">{names}</span></div>'
        f"{_svg(merged)}</summary>{''.join(row for _, row in rows)}</details>"
    )


def _row(lane: Lane) -> str:
    title = f' title="{escape(lane.title)}"' if lane.title else ""
    words = lane.words + (f", {lane.bars_left_out} not drawn" if lane.bars_left_out else "")
    return (
        f'<div class="row"><div class="name"{title}>{_mark(lane.mark, lane.tone)}'
        f'<span class="id"><bdi>{escape(lane.step_id)}</bdi></span>'
        f'<span class="time">{escape(words)}</span></div>{_svg(lane.bars)}</div>'
    )


def _mark(mark: str, tone: Tone) -> str:
    return f'<span class="mark {tone}">{mark}</span>'


def _svg(bars: Sequence[Bar]) -> str:
    return f'<svg class="lane" role="presentation">{"".join(map(_rect, bars))}</svg>'


def _rect(bar: Bar) -> str:
    height = _HEIGHTS.get(bar.kind, 14)
    x, width = bar.begin * 100, (bar.end - bar.begin) * 100
    width = max(0.02, width - _SEAM if width > 4 * _SEAM else width)
    place = f'x="{min(x, 99.9):.3f}%" y="{(_LANE_PX - height) / 2:g}" width="{width:.3f}%" height="{height}"'
    return f'<rect class="{bar.kind}" {place} rx="1.5"><title>{escape(bar.words)}</title></rect>'


def _ticks(view: Timeline) -> str:
    """Breaks first, then what is clear of them; what only a wide screen has space for is `odd`."""
    breaks = _apart(view.breaks, _CLEAR)
    few = _apart(view.breaks, _CLEAR_ON_A_PHONE)
    texts = [_tick(gap.at, f"… {gap.words} …", "break " if gap in few else "break odd ") for gap in breaks]
    clear = [tick for tick in view.ticks if _is_clear(tick, breaks, _CLEAR)]
    near = [tick for tick in clear if not _is_clear(tick, few, _CLEAR_ON_A_PHONE)]
    for number, tick in enumerate(clear):
        texts.append(_tick(tick.at, tick.words, "odd " if number % 2 or tick in near else ""))
    return f'<svg class="ticks" role="presentation">{"".join(texts)}</svg>'


def _apart(ticks: Sequence[Tick], distance: float) -> list[Tick]:
    found: list[Tick] = []
    for tick in ticks:
        if _is_clear(tick, found, distance):
            found.append(tick)
    return found


def _is_clear(tick: Tick, others: Sequence[Tick], distance: float) -> bool:
    return all(abs(tick.at - other.at) > distance for other in others)


def _tick(at: float, words: str, kind: str) -> str:
    edge = "first" if at < 0.04 else "last" if at > 0.96 else ""
    return f'<text x="{at * 100:.3f}%" y="14" class="{kind}{edge}">{escape(words)}</text>'


def _grid(view: Timeline) -> str:
    lines = [_line(tick.at, "") for tick in view.ticks] + [_line(tick.at, "break") for tick in view.breaks]
    return f'<div class="grid"><svg role="presentation">{"".join(lines)}</svg></div>'


def _line(at: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{at * 100:.3f}%" x2="{at * 100:.3f}%" y1="0" y2="100%"/>'


def _key(used: set[str]) -> str:
    items = "".join(
        f'<span><svg role="presentation"><rect class="{kind}" x="1" y="{(14 - min(12, _HEIGHTS.get(kind, 14))) / 2:g}" '
        f'width="20" height="{min(12, _HEIGHTS.get(kind, 14))}" rx="1.5"/></svg>{words}</span>'
        for kind, words in _KEY
        if kind in used
    )
    return f'<div class="key">{items}</div>'
