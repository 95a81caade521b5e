"""A probe for people who watch: a table that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from recoup.cli.worker import Announcer
from recoup.kernel.probe_documents import probe_line
from recoup.kernel.wording import duration
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.probe import Phase, ProbeConfig
from recoup.terminal.layout import Cell, Row, in_columns
from recoup.terminal.moments import clock
from recoup.terminal.screen import Screen, Size, can_redraw
from recoup.terminal.writer import note, print_json

_TONES = {
    Phase.RUNNING: "green",
    Phase.FAILED: "red",
    Phase.RECOVERING: "yellow",
    Phase.STARTING: "cyan",
}
_LINES_AROUND = 5
_ROWS_MIN = 3
_WIDTHS = (40, 11, 10, 7)
_HEADINGS = [Cell(name, "dim") for name in ("resource", "phase", "health", "retries", "why")]


@contextmanager
def watching(config: ProbeConfig, *, as_json: bool, quiet: bool) -> Iterator[Callable[[Event], None]]:
    """Who is told of every fact, in the way that fits where we are."""
    if quiet:
        yield lambda _event: None
    elif as_json:
        with Announcer[Event](lambda event: print_json(probe_line(event))) as say:
            yield say
    elif can_redraw():
        with _Table(config) as table:
            yield table.event
    else:
        with Announcer(_plain) as say:
            yield say


def words_of(event: Event) -> str:
    """One fact in words."""
    payload = event.payload
    name = getattr(payload, "resource_id", "")
    match payload:
        case ev.RecoveryPlanned():
            wait = duration(payload.wait_seconds)
            return f"{name}: {payload.action} in {wait} (retry {payload.retry_count}): {payload.reason}"
        case ev.RecoveryAttempted():
            by = f" for {payload.actor}" if payload.manual else ""
            return f"{name}: {payload.action}{by} (retry {payload.retry_count}): {payload.reason}"
        case ev.RecoveryFailed():
            return f"{name}: {payload.action} did not help: {payload.reason}"
        case ev.RecoverySucceeded():
            return f"{name}: {payload.action} helped: {payload.reason}"
        case ev.ProbeEscalated():
            return f"{name}: handed over at retry {payload.retry_count} ({payload.limit}): {payload.reason}"
        case ev.PhaseChanged():
            return f"{name}: {payload.phase}, {payload.health}: {payload.reason}"
        case ev.ProcessLaunched():
            return f"{name}: kept by process {payload.keeper.pid}"
        case ev.ChannelDowngraded() | ev.ChannelRestored():
            return f"{name}: from {payload.from_mode} to {payload.to_mode}: {payload.reason}"
        case ev.BudgetReset():
            by = f" by {payload.actor}" if payload.actor else ""
            return f"{name}: retries given back{by}: {payload.reason}"
        case ev.EscalationDelivered():
            return f"{name}: {payload.outbox} was told of {payload.escalation_id}"
        case ev.ActionRefused():
            return f"{payload.source}: {payload.reason}"
        case ev.CommandHandled():
            about = f"{name}: " if name else ""
            return f"{about}{payload.command} {payload.outcome}: {payload.reason}"
        case ev.ProbeStarted():
            number = "1 resource" if payload.resources == 1 else f"{payload.resources} resources"
            return f"{number}, process {payload.owner.pid}"
        case _:
            return str(getattr(payload, "reason", ""))


def status_lines(document: dict[str, Any]) -> Iterator[str]:
    """`recoup probe status` without --json."""
    who = f"running as process {document['pid']}" if document["running"] else "not running"
    yield f"probe {document['probe']}: {who}"
    for one in document["resources"]:
        retries = ", ".join(f"{name} {count}" for name, count in one["retries"].items() if count)
        planned = one["planned"]
        waits = f"  {planned['action']} in {duration(planned['due_in_seconds'])}" if planned else ""
        used = f"  retries: {retries}" if retries else ""
        yield f"  {one['resource_id']:<24} {one['phase']:<11} {one['health']:<10} {one['reason']}{waits}{used}"
    gateway = document.get("gateway")
    if gateway and gateway["trouble"]:
        yield f"  the gateway is {gateway['behind']} events behind: {gateway['trouble']}"
    for name in document["open_escalations"]:
        yield f"  nobody has been told yet of {name}"


def _plain(event: Event) -> None:
    note(f"[{clock(event.at.iso())}] {words_of(event)}")


class _Table:
    """Every resource, where it stands, and why."""

    def __init__(self, config: ProbeConfig) -> None:
        self._name = config.id
        self._rows = {resource.id: _Row(resource.id) for resource in config.resources}
        self._screen = Screen(self._drawn)

    def __enter__(self) -> _Table:
        self._screen.__enter__()
        return self

    def __exit__(self, *ended: object) -> None:
        self._screen.__exit__(*ended)

    def event(self, event: Event) -> None:
        payload = event.payload
        if isinstance(payload, ev.ProbePayload) and payload.resource_id in self._rows:
            self._rows[payload.resource_id].take(event)

    def _drawn(self, size: Size) -> list[Row]:
        shown = self._shown(size.lines - _LINES_AROUND)
        rows = in_columns([_HEADINGS, *(row.cells() for row in shown)], _WIDTHS)
        hidden = len(self._rows) - len(shown)
        more = [[Cell(f"and {hidden} more that are {shown[-1].phase}", "dim")]] if hidden else []
        return [[Cell(f"probe {self._name}", "bold")], *rows, *more]

    def _shown(self, room: int) -> Sequence[_Row]:
        """What is in trouble first, as many as fit."""
        order = [Phase.FAILED, Phase.RECOVERING, Phase.STARTING, Phase.WAITING, Phase.RUNNING, Phase.STOPPED]
        rows = sorted(self._rows.values(), key=lambda row: order.index(Phase(row.phase)))
        return rows[: max(_ROWS_MIN, room)]


class _Row:
    def __init__(self, name: str) -> None:
        self.name = name
        self.phase: str = Phase.WAITING
        self.health = "unknown"
        self.retries = 0
        self._reason = ""
        self._due_s: float | None = None

    def take(self, event: Event) -> None:
        match event.payload:
            case ev.PhaseChanged() as changed:
                self.phase, self.health, self._reason = changed.phase, changed.health, changed.reason
                self._due_s = None
            case ev.RecoveryPlanned() as planned:
                self.retries, self._due_s = planned.retry_count, time.monotonic() + planned.wait_seconds
            case ev.RecoveryAttempted() as attempted:
                self.retries, self._due_s = attempted.retry_count, None
                self._reason = f"{attempted.action}: {attempted.reason}"
            case ev.BudgetReset():
                self.retries = 0

    def cells(self) -> list[Cell]:
        return [
            Cell(self.name),
            Cell(self.phase, _TONES.get(Phase(self.phase), "")),
            Cell(self.health),
            Cell(str(self.retries or "")),
            Cell(self.why()),
        ]

    def why(self) -> str:
        if self._due_s is None:
            return self._reason
        return f"in {duration(max(0, self._due_s - time.monotonic()))}: {self._reason}"
