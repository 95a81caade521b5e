"""SQL for lists of runs, made from a filter, in the words of both databases.

A page is read from the index that knows most of what is meant; each status is a range of its own in that index, and the
ranges are merged. What the index does not know is looked for among the first LOOKED_THROUGH_MAX runs that it names. So
the work for a page has a limit, whatever there is in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from recoup.kernel.listing import COLUMNS, first_place, folded, values_of
from recoup.ledger.stored_rows import place_of, run_row_of
from recoup.model.run import RunStatus
from recoup.model.storage import LOOKED_THROUGH_MAX, NEWEST, OLDEST_US, Place, RunFilter, RunPage

_EVERY_STATUS: Final = tuple(status.value for status in RunStatus)
_INDICES: Final = {
    (): "runs_by_time",
    ("status",): "runs_by_status",
    ("workflow",): "runs_by_workflow",
    ("workflow", "status"): "runs_by_both",
    ("worker", "status"): "runs_by_worker",
    ("failure_class", "status"): "runs_by_class",
}
"""By the columns that must be equal; then come the time and the id."""
_FEWEST_FIRST: Final = ("failure_class", "worker", "workflow")
"""Columns with which an index begins: first the one that leaves the fewest runs, as far as can be said unseen."""
_NEWEST_FIRST: Final = "submitted_at_us DESC, run_id DESC"
_SUBMITTED: Final = 4
"""The column of a listed row that says when the run was submitted."""
_SEARCHED: Final = ("run_id", "workflow", "reason")


class Dialect(msgspec.Struct, frozen=True):
    """How a database wants to be asked."""

    value: str
    """A value by its name."""
    equal: str
    """A column and a value: so that the index is taken that is meant, whatever the database thinks of the table."""
    index: str
    """Which index is to be taken, behind the table's name; "": the database finds it by the order."""
    holds: str
    """A column in which a text stands."""
    merges: bool
    """It merges ranges of an index as they come. Otherwise as many of each are read as are wanted of all."""
    looked_up: str
    """Behind such ids and times: the row of each."""
    whole: str
    """Around a question for the ids and times of runs: their rows and where their streams end."""
    newest: Any = NEWEST[0]
    """Lies behind every time that may be stored."""


class Listing(msgspec.Struct, frozen=True):
    """One question, in one dialect."""

    dialect: Dialect
    wanted: RunFilter

    @property
    def searches(self) -> bool:
        """Not all that is meant is known to the index."""
        return bool(self._beside())

    @property
    def index(self) -> str:
        """The one that names the runs."""
        return _INDICES[self._known()]

    def page(self, limit: int, before: Place | None) -> tuple[str, dict[str, Any]]:
        """One more than the page holds, as rows."""
        sql = f"SELECT named.run_id, named.submitted_at_us FROM {self._found()} LIMIT {self._value('limit')}"
        return self.dialect.whole.format(sql), self._values(limit + 1, before)

    def count(self, cap: int) -> tuple[str, dict[str, Any]]:
        """One more than the cap at most."""
        sql = f"SELECT count(*) FROM (SELECT 1 AS one FROM {self._found()} LIMIT {self._value('limit')}) AS counted"
        return sql, self._values(cap + 1, None)

    def edge(self, before: Place | None = None) -> tuple[str, dict[str, Any]]:
        """The last run that was looked through; no row when all that there are were."""
        sql = f"SELECT submitted_at_us, run_id FROM {self._ordered()} LIMIT 1 OFFSET {LOOKED_THROUGH_MAX - 1}"
        return sql, self._values(0, before)

    def _found(self) -> str:
        """Still newest first: neither database has a reason to change the order in which it looks them up."""
        where = " AND ".join(self._beside())
        return f"{self._ordered()} {self.dialect.looked_up} WHERE {where}" if where else self._ordered()

    def _ordered(self) -> str:
        """The runs that the index names, newest first, no more than are needed."""
        arms = [self._arm(number) for number in range(len(self._statuses()) or 1)]
        some = f"ORDER BY {_NEWEST_FIRST} LIMIT {self._value('rows')}"
        if self.dialect.merges:
            return f"({' UNION ALL '.join(arms)} {some}) AS named"
        order = "".join(f"{column} DESC, " for column in self._known())
        arms = [f"({arm} {some.replace(_NEWEST_FIRST, order + _NEWEST_FIRST)})" for arm in arms]
        return f"({arms[0]}) AS named" if len(arms) == 1 else f"({' UNION ALL '.join(arms)} {some}) AS named"

    def _arm(self, number: int) -> str:
        known = self._known()
        names = [f"{column}_{number if column == 'status' else 0}" for column in known]
        equal = [
            self.dialect.equal.format(column=column, value=self._value(name))
            for column, name in zip(known, names, strict=True)
        ]
        before = f"(submitted_at_us, run_id) < ({self._value('before_us')}, {self._value('before')})"
        where = " AND ".join([*equal, before, f"submitted_at_us >= {self._value('since')}"])
        source = "runs" + self.dialect.index.format(self.index)
        return f"SELECT run_id, submitted_at_us FROM {source} WHERE {where}"

    def _said(self) -> dict[str, tuple[str, ...]]:
        """The values of the columns that are asked for."""
        values = {column: values_of(self.wanted, name) for name, column in COLUMNS.items()}
        return {column: tuple(dict.fromkeys(said)) for column, said in values.items() if said}

    def _first(self) -> str | None:
        said = self._said()
        return next((column for column in _FEWEST_FIRST if len(said.get(column, ())) == 1), None)

    def _known(self) -> tuple[str, ...]:
        """The columns of the index."""
        first, status = self._first(), ("status",) if self._statuses() else ()
        return status if first is None else (first, *status)

    def _statuses(self) -> Sequence[str]:
        first = self._first()
        is_in_index_alone = first is None or (first,) in _INDICES
        return self._said().get("status", () if is_in_index_alone else _EVERY_STATUS)

    def _beside(self) -> list[str]:
        """What the index does not know."""
        known = (self._first(), "status")
        found = [
            self._is_one_of(column, len(values))
            for column, values in self._said().items()
            if column not in known
        ]
        if self.wanted.text:
            columns = (f"looked.{column}" for column in _SEARCHED)
            holding = (self.dialect.holds.format(column=one, value=self._value("text")) for one in columns)
            found.append(f"({' OR '.join(holding)})")
        return found

    def _is_one_of(self, column: str, count: int) -> str:
        equal = (f"looked.{column} = {self._value(f'{column}_{number}')}" for number in range(count))
        return f"({' OR '.join(equal)})"

    def _value(self, name: str) -> str:
        return self.dialect.value.format(name)

    def _values(self, limit: int, before: Place | None) -> dict[str, Any]:
        before_us, before_id = first_place(self.wanted, before)
        if before is None and before_us == NEWEST[0]:
            before_us = self.dialect.newest
        said = {**self._said(), "status": self._statuses()}
        values = {
            f"{column}_{number}": one for column, many in said.items() for number, one in enumerate(many)
        }
        rows = LOOKED_THROUGH_MAX if self.searches else limit
        place = {"before_us": before_us, "before": before_id, "since": self.wanted.since_us or OLDEST_US}
        return {**values, **place, "rows": rows, "limit": limit, "text": folded(self.wanted.text)}


def page_of(found: Sequence[Sequence[Any]], limit: int, edge: Sequence[Any] | None) -> RunPage:
    """From the stored rows, one more than is wanted, and from how far was looked."""
    rows = tuple(run_row_of(row) for row in found[:limit])
    if len(found) > limit:
        last = found[limit - 1]
        return RunPage(rows, place_of(last[_SUBMITTED], last[0]))
    return RunPage(rows, None if edge is None else place_of(*edge))
