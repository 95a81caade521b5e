"""Builds every concrete object. Only this file knows which backend stands behind a port."""

from __future__ import annotations

import contextlib
import os
import secrets as randomness
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from recoup.audit.home import HomeAudit
from recoup.checks.inspector import WorldInspector
from recoup.clock import SharedClock, SystemClock
from recoup.dispatch.hints import Hints
from recoup.documents.policy_watch import WatchedPolicyFile
from recoup.engine.generations import Generations
from recoup.engine.world import World
from recoup.errors import (
    DispatchAway,
    LedgerAway,
    LedgerBusy,
    LedgerUnwritable,
    RecoupError,
    SettingsError,
    StateError,
)
from recoup.evidence.folder import FolderEvidence
from recoup.evidence.vault import vault_key
from recoup.fleet.chores import Chores
from recoup.fleet.driving import Driving
from recoup.fleet.hiding import Hiding
from recoup.fleet.jobs import Jobs
from recoup.fleet.linked import LinkedRuns
from recoup.fleet.records import Records
from recoup.fleet.redactors import RunRedactors
from recoup.learning.recall import Recall
from recoup.ledger.sqlite import SqliteLedger
from recoup.machine import HostMachine
from recoup.metrics.late import LateMetrics
from recoup.model.outcome import Order
from recoup.model.policy import Policy
from recoup.ports import Dispatch, Ledger, RedactorOf
from recoup.processes.census import HostCensus
from recoup.processes.keeper import LinuxKeeper
from recoup.redaction.registration import environment_redactor
from recoup.reports.late import LateReports
from recoup.runtimes.late_browser import LateBrowser
from recoup.runtimes.step_log import StepLog
from recoup.runtimes.tool_server import tool_server
from recoup.settings import DatabaseUrl, Settings, make_home
from recoup.steps.kind import Site
from recoup.steps.runtimes import StepRuntimes, StepStates

if TYPE_CHECKING:
    from recoup.depot.shipping import Shipping
    from recoup.metrics.collector import Metrics
    from recoup.reports.reporter import Reporter
    from recoup.runtimes.browser.runtime import BrowserRuntime

T = TypeVar("T")
_OWN_SECRETS: Final = frozenset({"RECOUP_KEY", "RECOUP_TOKEN", "RECOUP_DATABASE", "RECOUP_EVIDENCE"})
_PER_ATTEMPT: Final = frozenset({"RECOUP_RETRY_CONTEXT", "RECOUP_OUTPUT", "RECOUP_PROGRESS", "RECOUP_RESET"})


class App:
    """One process's Recoup: its parts. What they are for is said in `operations/`."""

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], ledger: Ledger, clock: SystemClock | None = None
    ) -> None:
        clock = clock or SystemClock()
        is_alone = isinstance(settings.database, Path)
        self.settings = settings
        self.ledger = ledger
        self._environ = environ
        self.worker_id = f"{os.uname().nodename}-{os.getpid()}-{randomness.token_hex(2)}"
        """The name under which runs are driven here, also where no worker is listed."""
        self.redactor = environment_redactor(environ)
        """Knows the secrets of this process; text about a run goes through the run's own, above it."""
        if isinstance(settings.database, DatabaseUrl):
            self.redactor.register_unless_short("RECOUP_DATABASE", settings.database.password)
        if password := urlsplit(settings.evidence or "").password:
            self.redactor.register_unless_short("RECOUP_EVIDENCE", password)
        self.shipping = open_shipping(settings)
        folder = FolderEvidence(settings.home / "evidence")
        self.evidence = folder if self.shipping is None else self.shipping.evidence(folder, settings.home)
        self.runs = Records(ledger, settings.home, self.shipping)
        self._redactors = RunRedactors(self.redactor)
        self.hiding = Hiding(
            self._redactors, environ, self.runs, cache(partial(vault_key, settings.home, settings.key))
        )
        path = settings.policy
        self.policy_file = None if path is None else WatchedPolicyFile(path, os.uname().nodename)
        self.generations = Generations(ledger, self.redactor, clock, self.policy_file)
        self.recall = Recall(settings.home / "learning", settings.sentences)
        self.hints = Hints(self._open_queue)
        self.metrics = LateMetrics(self._open_metrics, self.redactor.found_in)
        self.reports = LateReports(
            *(ledger, self._reporter, self._redactors.held, self.redactor_of, self.recall.warnings)
        )
        self.audit = HomeAudit(ledger, settings.home, clock, is_ours=is_alone)
        self.chores = Chores(self.generations, self._clear_abandoned, self.audit.chore, self.reports.if_due)
        self.browsers = LateBrowser(self._browser_runtime)
        self.world = self._world(clock)
        linked = LinkedRuns(self.world, self.runs.events, self.runs.files, self.hiding.vault)
        self.jobs = Jobs(*(self.world, self.runs, self.hiding, linked, self.shipping, self.metrics.collector))
        self.driving = Driving(
            *(self.world, self.jobs, self.generations, self.hints.tell),
            *(self.reports.if_due, self.chores.after_run),
        )

    def _world(self, clock: SystemClock) -> World:
        keeper = LinuxKeeper()
        site = Site(keeper, self._open_log, tool_server, self.browsers, self.browsers, self.recall)
        return World(
            clock=clock,
            ledger=self.ledger,
            redactor=self.redactor,
            evidence=self.evidence,
            inspector=WorldInspector(keeper, self.redactor, self.browsers),
            census=HostCensus(alone=isinstance(self.settings.database, Path)),
            runtimes=StepRuntimes(site),
            kinds=StepStates(site),
            environ={k: v for k, v in self._environ.items() if k not in _OWN_SECRETS | _PER_ATTEMPT},
            cases=self.reports,
            generations=self.generations,
            lease_ttl_s=self.settings.lease_s,
            heartbeat_s=self.settings.heartbeat_s,
            worker=self.worker_id,
            machine=HostMachine(self.settings.home),
        )

    @property
    def redactor_of(self) -> RedactorOf:
        """Returns the redactor of a run, for code that knows the run by its id."""
        return self.hiding.as_far_as_known

    async def policy(self) -> Policy:
        """The one in force: a changed file of ours becomes a new generation first."""
        return await self.generations.begin()

    async def close(self) -> None:
        await self.browsers.close()
        await self.metrics.close()
        await self.hints.close()
        if self.shipping is not None:
            await self.shipping.close()

    # Made on first use

    async def _open_queue(self) -> Dispatch:
        from recoup.dispatch.opening import open_dispatch

        database = self.settings.database
        place = database if isinstance(database, Path) else database.url
        return await open_dispatch(place, self.world.clock, hold_s=self.settings.lease_s)

    def _open_metrics(self) -> Metrics | None:
        from recoup.metrics.opening import open_metrics

        sinks = (self.settings.statsd, self.settings.statsd_flavour, self.settings.otel)
        return open_metrics(*sinks, self._environ, self.redactor.found_in)

    def _reporter(self) -> Reporter:
        from recoup.reports.reporter import Reporter
        from recoup.workspace.git import git_version

        return Reporter(self.ledger, self.evidence, self.redactor, self.runs.files, git_version)

    async def _clear_abandoned(self) -> list[str]:
        from recoup.fleet.abandoned import AbandonedProcesses
        from recoup.processes.guard_folders import clear_abandoned_folders
        from recoup.processes.sweep import abandoned, sweep_abandoned

        words = await AbandonedProcesses(self.ledger, abandoned, sweep_abandoned).end()
        await clear_abandoned_folders()
        return words

    def _browser_runtime(self) -> BrowserRuntime:
        """Raises ModuleNotFoundError."""
        from recoup.learning.screens import screen_of
        from recoup.processes.guard import Guard
        from recoup.redaction.elements import recorded_elements
        from recoup.runtimes.browser.runtime import BrowserRuntime
        from recoup.targets.resolver import PageResolver

        def resolver_of(run_id: str) -> PageResolver:
            return PageResolver(lambda elements: recorded_elements(self._redactors.held(run_id), elements))

        def hide_of(run_id: str) -> Callable[[str], str]:
            return lambda text: self._redactors.held(run_id).redact(text).text

        return BrowserRuntime(
            *(Guard, resolver_of, self._open_log, self._environ),
            sketch=screen_of,
            traces=True,
            hide_of=hide_of,
        )

    def _open_log(self, order: Order) -> StepLog:
        path = self.runs.files(order.run_id).log_path(order.step_index)
        heading = f"--- attempt {order.attempt} of {order.step_id} at {self.world.clock.now().iso()}"
        aside = None if order.aside is None else Path(order.aside)
        redactor = self._redactors.held(order.run_id)
        return StepLog(path, redactor, order.policy.log_bytes_max, heading, aside)


@contextlib.asynccontextmanager
async def open_app(
    settings: Settings,
    environ: Mapping[str, str],
    waiting: Callable[[str], None] | None = None,
    *,
    disk_too: bool = False,
    wait_max_s: float | None = None,
) -> AsyncIterator[App]:
    """`waiting`: for a process that stays. It waits for a database that is away, and says so. Asked to end meanwhile,
    it exits. `disk_too`: it also waits for a disk that is full or cannot be written. `wait_max_s`: it waits no longer
    than this for each, then the error is raised."""
    if waiting is not None and settings.file is not None:
        waiting(f"settings are read from {settings.file}")
    away = (LedgerAway, LedgerBusy, DispatchAway, *((LedgerUnwritable, StateError) if disk_too else ()))
    await _when_there(partial(_make_home, settings.home), waiting, away, wait_max_s)
    clock = SystemClock() if isinstance(settings.database, Path) else SharedClock()
    ledger = await _when_there(
        lambda: open_ledger(settings.database, settings.home, clock), waiting, away, wait_max_s
    )
    app = App(settings, environ, ledger, clock)
    try:
        if waiting is not None:
            await _when_there(app.hints.queue, waiting, away, wait_max_s)
        yield app
    finally:
        await app.close()
        await ledger.close()


async def _make_home(home: Path) -> None:
    make_home(home)


async def _when_there(
    opened: Callable[[], Awaitable[T]],
    waiting: Callable[[str], None] | None,
    away: tuple[type[RecoupError], ...],
    wait_max_s: float | None,
) -> T:
    if waiting is None:
        return await opened()
    from recoup.standing import when_there

    return await when_there(opened, away, waiting, wait_max_s)


async def open_ledger(
    database: Path | DatabaseUrl, home: Path | None = None, clock: SystemClock | None = None
) -> Ledger:
    """`home`: where processes keep what was acknowledged to them. `clock`: follows the database's, if it can."""
    if isinstance(database, Path):
        return SqliteLedger(database)
    try:
        from recoup.ledger.postgres.ledger import PostgresLedger
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"a PostgreSQL database needs the package {error.name}", hint="pip install 'recoup[postgres]'"
        ) from None
    witness = None if home is None else home / "witness"
    follow = clock.follow if isinstance(clock, SharedClock) else None
    return await PostgresLedger.open(database.url, witness=witness, clock=follow)


def open_shipping(settings: Settings) -> Shipping | None:
    """What machines share besides the ledger. None: there is one machine, and nothing leaves it."""
    database = settings.database.url if isinstance(settings.database, DatabaseUrl) else None
    if settings.evidence is None and database is None:
        return None
    from recoup.depot.opening import open_depot
    from recoup.depot.shipping import Shipping

    depot = open_depot(settings.evidence, database)
    return None if depot is None else Shipping(depot, settings.key)
