"""What was healed, or was not: for the terminal, and as a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final, Literal

import msgspec

from recoup.model.redacted import Redacted

HEALS_MAX: Final = 10_000
"""Of a session, in its summary and in its report. Further ones are warned of where they happen, and nowhere else."""


Outcome = Literal["healed", "reported", "abstained"]


class Heal(msgspec.Struct, frozen=True, kw_only=True):
    """One action whose locator did not find what it was recorded to find."""

    outcome: Outcome
    file: str
    line: int
    test: str
    action: str
    locator: str
    why: str
    """What was wrong with the locator."""
    taken: str = ""
    """In words; of a reported heal, what would have been taken."""
    confidence: float = 0.0
    margin: float = 0.0
    reason: str = ""
    """Why nothing was taken, or why it failed all the same."""
    verified: bool = False
    """The test passed afterwards."""
    learned: bool = False
    """The folder holds the element as it is now."""

    @property
    def words(self) -> str:
        sure = f"{self.confidence:.0%} sure"
        if self.outcome == "healed":
            proof = "verified" if self.verified else "unverified: the test did not pass afterwards"
            return f"recoup healed {self.action}: took {self.taken} for {self.locator}, {sure}, {proof}"
        if self.outcome == "reported":
            return f"recoup would have healed {self.action}: {self.taken} for {self.locator}, {sure} ({self.why})"
        return f"recoup took nothing for {self.locator} ({self.action}): {self.reason}"


def summary(heals: Sequence[Heal]) -> str:
    healed = [heal for heal in heals if heal.outcome == "healed"]
    parts = [
        f"{len(healed)} healed",
        f"{sum(heal.verified for heal in healed)} of them verified",
        f"{sum(heal.learned for heal in healed)} learned",
        f"{sum(heal.outcome == 'reported' for heal in heals)} only reported",
        f"{sum(heal.outcome == 'abstained' for heal in heals)} not found again",
    ]
    return ", ".join(parts)


def in_order(heals: Sequence[Heal]) -> list[Heal]:
    """Alike however many workers there were."""
    return sorted(heals, key=lambda heal: (heal.file, heal.line, heal.test, heal.action, heal.locator))


class Written(msgspec.Struct, frozen=True):
    """The report as it is stored."""

    mode: str
    summary: str
    heals: tuple[Heal, ...]


def write_report(path: Path, sealed: Redacted) -> None:
    """HTML where the name says so, JSON otherwise."""
    report = msgspec.json.decode(sealed.data, type=Written)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".html", ".htm"):
        path.write_text(_html(report), "utf-8")
    else:
        text = json.dumps(msgspec.to_builtins(report), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", "utf-8")


_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Healed actions</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; vertical-align: top; padding: .4rem .8rem; border-bottom: 1px solid #8886 }}
td {{ overflow-wrap: anywhere }}
</style></head><body><h1>Healed actions</h1><p>{summary} (--heal={mode})</p>
<table><thead><tr><th>Where</th><th>Test</th><th>Outcome</th><th>Action and locator</th>
<th>Taken</th><th>Sure</th><th>Why</th></tr></thead>
<tbody>{rows}</tbody></table></body></html>
"""


def _html(report: Written) -> str:
    rows = "".join(map(_row, report.heals))
    return _PAGE.format(summary=escape(report.summary), mode=escape(report.mode), rows=rows)


def _row(heal: Heal) -> str:
    proof = ("verified" if heal.verified else "unverified") if heal.outcome == "healed" else ""
    cells = (
        f"{heal.file}:{heal.line}",
        heal.test,
        " ".join(filter(None, (heal.outcome, proof, "learned" if heal.learned else ""))),
        f"{heal.action} {heal.locator}",
        heal.taken,
        f"{heal.confidence:.0%}" if heal.taken else "",
        "; ".join(filter(None, (heal.why, heal.reason))),
    )
    return "<tr>" + "".join(f"<td><bdi>{escape(cell)}</bdi></td>" for cell in cells) + "</tr>\n"
