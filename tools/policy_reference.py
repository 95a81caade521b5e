"""Writes docs/reference/policy.md from the policy itself; a test keeps them equal."""

from __future__ import annotations

from pathlib import Path

import msgspec

from recoup.model.policy import POLICY_KEYS, Policy
from recoup.model.policy_key import PolicyKey

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "policy.md"
HEAD = """\
# Policy reference
The policy says how Recoup behaves: every limit with its default and range.

```bash
RECOUP_POLICY=policy.yaml recoup run plan.yaml   # a YAML or JSON file with the keys to change
recoup policy show --explain                     # the values in force, and what each key means
recoup policy check policy.yaml                  # what is wrong with a file
```

A plan's `defaults:` override the file, and a step's own keys override both. Unknown keys are errors. Every decision
event carries the digest of the policy that applied; the ledger keeps the whole policy under that digest.
"""
TABLE = """
| key | default | range | meaning |
|---|---|---|---|
"""


def page() -> str:
    return HEAD + "".join(rows_of(key, value) for key, value in defaults().items())


def defaults() -> dict[str, object]:
    values: dict[str, object] = msgspec.to_builtins(Policy(), str_keys=True)
    return values


def rows_of(name: str, value: object) -> str:
    """One row; for the first key of a group also its heading and the head of its table."""
    key = POLICY_KEYS[name]
    head = f"\n## {key.opens}\n{TABLE.lstrip()}" if key.opens else ""
    return f"{head}| `{name}` | {shown(value)} | {span(key)} | {key.description} |\n"


def shown(value: object) -> str:
    if isinstance(value, list | tuple | dict):
        return ", ".join(f"`{item}`" for item in value) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"


def span(key: PolicyKey) -> str:
    return "" if key.range is None else f"{key.range[0]:,} … {key.range[1]:,}"


if __name__ == "__main__":
    TARGET.write_text(page())
