"""Which runs somebody wants to see: read from an address, written into one, said as a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from recoup.gateway.problems import Refused
from recoup.model.failure import FailureClass
from recoup.model.run import RunStatus
from recoup.model.storage import RunFilter

STATUSES: Final = tuple(status.value for status in RunStatus)
CLASSES: Final = tuple(cls.value for cls in FailureClass)
AGES: Final = {"1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days"}
_AGE: Final = re.compile(r"([0-9]{1,4})([smhd])")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_TEXT_CHARS_MAX: Final = 200


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """All that is said holds; nothing said: every run. Times as somebody wrote them: `24h`, or `2026-11-16T08:00`."""

    workflow: str = ""
    statuses: tuple[str, ...] = ()
    failure_class: str = ""
    worker: str = ""
    since: str = ""
    until: str = ""
    text: str = ""

    @property
    def is_all(self) -> bool:
        return self == Wanted()

    def query(self, **changes: Any) -> str:
        """The part of an address behind `?`."""
        said = msgspec.structs.replace(self, **changes)
        pairs = [("status", status) for status in said.statuses]
        pairs += [
            (name, value)
            for name, value in (
                ("workflow", said.workflow), ("class", said.failure_class), ("worker", said.worker),
                ("since", said.since), ("until", said.until), ("text", said.text),
            )
            if value
        ]  # fmt: skip
        return urlencode(pairs)

    def address(self, **changes: Any) -> str:
        query = self.query(**changes)
        return f"/runs?{query}" if query else "/runs"

    def toggled(self, status: str) -> str:
        """The address with this status, or without it."""
        rest = tuple(one for one in self.statuses if one != status)
        return self.address(statuses=rest if status in self.statuses else (*rest, status))

    def command(self) -> list[str]:
        """As far as the command knows these filters: of times it takes an age alone."""
        words = ["recoup", "runs"]
        for status in self.statuses:
            words += ["--status", status]
        for name, value in (
            ("--workflow", self.workflow), ("--class", self.failure_class), ("--worker", self.worker),
            ("--since", self.since if _AGE.fullmatch(self.since) else ""), ("--text", self.text),
        ):  # fmt: skip
            words += [name, value] if value else []
        return words


def wanted_of(said: Mapping[str, str], statuses: list[str]) -> Wanted:
    """Raises Refused for a status or a time that is none."""
    unknown = [status for status in statuses if status not in STATUSES]
    if unknown:
        raise Refused(422, f"{unknown[0][:40]!r} is no status", f"There are: {', '.join(STATUSES)}.")
    values = {name: said.get(name, "").strip()[:_TEXT_CHARS_MAX] for name in _NAMES}
    values["failure_class"] = values.pop("class")
    return Wanted(statuses=tuple(dict.fromkeys(statuses)), **values)


def filter_of(wanted: Wanted, now_us: int) -> RunFilter:
    """As the ledger is asked. Raises Refused for a time that is none."""
    return RunFilter(
        workflow=wanted.workflow or None,
        statuses=wanted.statuses,
        failure_class=wanted.failure_class or None,
        worker=wanted.worker or None,
        since_us=moment_us(wanted.since, now_us) or 0,
        until_us=moment_us(wanted.until, now_us),
        text=wanted.text,
    )


_NAMES: Final = ("workflow", "class", "worker", "since", "until", "text")


def moment_us(said: str, now_us: int) -> int | None:
    """On the wall clock; None: nothing was said. Without a zone it is UTC."""
    if not said:
        return None
    age = _AGE.fullmatch(said)
    if age:
        return now_us - int(age[1]) * _UNIT_S[age[2]] * 1_000_000
    try:
        at = datetime.fromisoformat(said)
    except ValueError:
        raise Refused(
            422, f"{said[:40]!r} is no time", "Write 24h for a day ago, or 2026-11-16T08:00."
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000_000)
