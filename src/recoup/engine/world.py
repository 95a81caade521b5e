"""Everything the engine needs from outside, handed in at the door."""

from __future__ import annotations

import secrets as randomness
from collections.abc import Callable, Mapping

import msgspec

from recoup.engine.everywhere import Everywhere
from recoup.engine.generations import Generations
from recoup.kernel.earlier import Earlier
from recoup.model.events import Event
from recoup.model.outcome import Progress
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.model.redacted import Redacted
from recoup.ports import (
    Cases,
    Census,
    Clock,
    Evidence,
    Inspector,
    Ledger,
    Machine,
    Pages,
    Recalls,
    Redactor,
    RunFiles,
    Runtime,
    Secrets,
    Workspaces,
)


class Watcher(msgspec.Struct, frozen=True):
    """Who looks on: told of every fact and of every piece of output, after it is stored. Must not block."""

    event: Callable[[Event], None] = lambda _event: None
    said: Callable[[int, str, Redacted], None] = lambda _step_index, _stream, _chunk: None
    progressed: Callable[[int, Progress], None] = lambda _step_index, _progress: None


def new_escalation_id() -> str:
    return f"esc-{randomness.token_hex(8)}"


class World(msgspec.Struct, frozen=True):
    """What all runs of one process share."""

    clock: Clock
    ledger: Ledger
    redactor: Redactor
    evidence: Evidence
    inspector: Inspector
    census: Census
    runtimes: Mapping[str, Runtime]
    environ: Mapping[str, str]
    """Passed on to steps: without what is Recoup's own."""
    pages: Pages | None = None
    """None: there is no browser here."""
    recalls: Recalls | None = None
    """None: all that was learned is read from the ledger, by every run."""
    cases: Cases | None = None
    """None: failures leave nothing but their events."""
    generations: Generations | None = None
    """None: every run keeps the policy it was submitted with."""
    everywhere: Everywhere = msgspec.field(default_factory=Everywhere)
    lease_ttl_s: float = 10
    heartbeat_s: float = 3
    control_poll_s: float = 0.25
    worker: str | None = None
    """What this process is called where drivers are listed."""
    machine: Machine | None = None
    """None: nobody asks it, and no failure is its fault."""
    escalation_id: Callable[[], str] = new_escalation_id
    """A new one each time; the only chance in the engine."""


class Job(msgspec.Struct):
    """One run in the hands of one driver."""

    run_id: str
    plan: Plan
    policy: Policy
    """The one in force: it changes when a newer generation comes."""
    files: RunFiles
    secrets: Secrets
    workspaces: Workspaces | None
    watcher: Watcher = Watcher()
    earlier: EarlierRun | None = None

    @property
    def aside(self) -> str | None:
        return None if self.files.aside is None else str(self.files.aside)


class EarlierRun(msgspec.Struct, frozen=True):
    """The run whose proven steps the job may reuse, and the way to what it kept."""

    known: Earlier
    job: Job
