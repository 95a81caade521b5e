"""Writes docs/reference/policy.md from the policy itself; a test keeps the two equal."""

from __future__ import annotations

from pathlib import Path

import msgspec

from recoup.documents.policy_file import DESCRIPTIONS, RANGES
from recoup.model.policy import Policy

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "policy.md"
HEAD = """\
# The policy
How Recoup behaves: every limit, its default, its range. Point `RECOUP_POLICY` at a YAML or JSON file with
the keys that should differ; unknown keys are errors. `recoup policy show` prints what is in force, `recoup policy check
FILE` explains what is wrong. A plan's `defaults:` and a step's own keys beat the file. Every decision event names the
digest of the policy it was made under, and the ledger keeps the whole policy under that digest.

| key | default | range | meaning |
|---|---|---|---|
"""


def page() -> str:
    defaults = msgspec.to_builtins(Policy(), str_keys=True)
    rows = [
        f"| `{key}` | {shown(value)} | {span(key)} | {DESCRIPTIONS[key]} |\n"
        for key, value in defaults.items()
    ]
    return HEAD + "".join(rows)


def shown(value: object) -> str:
    if isinstance(value, list | tuple | dict):
        return ", ".join(f"`{item}`" for item in value) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"


def span(key: str) -> str:
    return f"{RANGES[key][0]:,} … {RANGES[key][1]:,}" if key in RANGES else ""


if __name__ == "__main__":
    TARGET.write_text(page())
