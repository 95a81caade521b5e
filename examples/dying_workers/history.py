"""What must hold afterwards: what is recorded, compared with what really happened."""

import csv
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

from examples.dying_workers.fleet import lines_of

Events = list[dict[str, Any]]
STEPS = ("extract", "clean", "load", "report", "send")
STARTED, LAUNCHED, FINISHED = (f"task.step.attempt.{end}" for end in ("started", "launched", "finished"))


@dataclass(frozen=True)
class History:
    """Of each run the day and the events; and the files and the table that its steps wrote to."""

    runs: dict[str, str]
    events: dict[str, Events]
    folder: Path
    database: str

    def each_step_finished_once_and_was_never_begun_again(self) -> bool:
        return all(finished_once(of_step(events, step)) for events in self.events.values() for step in STEPS)

    def the_journal_knows_nothing_that_the_ledger_does_not(self) -> bool:
        launched = {
            (run_id, of["payload"]["stepId"], str(of["payload"]["attempt"]))
            for run_id, events in self.events.items()
            for of in events
            if of["type"] == LAUNCHED
        }
        signed = Counter(tuple(line) for line in lines_of(self.folder / "journal"))
        return set(signed) <= launched and max(signed.values()) == 1

    def each_report_was_sent_once(self) -> bool:
        return sorted(line[0] for line in lines_of(self.folder / "outbox")) == sorted(self.runs)

    def the_warehouse_is_right(self) -> bool:
        """Computed again here, from the orders themselves."""
        found = self._asked("SELECT day::text, customer, sum(cents)::int FROM warehouse.sales GROUP BY 1, 2")
        return {(day, who): cents for day, who, cents in found} == sums_of(
            self.folder, set(self.runs.values())
        )

    def no_row_has_a_twin(self) -> bool:
        return not self._asked("SELECT 1 FROM warehouse.sales GROUP BY day, customer HAVING count(*) > 1")

    def nobody_wrote_after_the_next_attempt_had_begun(self) -> bool:
        rows = self._asked("SELECT key, attempt, at FROM warehouse.sales")
        return not any(
            attempt < begun and at > since
            for key, attempt, at in rows
            for begun, since in attempts_of(self.events[key.partition(".")[0]], "load")
        )

    def attempts_of_load(self, run_id: str) -> list[int]:
        """By which attempts the rows of a run were written."""
        found = self._asked(
            f"SELECT DISTINCT attempt FROM warehouse.sales WHERE key LIKE '{run_id}%' ORDER BY 1"
        )
        return [attempt for (attempt,) in found]

    def last_driver(self, run_id: str) -> str:
        named = [one["payload"].get("worker") for one in self.events[run_id]]
        return str([name for name in named if name][-1])

    def _asked(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database) as connection:
            return connection.execute(query.encode()).fetchall()


def of_step(events: Events, step: str) -> Events:
    return [one for one in events if one["payload"].get("stepId") == step]


def finished_once(events: Events) -> bool:
    types = [one["type"] for one in events]
    return types.count(FINISHED) == 1 and STARTED not in types[types.index(FINISHED) :]


def attempts_of(events: Events, step: str) -> list[tuple[int, datetime]]:
    return [
        (one["payload"]["attempt"], datetime.fromisoformat(one["at"]))
        for one in of_step(events, step)
        if one["type"] == STARTED
    ]


def sums_of(folder: Path, days: set[str]) -> dict[tuple[str, str], int]:
    sums: Counter[tuple[str, str]] = Counter()
    with (folder / "pipeline" / "orders.csv").open() as lines:
        for row in csv.DictReader(lines):
            if row["day"] in days and row["cents"].isdigit():
                sums[row["day"], row["customer"]] += int(row["cents"])
    return dict(sums)
