"""Writes docs/reference/policy.md from the policy itself; a test keeps the two equal."""

from __future__ import annotations

from pathlib import Path

import msgspec

from recoup.model.policy import POLICY_KEYS, Policy
from recoup.model.policy_key import PolicyKey

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "policy.md"
HEAD = """\
# The policy
How Recoup behaves: every limit, its default, its range. Point `RECOUP_POLICY` at a YAML or JSON file with
the keys that should differ; unknown keys are errors. `recoup policy show` prints what is in force (`--explain`:
with the meaning of each key), `recoup policy check FILE` explains what is wrong. A plan's `defaults:` and a
step's own keys beat the file. Every decision event names the digest of the policy it was made under, and the
ledger keeps the whole policy under that digest.

| key | default | range | meaning |
|---|---|---|---|
"""


def page() -> str:
    defaults = msgspec.to_builtins(Policy(), str_keys=True)
    rows = [
        f"| `{key}` | {shown(value)} | {span(POLICY_KEYS[key])} | {POLICY_KEYS[key].description} |\n"
        for key, value in defaults.items()
    ]
    return HEAD + "".join(rows)


def shown(value: object) -> str:
    if isinstance(value, list | tuple | dict):
        return ", ".join(f"`{item}`" for item in value) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"


def span(key: PolicyKey) -> str:
    return "" if key.range is None else f"{key.range[0]:,} … {key.range[1]:,}"


if __name__ == "__main__":
    TARGET.write_text(page())
