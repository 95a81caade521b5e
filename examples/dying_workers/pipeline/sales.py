"""The Python steps of the pipeline: ordinary functions. What they return are their outputs."""

import csv
import os
import time
from collections import Counter
from pathlib import Path

import recoup

BATCH = 3
INSERT = """
    INSERT INTO warehouse.sales (key, day, customer, cents, attempt) VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT (key) DO NOTHING
"""
TOTAL = "SELECT coalesce(sum(cents), 0)::int FROM warehouse.sales WHERE day = %s"


def clean(rows: int, source: Path, target: Path) -> dict[str, int]:
    """Leave out what has no amount."""
    sign_the_journal()
    with source.open() as lines:
        found = list(csv.DictReader(lines))
    if len(found) != rows:
        raise recoup.Deterministic(f"{len(found)} rows came, {rows} were sent")
    good = [row for row in found if row["cents"].isdigit()]
    with target.open("w", newline="") as lines:
        made = csv.DictWriter(lines, ["order", "customer", "cents"], lineterminator="\n")
        made.writeheader()
        made.writerows(good)
    return {"kept": len(good), "dropped": len(found) - len(good)}


def load(day: str, source: Path, pace: float) -> dict[str, int]:
    """A row for each customer, committed one by one. Another attempt has the same keys: it adds what is missing."""
    import psycopg

    sign_the_journal()
    here, sums = recoup.context(), sums_of(source)
    with psycopg.connect(os.environ["WAREHOUSE"], autocommit=True) as warehouse:
        for number, (customer, cents) in enumerate(sorted(sums.items())):
            recoup.progress(f"loading {customer}", number, len(sums))
            wait_at_the_gate(number)
            key = f"{here.idempotency_key}/{customer}"
            warehouse.execute(INSERT, (key, day, customer, cents, here.attempt))
            time.sleep(pace)
        row = warehouse.execute(TOTAL, (day,)).fetchone()
    print(f"loaded {len(sums)} customers")
    return {"customers": len(sums), "cents": row[0] if row else 0}


def sums_of(source: Path) -> Counter[str]:
    sums: Counter[str] = Counter()
    with source.open() as lines:
        for row in csv.DictReader(lines):
            sums[row["customer"]] += int(row["cents"])
    return sums


def sign_the_journal() -> None:
    """As `journal.sh` does."""
    here = recoup.context()
    with Path(os.environ["JOURNAL"]).open("a") as journal:
        journal.write(f"{here.run_id} {here.step_id} {here.attempt}\n")


def wait_at_the_gate(number: int) -> None:
    """As `gate.sh` does; before the second batch."""
    while number == BATCH and Path(os.environ["GATES"], "load").exists():
        time.sleep(0.05)
