"""`make bench`: every benchmark, or those that are named. Exit code 1 when a bar is missed."""

from __future__ import annotations

import importlib
import os
import platform
import sys

NAMES = (
    "decisions",
    "breaker",
    "ledger_commits",
    "durable_steps",
    "durable_steps_postgres",
    "keeper_cost",
    "start_up",
    "control_latency",
    "redaction_floods",
    "redaction_patterns",
    "signatures",
    "audit_export",
    "metrics_cost",
    "dispatch",
    "retention",
    "probe",
    "gateway",
    "browser",
    "locators",
    "healing_cost",
    "learning",
    "drift",
)


def main() -> int:
    wanted = sys.argv[1:] or list(NAMES)
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    missed = 0
    for name in wanted:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"\n{name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        for figure in module.run():
            print(figure.line(), flush=True)
            missed += not figure.met
    print(f"\n{missed} bars missed" if missed else "\nevery bar met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
