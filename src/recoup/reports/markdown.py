"""A report as GitHub-flavoured Markdown for a pull request. Words of others stand in code spans, code blocks or escaped
HTML, where nothing is a link, a mention, a picture or markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from recoup.kernel.advice import Advice
from recoup.kernel.description import Tone
from recoup.reports.room import fitting
from recoup.reports.spoken import count
from recoup.reports.view import DiffView, Entry, FailureGroup, Heal, Lane, Prefix, Report

PAGE_CHARS_MAX = 60_000
_HEAD_BYTES_MAX = 6_000
_FAILURES_BYTES_MAX = 18_000
_DECISIONS_BYTES_MAX = 10_000
_STEPS_BYTES_MAX = 8_000
_DIFFS_BYTES_MAX = 12_000
_HEALS_BYTES_MAX = 2_000
_CONTROLS_BYTES_MAX = 2_000
_MODES_BYTES_MAX = 1_000
"""In bytes, of which there are never fewer than characters; together less than PAGE_CHARS_MAX."""
_BLOCK_BYTES_MAX = 4_000
_WORDS_CHARS_MAX = 300
_ROW_CHARS_MAX = 160
_SIGNS = {Tone.GOOD: "✅", Tone.BAD: "❌", Tone.WARN: "⚠️", Tone.PLAIN: "▫️"}
_FACTS = ("run", "mode of the workflow", "failure", "attempts", "retries", "hard resets", "deliveries")
_TICKS = re.compile("`+")


def markdown_page(report: Report, version: str) -> str:
    page = "\n\n".join(filter(None, (_head(report), *_details(report), _foot(report, version)))) + "\n"
    assert len(page) < PAGE_CHARS_MAX, "the parts of a report add up to more than a comment may have"
    return page


def _details(report: Report) -> Iterable[str]:
    yield _failures(report.failures)
    yield _steps(report.prefix, report.timeline.lanes)
    yield _entries("Decisions", report.decisions, _DECISIONS_BYTES_MAX)
    yield _diffs(report.diffs)
    yield _heals(report.heals)
    yield _entries("Controls and operators' changes", report.controls, _CONTROLS_BYTES_MAX)
    yield _entries("Mode of the workflow", report.modes, _MODES_BYTES_MAX)


def _head(report: Report) -> str:
    facts = [f"{fact.label} {code(fact.value)}" for fact in report.facts if fact.label in _FACTS]
    time = [f"{fact.value}" for fact in report.facts if fact.label == "from first to last event"]
    good = f"{report.prefix.good} of {count(report.prefix.total, 'step')} known to be good"
    pieces = [
        f"### {_SIGNS[report.tone]} {code(report.workflow)} {report.status}",
        code(report.reason) if report.reason else "",
        f"{good}, {', '.join(time)}",
        _frontier(report.prefix),
        "\n".join(f"- **Next:** {_advice(one)}" for one in report.advice),
        " · ".join(facts),
    ]
    return "\n\n".join(fitting(filter(None, pieces), _HEAD_BYTES_MAX).pieces)


def _advice(one: Advice) -> str:
    return f"{code(one.text)}: {code(one.command)}" if one.command else code(one.text)


def _frontier(prefix: Prefix) -> str:
    return f"**Frontier:** {code(prefix.frontier)}: {code(prefix.frontier_reason)}" if prefix.frontier else ""


def _foot(report: Report, version: str) -> str:
    missing = f" Left out: {code('; '.join(report.left_out))}." if report.left_out else ""
    return f"<sub>recoup {escape(version)}, as of {escape(report.as_of)}.</sub>{missing}"


def _failures(groups: Sequence[FailureGroup]) -> str:
    """The last ones, for it is they that ended the run."""
    kept = fitting((_failure(group) for group in reversed(groups)), _FAILURES_BYTES_MAX)
    more = f"_{count(kept.left_out, 'failure')} before these left out._" if kept.left_out else ""
    return _titled("Failures", [more, *reversed(kept.pieces)]) if groups else ""


def _failure(group: FailureGroup) -> str:
    head = f"<b>{_html(group.step_id, 80)}</b> {_html(group.cls, 40)}: {_html(group.summary, _ROW_CHARS_MAX)}"
    tries = [
        f"- attempt {one.attempt} at {one.at}{f' → {one.strategy}' if one.strategy else ''}: {code(one.reason)}"
        for one in group.attempts[-4:]
    ]
    more = group.attempts_count - len(tries)
    before = [f"- {count(more, 'attempt')} before"] if more > 0 else []
    facts = f"{code(group.kind)}, signature {code(group.signature)}"
    block = _block(group.excerpt, "text") if group.excerpt else ""
    return _folded(head, "\n\n".join(filter(None, (facts, "\n".join((*before, *tries)), block))))


def _steps(prefix: Prefix, lanes: Sequence[Lane]) -> str:
    rows = [
        f"| {row.mark} | {row.index} | {_cell(row.step_id)} | {row.verdict} | {_cell(lane.words)} "
        f"| {_cell(row.reason)} |"
        for row, lane in zip(prefix.steps, lanes, strict=True)
    ]
    telling = [row for row, lane in zip(rows, lanes, strict=True) if not lane.quiet]
    shown = rows if sum(map(len, rows)) < _STEPS_BYTES_MAX // 2 else telling
    kept = fitting((f"{row}\n" for row in shown), _STEPS_BYTES_MAX - 500)
    left_out = len(rows) - len(kept.pieces)
    note = (
        f"\n_{count(left_out, 'step')} left out: first those in which nothing went wrong._"
        if left_out
        else ""
    )
    table = "| | # | step | verdict | time | why not good |\n|---|---|---|---|---|---|\n" + "".join(
        kept.pieces
    )
    return _folded(f"Steps ({prefix.good} of {prefix.total} good)", table + note)


def _entries(title: str, entries: Sequence[Entry], limit_bytes: int) -> str:
    if not entries:
        return ""
    kept = fitting((_entry(entry) for entry in reversed(entries)), limit_bytes - 200)
    more = f"- _{count(kept.left_out, 'line')} before these left out_\n" if kept.left_out else ""
    return _folded(f"{escape(title)} ({len(entries)})", more + "".join(reversed(kept.pieces)))


def _entry(entry: Entry) -> str:
    about = f" {code(entry.about)}" if entry.about else ""
    reason = f": {code(entry.reason)}" if entry.reason else ""
    return f"- {entry.at} **{_letters(entry.what)}**{about}{reason}\n"


def _diffs(diffs: Sequence[DiffView]) -> str:
    kept = fitting(map(_diff, diffs), _DIFFS_BYTES_MAX - 200)
    more = f"_{count(kept.left_out, 'diff')} left out._" if kept.left_out else ""
    return _titled("Diffs", [*kept.pieces, more]) if diffs else ""


def _diff(diff: DiffView) -> str:
    head = f"<b>{_html(diff.owner, 80)}</b> {count(diff.files_count, 'file')} +{diff.added} −{diff.removed}"
    return _folded(head, _block(diff.lines, "diff", diff.lines_left_out))


def _heals(heals: Sequence[Heal]) -> str:
    rows = (f"- {heal.at} {code(heal.step_id)}: {code(heal.before)} → {code(heal.after)}\n" for heal in heals)
    kept = fitting(rows, _HEALS_BYTES_MAX - 200)
    more = f"- _{count(kept.left_out, 'heal')} left out_" if kept.left_out else ""
    return _folded(f"Heals ({len(heals)})", "".join(kept.pieces) + more) if heals else ""


def _titled(title: str, pieces: Iterable[str]) -> str:
    return "\n\n".join((f"#### {title}", *filter(None, pieces)))


def _folded(summary: str, body: str) -> str:
    """`summary` is HTML; the blank lines make Markdown of what follows."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def code(text: str, chars_max: int = _WORDS_CHARS_MAX) -> str:
    """A code span that holds any text: its fence is longer than every run of backticks in it."""
    text = " ".join(text.split())
    if not text:
        return ""
    cut = text if len(text) <= chars_max else text[:chars_max] + "…"
    fence = "`" * (1 + max((len(run) for run in _TICKS.findall(cut)), default=0))
    pad = " " if len(fence) > 1 or cut.startswith("`") or cut.endswith("`") else ""
    return f"{fence}{pad}{cut}{pad}{fence}"


def _cell(text: str) -> str:
    """In a table a bar ends the cell, in code too, and a backslash before it may or may not help."""
    return code(text.replace("|", "¦").replace("\\", "⧵"), _ROW_CHARS_MAX)


def _html(text: str, chars_max: int) -> str:
    cut = text if len(text) <= chars_max else text[:chars_max] + "…"
    return f"<code>{escape(' '.join(cut.split()))}</code>"


def _letters(text: str) -> str:
    return re.sub(r"[^\w ()-]", " ", text).replace("_", " ")


def _block(lines: Sequence[str], language: str, left_out: int = 0) -> str:
    kept = fitting((f"{line}\n" for line in lines), _BLOCK_BYTES_MAX)
    if language == "text" and kept.left_out:  # the end of what was printed says more than its beginning
        end = fitting((f"{line}\n" for line in reversed(lines)), _BLOCK_BYTES_MAX)
        pieces, gone = tuple(reversed(end.pieces)), end.left_out
    else:
        pieces, gone = kept.pieces, kept.left_out + left_out
    body = "".join(pieces)
    fence = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(body)), default=0))
    more = f"\n\n_At least {count(gone, 'line')} left out._" if gone else ""
    return f"{fence}{language}\n{body}{fence}{more}"
