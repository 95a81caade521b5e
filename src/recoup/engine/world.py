"""Everything the engine needs from outside, handed in at the door."""

from __future__ import annotations

import secrets as randomness
from collections.abc import Callable, Mapping
from pathlib import Path

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
    Redactor,
    RunFiles,
    Runtime,
    Secrets,
    Workspaces,
)
from recoup.steps.hooks import StatefulKind


class Watcher(msgspec.Struct, frozen=True):
    """Who looks on: told of every fact and of every piece of output, after it is stored. Must not block."""

    event: Callable[[Event], None] = lambda _event: None
    said: Callable[[int, str, Redacted], None] = lambda _step_index, _stream, _chunk: None
    progressed: Callable[[int, Progress], None] = lambda _step_index, _progress: None


def new_escalation_id() -> str:
    return f"esc-{randomness.token_hex(8)}"


class World(msgspec.Struct, frozen=True):
    """What all runs of one process share; `of` makes the world of one run, which is all that its engine sees."""

    clock: Clock
    ledger: Ledger
    redactor: Redactor
    """Knows the secrets of the process alone; in the world of a run also those of the run."""
    evidence: Evidence
    inspector: Inspector
    census: Census
    runtimes: Mapping[str, Runtime]
    environ: Mapping[str, str]
    """Passed on to steps: without what is Recoup's own."""
    kinds: Mapping[str, Callable[[], StatefulKind]] = {}
    """Kinds of step that keep something between attempts, by their keys; each is made when the first run needs it."""
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

    def of(self, job: Job) -> World:
        """What the engine of this run is given, and nothing else: all that is stored here is redacted by the run's
        own redactor."""
        inspector = self.inspector.redacting(job.redactor)
        return msgspec.structs.replace(self, redactor=job.redactor, inspector=inspector)


class Job(msgspec.Struct):
    """One run in the hands of one driver."""

    run_id: str
    plan: Plan
    policy: Policy
    """The one in force: it changes when a newer generation comes."""
    files: RunFiles
    redactor: Redactor
    """Of this run: it knows the run's secrets as long as anything of the run is under way."""
    secrets: Secrets
    workspaces: Workspaces | None
    watcher: Watcher = Watcher()
    earlier: EarlierRun | None = None
    own_folder: str | None = None
    """Where steps without a workspace work, if that is not the plan's folder."""

    @property
    def folder(self) -> str:
        """Where steps without a workspace work, without any link."""
        return str(Path(self.own_folder or self.plan.folder).resolve())

    @property
    def aside(self) -> str | None:
        return None if self.files.aside is None else str(self.files.aside)


class EarlierRun(msgspec.Struct, frozen=True):
    """The run whose proven steps the job may reuse, and the way to what it kept."""

    known: Earlier
    job: Job
