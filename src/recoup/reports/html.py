"""A report as one HTML page that needs nothing else: no script, no request, a policy that forbids both."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

import msgspec

from recoup.kernel.advice import Advice
from recoup.kernel.description import Tone
from recoup.reports.chart import chart
from recoup.reports.patches import kinds_of
from recoup.reports.room import fitting, fitting_ends
from recoup.reports.spoken import count
from recoup.reports.view import (
    DiffView,
    Entry,
    Fact,
    FailedAttempt,
    FailureGroup,
    Heal,
    Prefix,
    Report,
    StepRow,
)

PAGE_BYTES_MAX = 5_000_000
STYLES = ("tokens", "parts", "page")
"""Files beside this one. The console uses the first two."""
_CHART_BYTES_MAX = 1_400_000
_FAILURES_BYTES_MAX = 1_000_000
_DIFFS_BYTES_MAX = 900_000
_DIFF_BYTES_MAX = 200_000
_STEPS_BYTES_MAX = 500_000
_DECISIONS_BYTES_MAX = 500_000
_CONTROLS_BYTES_MAX = 150_000
_MODES_BYTES_MAX = 50_000
_HEALS_BYTES_MAX = 150_000
"""Together with the head of the page less than PAGE_BYTES_MAX, escaped."""
_OPEN_DIFF_LINES_MAX = 60
_OPEN_STEPS_MAX = 30


class _Section(msgspec.Struct, frozen=True):
    name: str
    title: str
    body: str
    left_out: str = ""
    """In words; empty: nothing."""


def html_page(report: Report, version: str) -> str:
    sections = [section for section in _sections(report) if section is not None]
    left_out = [*report.left_out, *(section.left_out for section in sections if section.left_out)]
    page = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{_policy()}\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(report.workflow)}: {escape(report.status)}</title>\n<style>{_css()}</style>\n</head>\n<body>\n"
        f"{_head(report, sections, left_out)}\n<main>\n{''.join(map(_section, sections))}</main>\n"
        f"<footer>Made by recoup {escape(version)} from the run's recorded events, as of {escape(report.as_of)}. "
        "Secrets were taken out before anything was stored.</footer>\n</body>\n</html>\n"
    )
    assert len(page.encode()) < PAGE_BYTES_MAX, "the parts of a report add up to more than a page may have"
    return page


@cache
def _css() -> str:
    return "".join(Path(__file__).with_name(f"{name}.css").read_text("utf-8") for name in STYLES)


def content_policy() -> str:
    """What a page may do: show its own styles, and nothing else."""
    styles = base64.b64encode(hashlib.sha256(_css().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{styles}'; base-uri 'none'; form-action 'none'"


def _policy() -> str:
    return f'<meta http-equiv="Content-Security-Policy" content="{content_policy()}">'


def _sections(report: Report) -> list[_Section | None]:
    return [
        _timeline(report),
        _failures(report.failures),
        _entries("decisions", "Decisions", report.decisions, _DECISIONS_BYTES_MAX),
        _steps(report.prefix),
        _diffs(report.diffs),
        _heals(report.heals),
        _entries("controls", "Controls and operators' changes", report.controls, _CONTROLS_BYTES_MAX),
        _entries("modes", "Mode of the workflow", report.modes, _MODES_BYTES_MAX, "wide"),
    ]


def _head(report: Report, sections: Sequence[_Section], left_out: Sequence[str]) -> str:
    objective = f'<p class="over"><bdi>{escape(report.objective)}</bdi></p>' if report.objective else ""
    reason = f'<p class="lead"><bdi>{escape(report.reason)}</bdi></p>' if report.reason else ""
    advice = "".join(map(_advice, report.advice))
    advice = f'<div class="note"><b>Next</b>{advice}</div>' if advice else ""
    missing = (
        f'<p class="note"><b>Left out:</b> {escape("; ".join(left_out))}. '
        "All of it is in the ledger: <code>recoup events</code>.</p>"
        if left_out
        else ""
    )
    links = "".join(f'<a href="#{section.name}">{escape(section.title)}</a>' for section in sections)
    return (
        f'<header><p class="over">Recoup report</p><div class="head"><h1><bdi>{escape(report.workflow)}</bdi></h1>'
        f"{_badge(report.status, report.tone)}</div>{objective}{reason}{advice}{missing}"
        f"<dl>{''.join(map(_fact, report.facts))}</dl><nav>{links}</nav></header>"
    )


def _advice(one: Advice) -> str:
    """The command in it can be picked up at once."""
    if one.command is None:
        return f"<p><bdi>{escape(one.text)}.</bdi></p>"
    return f"<p><bdi>{escape(one.text)}:</bdi> <code>{escape(one.command)}</code></p>"


def _fact(fact: Fact) -> str:
    code = ' class="code"' if fact.code else ""
    return f"<div><dt>{escape(fact.label)}</dt><dd{code}><bdi>{escape(fact.value)}</bdi></dd></div>"


def _badge(words: str, tone: Tone) -> str:
    return f'<span class="badge {tone}">{escape(words)}</span>'


def _section(section: _Section) -> str:
    left = f'<p class="left">Left out here: {escape(section.left_out)}.</p>' if section.left_out else ""
    return f'<section id="{section.name}"><h2>{escape(section.title)}</h2>{section.body}{left}</section>\n'


def _timeline(report: Report) -> _Section:
    body, left_out = chart(report.timeline, _CHART_BYTES_MAX)
    words = f"the timeline of the last {count(left_out, 'step')}" if left_out else ""
    return _Section("timeline", "Timeline", body, words)


def _failures(groups: Sequence[FailureGroup]) -> _Section | None:
    if not groups:
        return None
    first, last = fitting_ends([_failure(group) for group in groups], _FAILURES_BYTES_MAX)
    words = f"{count(first.left_out, 'failure')} in the middle" if first.left_out else ""
    return _Section("failures", "Failures", "".join((*first.pieces, *last.pieces)), words)


def _failure(group: FailureGroup) -> str:
    said = escape("\n".join(group.excerpt))
    excerpt = f'<pre class="end" tabindex="0"><span>{said}</span></pre>' if group.excerpt else ""
    signature = f"<span>signature <code>{escape(group.signature)}</code></span>" if group.signature else ""
    return (
        f'<article class="card"><div class="tags"><h3><bdi>{escape(group.step_id)}</bdi></h3>'
        f"{_badge(group.cls, Tone.BAD)}<span>{escape(group.kind)}</span>{signature}</div>"
        f"<p><bdi>{escape(group.summary)}</bdi></p>{excerpt}{_tries(group)}{_changed(group)}{_evidence(group)}</article>"
    )


def _tries(group: FailureGroup) -> str:
    more = group.attempts_count - len(group.attempts)
    gap = f'<li class="soft">{count(more, "attempt")} between them ended alike</li>' if more else ""
    rows = [_try(one) for one in group.attempts]
    return f'<ul class="tries">{rows[0]}{gap}{"".join(rows[1:])}</ul>'


def _try(one: FailedAttempt) -> str:
    phase = f" ({escape(one.phase)})" if one.phase else ""
    lasted = f" after {escape(one.lasted)}" if one.lasted else ""
    answer = f" → <b>{escape(one.strategy)}</b>" if one.strategy else ""
    reason = f': <span class="soft"><bdi>{escape(one.reason)}</bdi></span>' if one.reason else ""
    return f"<li>attempt {one.attempt}{phase} at {escape(one.at)}{lasted}{answer}{reason}</li>"


def _changed(group: FailureGroup) -> str:
    if not group.changed_files_count:
        return ""
    names = ", ".join(f"<code>{escape(name)}</code>" for name in group.changed_files)
    return f'<p class="small soft">It had changed {count(group.changed_files_count, "file")}: {names}</p>'


def _evidence(group: FailureGroup) -> str:
    if not group.evidence:
        return ""
    handles = ", ".join(f"<code>{escape(handle[:19])}</code>" for handle in group.evidence)
    return f'<p class="small soft">Evidence (<code>recoup show RUN --evidence …</code>): {handles}</p>'


def _entries(
    name: str, title: str, entries: Sequence[Entry], limit_bytes: int, shape: str = ""
) -> _Section | None:
    if not entries:
        return None
    first, last = fitting_ends([_entry(entry) for entry in entries], limit_bytes)
    words = f"{count(first.left_out, 'line')} of {title.lower()}" if first.left_out else ""
    gap = f'<li class="soft">{words}</li>' if words else ""
    rows = "".join((*first.pieces, gap, *last.pieces))
    return _Section(name, title, f'<ol class="entries {shape}">{rows}</ol>', words)


def _entry(entry: Entry) -> str:
    about = f"<b><bdi>{escape(entry.about)}</bdi></b> " if entry.about else ""
    return (
        f"<li><time>{escape(entry.at)}</time><span>{_badge(entry.what, entry.tone)}</span>"
        f"<p>{about}<bdi>{escape(entry.reason)}</bdi></p></li>"
    )


def _steps(prefix: Prefix) -> _Section:
    kept = fitting((_step(row, prefix.good) for row in prefix.steps), _STEPS_BYTES_MAX)
    part = 100 * prefix.good / max(1, prefix.total)
    words = f"{prefix.good} of {count(prefix.total, 'step')} {'is' if prefix.total == 1 else 'are'} known to be good"
    edge = (
        f" The frontier is <b><bdi>{escape(prefix.frontier)}</bdi></b>: <bdi>{escape(prefix.frontier_reason)}</bdi>"
        if prefix.frontier
        else ""
    )
    gauge = f'<svg class="gauge" role="presentation"><rect width="{part:.2f}%" height="10"/></svg>'
    rows = f'<ol class="entries steps">{"".join(kept.pieces)}</ol>'
    if prefix.total > _OPEN_STEPS_MAX:
        rows = f"<details><summary>All {prefix.total} steps</summary>{rows}</details>"
    left_out = f"the last {count(kept.left_out, 'step')} of the list" if kept.left_out else ""
    body = f"{gauge}<p>{words}.{edge}</p>{rows}"
    return _Section("prefix", "Known-good prefix and frontier", body, left_out)


def _step(row: StepRow, good: int) -> str:
    edge = ' class="edge"' if row.index == good and good else ""
    title = f' <span class="soft"><bdi>{escape(row.title)}</bdi></span>' if row.title else ""
    facts = [row.verdict, count(row.attempts, "attempt") if row.attempts else "", row.kind]
    checkpoint = f" · checkpoint <code>{escape(row.checkpoint)}</code>" if row.checkpoint else ""
    reason = f"<br><bdi>{escape(row.reason)}</bdi>" if row.reason else ""
    return (
        f'<li{edge}><span class="mark {row.tone}">{row.mark}</span><span class="num">{row.index}</span>'
        f"<span><b><bdi>{escape(row.step_id)}</bdi></b>{title}</span>"
        f'<p class="small soft">{escape(" · ".join(filter(None, facts)))}{checkpoint}{reason}</p></li>'
    )


def _diffs(diffs: Sequence[DiffView]) -> _Section | None:
    if not diffs:
        return None
    is_open = sum(len(diff.lines) for diff in diffs) <= _OPEN_DIFF_LINES_MAX
    kept = fitting((_diff(diff, is_open) for diff in diffs), _DIFFS_BYTES_MAX)
    words = [f"the last {count(kept.left_out, 'diff')}"] if kept.left_out else []
    words += ["lines of long diffs"] if any('<p class="left">' in piece for piece in kept.pieces) else []
    return _Section("diffs", "Diffs", "".join(kept.pieces), " and ".join(words))


def _diff(diff: DiffView, is_open: bool) -> str:
    shown = diff.lines[: len(fitting((escape(line) for line in diff.lines), _DIFF_BYTES_MAX).pieces)]
    gone = diff.lines_left_out + len(diff.lines) - len(shown)
    left = f'<p class="left">At least {count(gone, "line")} left out.</p>' if gone else ""
    size = f'<span class="plus">+{diff.added}</span> <span class="minus">−{diff.removed}</span>'
    return (
        f'<details class="card"{" open" if is_open else ""}><summary><b><bdi>{escape(diff.owner)}</bdi></b> '
        f'<span class="soft">{count(diff.files_count, "file")}</span> {size}</summary>'
        f'<pre class="diff">{_coloured(shown)}</pre>{left}</details>'
    )


def _coloured(lines: Sequence[str]) -> str:
    """One element for lines of the same kind that follow each other."""
    found = []
    for kind, group in groupby(kinds_of(lines), key=lambda pair: pair[0]):
        alike = "\n".join(line for _, line in group)
        found.append(f'<span class="{kind}">{escape(alike)}</span>')
    return "".join(found)


def _heals(heals: Sequence[Heal]) -> _Section | None:
    if not heals:
        return None
    kept = fitting(map(_heal, heals), _HEALS_BYTES_MAX)
    words = f"the last {count(kept.left_out, 'heal')}" if kept.left_out else ""
    return _Section("heals", "Heals", "".join(kept.pieces), words)


def _heal(heal: Heal) -> str:
    return (
        f'<article class="card"><div class="tags"><h3><bdi>{escape(heal.step_id)}</bdi></h3>'
        f"<span>{escape(heal.at)}</span></div><p><bdi>{escape(heal.reason)}</bdi></p>"
        f'<div class="turn"><div><span class="small soft">before</span><pre>{escape(heal.before)}</pre></div>'
        f'<div><span class="small soft">after</span><pre>{escape(heal.after)}</pre></div></div></article>'
    )
