"""The benchmarks page, built from the stored results. Values in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.machine import BUSY_SHARE, Machine
from benchmarks.peers.environments import KEEPS
from benchmarks.report import Figure, Peer, bar_words, number, span
from benchmarks.results import Results, Section

HEAD = """# Benchmarks
`make bench` writes this page from `docs/benchmarks.json`; do not edit it. `python -m benchmarks NAME` measures one
table again and updates the page.

- Figures are medians. *Spread* is the lowest and highest of the repetitions.
- *Bar*: the limit that Recoup must meet on an idle machine.
- *Ahead*: the ratio to the peer; below 1 Recoup loses.
- *Pace*: how long the same small piece of work took right before and after a benchmark. A higher pace means that other
  guests slowed the machine down, and with it all figures in seconds, but not the ratios.
"""


class Loss(NamedTuple):
    section: Section
    figure: Figure
    peer: Peer


def page(results: Results, names: Sequence[str]) -> str:
    """Sections in the order of the names."""
    sections = [results.sections[name] for name in names if name in results.sections]
    parts = [HEAD, *_where(sections), _summary(sections, names), where_we_lose(sections)]
    parts += [_section(section, _latest(sections)) for section in sections]
    return "\n".join(parts)


def _latest(sections: Sequence[Section]) -> Section:
    return max(sections, key=lambda section: section.measured_at)


def _where(sections: Sequence[Section]) -> Iterator[str]:
    """Of the latest; a section that differs says so itself."""
    if sections:
        latest = _latest(sections)
        rows = [(name, version, KEEPS.get(name, "")) for name, version in latest.versions.items()]
        yield f"## The machine\n{_machine_words(latest.machine)}\n"
        yield "## Versions\n" + _table(("", "version", "durable after a power loss"), rows)


def _machine_words(machine: Machine) -> str:
    return (
        f"{machine.cores} cores ({machine.processor}), {machine.memory_gb:g} GB of memory, {machine.disk}, "
        f"{machine.kernel}, Python {machine.python}."
    )


# In short


def _summary(sections: Sequence[Section], names: Sequence[str]) -> str:
    known = {section.name: section for section in sections}
    rows = [_summary_row(name, known.get(name)) for name in names]
    took_s = sum(section.took_s for section in sections)
    end = f"\nTotal time: {took_s / 60:.0f} minutes.\n" if sections else ""
    return "## Summary\n" + _table(("benchmark", "bars met", "took", "pace"), rows) + end


def _summary_row(name: str, section: Section | None) -> tuple[str, str, str, str]:
    if section is None:
        return name, "not run yet", "", ""
    link, took = f"[{name}](#{name})", f"{section.took_s:.0f} s"
    if section.failed or not section.figures:
        return link, f"not run: {_reason(section)}", took, ""
    bars = [met for figure in section.figures for met in _verdicts(figure)]
    pace = " and ".join(f"{ms:.1f}" for ms in section.pace_ms)
    return link, f"{sum(bars)} of {len(bars)}" if bars else "no bars", took, f"{pace} ms" if pace else ""


def _reason(section: Section) -> str:
    return section.failed or "; ".join(left.why for left in section.left_out) or "no result"


def _verdicts(figure: Figure) -> list[bool]:
    own = [] if figure.bar is None else [figure.bar_met]
    return own + [peer.met for peer in figure.peers if peer.floor is not None]


# Where we lose


def where_we_lose(sections: Sequence[Section]) -> str:
    """Every figure below a peer or its bar; selected by the numbers alone."""
    if not any(section.figures for section in sections):
        return "## Where we lose\nUnknown: nothing was measured.\n"
    behind = [loss for loss in _all(sections) if loss.peer.ratio < 1]
    others = sorted((loss for loss in behind if not loss.peer.bare), key=lambda loss: loss.peer.ratio)
    price = sorted((loss for loss in behind if loss.peer.bare), key=lambda loss: loss.peer.ratio)
    parts = ["## Where we lose"]
    parts.append(
        _losses("Behind another system", others) or "Recoup is not behind another system in any benchmark.\n"
    )
    parts.append(_missed(sections) or "No bar was missed.\n")
    parts.append(
        _losses("Behind the bare work, which guarantees nothing: the price of Recoup's guarantees", price)
    )
    return "\n".join(part for part in parts if part)


def _all(sections: Sequence[Section]) -> Iterator[Loss]:
    for section in sections:
        for figure in section.figures:
            yield from (Loss(section, figure, peer) for peer in figure.peers)


def _losses(title: str, losses: Sequence[Loss]) -> str:
    if not losses:
        return ""
    rows = [
        (
            f"[{section.name}](#{section.name}): {figure.name}",
            _value(figure.ours, figure.unit),
            peer.name,
            _value(peer.value, figure.unit),
            number(peer.ratio),
            peer.keeps,
        )
        for section, figure, peer in losses
    ]
    return f"{title}:\n\n" + _table(("", "Recoup", "peer", "", "ahead", "durability of the peer"), rows)


def _missed(sections: Sequence[Section]) -> str:
    rows = [
        row for section in sections for figure in section.figures for row in _missed_rows(section, figure)
    ]
    return "Bars missed:\n\n" + _table(("", "measured", "bar"), rows) if rows else ""


def _missed_rows(section: Section, figure: Figure) -> Iterator[tuple[str, str, str]]:
    name = f"[{section.name}](#{section.name}): {figure.name}"
    if not figure.bar_met:
        yield name, _value(figure.ours, figure.unit), bar_words(figure)
    for peer in figure.peers:
        if not peer.met:
            yield f"{name}, over {peer.name}", number(peer.ratio), f"at least {peer.floor:g}"


# One benchmark


def _section(section: Section, latest: Section) -> str:
    parts = [f"## {section.name}", f"{section.about.strip()}\n", _how(section, latest)]
    if section.failed:
        parts.append(f"Not run: {section.failed}\n")
    elif section.figures:
        parts.append(_figures(section.figures))
    parts += [f"Not run: {left.what}: {left.why}\n" for left in section.left_out]
    return "\n".join(parts)


def _how(section: Section, latest: Section) -> str:
    told = f"`{section.command}`, {section.measured_at[:16].replace('T', ' ')} UTC, {section.took_s:.0f} s."
    if section.machine != latest.machine:
        told += f" On another machine: {_machine_words(section.machine)}"
    ours = section.versions.get("Recoup", "")
    if ours != latest.versions.get("Recoup", ""):
        told += f" With Recoup {ours}."
    if section.busy_cores > BUSY_SHARE * section.machine.cores:
        told += (
            f" **The machine was busy ({section.busy_cores:g} cores in use): do not trust these figures.**"
        )
    return told + "\n"


def _figures(figures: Sequence[Figure]) -> str:
    if any(figure.peers for figure in figures):
        rows = [row for figure in figures for row in _with_peers(figure)]
        return _table(("", "who", "value", "spread", "ahead", "bar", "met", "durability"), rows) + _notes(
            figures
        )
    rows = [(figure.name, *_own(figure)) for figure in figures]
    return _table(("", "value", "spread", "bar", "met"), rows) + _notes(figures)


def _own(figure: Figure) -> tuple[str, str, str, str]:
    words = bar_words(figure)
    return (
        _value(figure.ours, figure.unit),
        span(figure.spread),
        words,
        _yes(figure.bar_met) if words else "",
    )


def _with_peers(figure: Figure) -> Iterator[tuple[str, ...]]:
    value, spread, bar, met = _own(figure)
    yield figure.name, "Recoup", value, spread, "", bar, met, figure.keeps
    for peer in figure.peers:
        floor = f"at least {peer.floor:g}" if peer.floor is not None else ""
        ahead = f"{number(peer.ratio)}{f' ({span(peer.ratio_spread)})' if peer.ratio_spread else ''}"
        value, met = _value(peer.value, figure.unit), _yes(peer.met) if floor else ""
        yield "", peer.name, value, span(peer.spread), ahead, floor, met, peer.keeps


def _notes(figures: Sequence[Figure]) -> str:
    return "".join(f"\n{figure.name}: {figure.note}\n" for figure in figures if figure.note)


def _value(value: float, unit: str) -> str:
    return f"{number(value)} {unit}".strip()


def _yes(met: bool) -> str:
    return "yes" if met else "**no**"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    return "".join(f"| {' | '.join(_cell(cell) for cell in row)} |\n" for row in (head, rule, *rows))


def _cell(text: str) -> str:
    return text.strip().replace("|", "\\|").replace("\n", " ")
