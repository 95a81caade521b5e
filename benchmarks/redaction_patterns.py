"""Undeclared secrets: the slowest flood for every pattern, what is found, and false positives."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.evaluators import SHARED, evaluated
from benchmarks.redaction.pattern_floods import BAR_MS, worst_first
from benchmarks.report import Figure, LeftOut, Row, scaled

CASES = scaled(3_000, 300)
SPEED_MB = scaled(32, 4)
FLOODS_SHOWN = 3


def run() -> list[Row]:
    return [*floods(), *judged()]


def floods() -> Iterator[Figure]:
    measured = worst_first()
    for cost_ms, name in measured[:FLOODS_SHOWN]:
        yield Figure(name, cost_ms, "ms/MB", bar=BAR_MS, at_most=True)
    yield Figure("floods measured, each the best of three", len(measured), "")


def judged() -> Iterator[Row]:
    found = evaluated(
        "evaluate_redaction.py",
        "redaction/adapter.py",
        *("--examples", SHARED / "data" / "secrets" / "examples.jsonl", "--logs", SHARED / "data" / "logs"),
        *("--cases", str(CASES), "--mb", str(SPEED_MB)),
    )
    if isinstance(found, LeftOut):
        yield found
        return
    lost = 1_000 * found["surroundings_lost"] / CASES
    yield Figure("unknown secrets found", found["pattern_recall"], "", bar=0.9)
    yield Figure(
        "ordinary lines masked of 10,000", found["log_lines_masked_per_10000"], "", bar=10, at_most=True
    )
    yield Figure("registered secrets leaked", found["known_secret_leaks"], "", bar=0, at_most=True)
    yield Figure("surroundings lost of 1,000", lost, "", bar=1, at_most=True)
    yield Figure("clean text in chunks of 64 KB", found["mb_per_s_64k_chunks"], "MB/s", bar=100)
    yield Figure("clean text in chunks of 4 KB", found["mb_per_s_4k_chunks"], "MB/s", bar=60)
    yield Figure("held back at most", found["held_back_bytes_max"] / 1_024, "KB", bar=128, at_most=True)
