"""Builds every concrete object. Only this file knows which backend stands behind a port."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets as randomness
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import msgspec

from recoup.checks.inspector import WorldInspector
from recoup.clock import SharedClock, SystemClock
from recoup.documents.policy_watch import WatchedPolicyFile
from recoup.engine.generations import Generations
from recoup.engine.world import World
from recoup.errors import (
    DispatchAway,
    DispatchError,
    InvalidProbe,
    LedgerAway,
    LedgerBusy,
    LedgerError,
    LedgerUnwritable,
    Problem,
    RecoupError,
    SettingsError,
    StateError,
)
from recoup.evidence.folder import FolderEvidence
from recoup.evidence.vault import vault_key
from recoup.files.folders import OWNER_ONLY_FOLDER, hold_home
from recoup.kernel.modes import calls_for_report
from recoup.learning.recall import Recall
from recoup.ledger.sqlite import SqliteLedger
from recoup.linked import LinkedRuns
from recoup.machine import HostMachine
from recoup.memories import Memories
from recoup.model.dispatch import Hint
from recoup.model.events import Event
from recoup.model.failure import Failure
from recoup.model.memory import VersionInfo
from recoup.model.outcome import Order
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus, StepRecord
from recoup.ports import Dispatch, Evidence, Ledger, RedactorOf
from recoup.processes.census import HostCensus
from recoup.processes.keeper import LinuxKeeper, shared_keeper
from recoup.redaction.environment import secret_names
from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.redactor import SecretRedactor
from recoup.runs.driving import Driving
from recoup.runs.hiding import Hiding, register_secret
from recoup.runs.jobs import Jobs
from recoup.runs.records import Records
from recoup.runs.redactors import RunRedactors
from recoup.runs.submitting import Submitting
from recoup.runtimes.late_browser import LateBrowser
from recoup.runtimes.step_log import StepLog
from recoup.settings import DatabaseUrl, Settings, require_own_home, require_strong_key
from recoup.steps.kind import Site
from recoup.steps.runtimes import StepRuntimes, StepStates

if TYPE_CHECKING:
    from recoup.depot.shipping import Shipping
    from recoup.metrics.collector import Metrics
    from recoup.model.probe import ProbeConfig
    from recoup.probe.operators import Operators
    from recoup.probe.supervisor import Probe
    from recoup.probe.world import ProbeWorld
    from recoup.reports.reporter import Reporter
    from recoup.retention import Retention
    from recoup.runtimes.browser.runtime import BrowserRuntime

T = TypeVar("T")
_OWN_SECRETS = frozenset({"RECOUP_KEY", "RECOUP_TOKEN", "RECOUP_DATABASE", "RECOUP_EVIDENCE"})
_PER_ATTEMPT = frozenset({"RECOUP_RETRY_CONTEXT", "RECOUP_OUTPUT", "RECOUP_PROGRESS", "RECOUP_RESET"})
_AUDIT_WAIT_S = 0.5
_AUDIT_WHOLE_WAIT_S = 30.0
_AUDIT_EVENTS_MAX = 50_000
"""About a second's work; the next run, or `recoup audit export`, goes on from there."""


class App:
    """One process's Recoup: a ledger, redactors, runtimes, and the runs in its home."""

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], ledger: Ledger, clock: SystemClock | None = None
    ) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self.worker_id = f"{os.uname().nodename}-{os.getpid()}-{randomness.token_hex(2)}"
        """Whoever drives runs here; also where no worker is listed under it."""
        self._recall = Recall(settings.home / "learning", settings.sentences)
        self.ledger = ledger
        self._environ = environ
        self.redactor = environment_redactor(environ)
        """Knows the secrets of this process; text about a run goes through the run's own, above it."""
        if isinstance(settings.database, DatabaseUrl):
            self.redactor.register_unless_short("RECOUP_DATABASE", settings.database.password)
        if password := urlsplit(settings.evidence or "").password:
            self.redactor.register_unless_short("RECOUP_EVIDENCE", password)
        self.shipping = open_shipping(settings)
        self.evidence = self._evidence()
        self._key: bytes | None = None
        self._dispatch: Dispatch | None = None
        self._opening = asyncio.Lock()
        self.runs = Records(ledger, settings.home, self.shipping)
        self._redactors = RunRedactors(self.redactor)
        self.hiding = Hiding(self._redactors, environ, self.runs, self._vault_key)
        self.generations = Generations(ledger, self.redactor, self._clock, self._policy_file())
        self._policy_trouble = ""
        self.browsers = LateBrowser(self._browser_runtime)
        self.world = self._world()
        linked = LinkedRuns(self.world, self.runs.events, self.runs.files, self.hiding.vault)
        jobs = Jobs(self.world, self.runs, self.hiding, linked, self.shipping, lambda: self.metrics)
        self.submitting = Submitting(
            *(self.world, jobs, settings.home, self.policy, self.hint),
            require_strong_key=lambda: require_strong_key(settings.key),
        )
        self.driving = Driving(
            self.world, jobs, self.generations, self.hint, self.report_if_due, self.wind_up
        )

    # Runs

    @property
    def redactor_of(self) -> RedactorOf:
        """Returns the redactor of a run, for code that knows the run by its id."""
        return self.hiding.as_far_as_known

    async def dispatch(self) -> Dispatch:
        """The queue beside the ledger, opened when somebody needs it."""
        async with self._opening:  # those who ask at once get the same one: another would never be closed
            if self._dispatch is None:
                from recoup.dispatch.opening import open_dispatch

                database = self.settings.database
                place = database if isinstance(database, Path) else database.url
                self._dispatch = await open_dispatch(place, self.world.clock, hold_s=self.settings.lease_s)
        return self._dispatch

    async def hint(self, hint: Hint, delay_s: float = 0) -> str | None:
        """Tell workers. Why not, in words, if the queue cannot be reached: they find the run by themselves, later."""
        try:
            await (await self.dispatch()).hint([hint], delay_s)
        except DispatchError as error:
            return f"the queue was not told ({error.message}); workers will find the run in the ledger"
        return None

    async def close(self) -> None:
        await self.browsers.close()
        if (metrics := self.__dict__.get("metrics")) is not None:
            await asyncio.to_thread(metrics.close)
        if self._dispatch is not None:
            await self._dispatch.close()
        if self.shipping is not None:
            await self.shipping.close()

    @cached_property
    def reporter(self) -> Reporter:
        """Made when something has failed, or somebody asks."""
        from recoup.reports.reporter import Reporter
        from recoup.workspace.git import git_version

        return Reporter(self.ledger, self.evidence, self.redactor, self.runs.files, git_version)

    @cached_property
    def metrics(self) -> Metrics | None:
        """Made when the first run is driven: commands that only look pay nothing."""
        from recoup.metrics.opening import open_metrics

        said = self.settings
        return open_metrics(
            said.statsd, said.statsd_flavour, said.otel, self._environ, self.redactor.found_in
        )

    def measure_always(self) -> None:
        """Also where nobody is sent anything: somebody will come and ask."""
        if self.metrics is None:
            from recoup.metrics.collector import Metrics

            self.__dict__["metrics"] = Metrics(None, None, self.redactor.found_in)

    async def wind_up(self, state: RunState) -> list[str]:
        """After a run was driven: what people and auditors will want. What is worth a word is said."""
        return [*await self.report_if_due(state), *await self.chores()]

    async def report_if_due(self, state: RunState) -> list[str]:
        words = await self._report(state)
        return [*self._recall.warnings(), *([] if words is None else [words])]

    async def chores(self) -> list[str]:
        """What is to be done now and then, by whoever works. Where many machines share a database each would make the
        same audit: there one of them is told to, by `recoup audit export`."""
        words = await self.export_audit() if isinstance(self.settings.database, Path) else None
        ended = await self._clear_abandoned()
        return [*ended, *await self._follow_policy(), *([] if words is None else [words])]

    async def _clear_abandoned(self) -> list[str]:
        """What drivers left on this host that were killed together with their keepers or guards."""
        from recoup.fleet.abandoned import AbandonedProcesses
        from recoup.processes.guard_folders import abandoned_folders, remove_folders
        from recoup.processes.sweep import abandoned, sweep_abandoned

        words = await AbandonedProcesses(self.ledger, abandoned, sweep_abandoned).end()
        if folders := abandoned_folders():
            await asyncio.to_thread(remove_folders, folders)
        return words

    async def _follow_policy(self) -> list[str]:
        """A worker without work reads its changed file, too: others follow what it says there."""
        try:
            await self.generations.current()
            problem = ""
        except LedgerError as error:
            problem = error.message
        told, self._policy_trouble = self._policy_trouble, problem
        return [problem] if problem and problem != told else []

    async def _report(self, state: RunState) -> str | None:
        if state.status is RunStatus.SUCCEEDED:
            return None
        try:
            mode = (await self.ledger.workflow_state(state.workflow)).health.mode
        except LedgerError as error:
            return f"whether a report is due is not known: {error}"
        if not calls_for_report(state, mode):
            return None
        redactor = await self.hiding.as_far_as_known(state.run_id)
        written = await self.reporter.write_report(state.run_id, redactor=redactor)
        return f"report: {written.path}" if written.path else written.problem

    async def export_whole_audit(self) -> int | None:
        """Before anything is forgotten, where this home keeps an audit: all that it does not hold yet. None: it keeps
        none. Raises StateError, LedgerError."""
        folder = self.settings.home / "audit"
        if not isinstance(self.settings.database, Path) and not folder.is_dir():
            return None
        from recoup.audit.exporting import export_whole

        done = await export_whole(self.ledger, folder, self.world.clock.now(), wait_s=_AUDIT_WHOLE_WAIT_S)
        if done.busy:
            raise StateError(
                f"another process was exporting to {folder} for {_AUDIT_WHOLE_WAIT_S:g} s",
                hint="Let it end, then prune again.",
            )
        return done.events

    def retention(self) -> Retention:
        """Made when somebody prunes. Where another ledger keeps its runs in this home, folders may be of those."""
        from recoup.retention import Retention

        other = self.settings.home / "ledger.db"
        return Retention(
            ledger=self.ledger,
            home=self.settings.home,
            redactor=self.redactor,
            clock=self.world.clock,
            parcels=self.shipping,
            alone=self.settings.database == other or not other.exists(),
        )

    async def export_audit(self) -> str | None:
        """What is new since the last time; why not, in words, if it cannot be written: that harms no run."""
        from recoup.audit.exporting import export

        try:
            await export(
                *(self.ledger, self.settings.home / "audit", self.world.clock.now()),
                wait_s=_AUDIT_WAIT_S,
                events_max=_AUDIT_EVENTS_MAX,
            )
        except (StateError, LedgerError) as error:
            return f"the audit is behind: {error}"
        return None

    # Probes

    def probe_world(
        self,
        seen: Callable[[Event], None] = lambda _event: None,
        alive: Callable[[], None] = lambda: None,
    ) -> ProbeWorld:
        from recoup.probe.world import ProbeWorld

        return ProbeWorld(
            clock=self.world.clock,
            ledger=self.ledger,
            redactor=self.redactor,
            census=self.world.census,
            keeper=shared_keeper(),
            environ=self.world.environ,
            home=self.settings.home,
            lease_ttl_s=self.settings.lease_s,
            heartbeat_s=self.settings.heartbeat_s,
            seen=seen,
            alive=alive,
        )

    def probe(self, config: ProbeConfig, world: ProbeWorld) -> Probe:
        """Raises UsageError when it holds a kind that cannot be looked after here, or a gateway that cannot be told."""
        from recoup.probe.outboxes.opening import link_of, outboxes_of
        from recoup.probe.supervisor import Probe

        for name in config.secrets:
            self.hiding.from_environment(self.redactor, name)
        if config.gateway is not None and self.settings.token:
            register_secret(self.redactor, "RECOUP_TOKEN", self.settings.token)
        names = [config.id, *(name for one in config.resources for name in (one.id, *one.on_fault))]
        held = [name for name in names if self.redactor.found_in(name.encode())]
        if held:  # names stand in the ledger as they are
            words = "a name holds the value of a registered secret: call it otherwise"
            raise InvalidProbe(config.id, [Problem("", words)])
        return Probe(
            world,
            config,
            lambda lifeline: outboxes_of(world, config, lifeline),
            link=link_of(world, config, self.settings.token),
        )

    def probe_operators(self) -> Operators:
        from recoup.probe.operators import Operators

        return Operators(self.probe_world())

    # Workflows and the policy

    async def policy(self) -> Policy:
        """The one in force: a changed file of ours becomes a new generation first."""
        return await self.generations.begin()

    @property
    def memories(self) -> Memories:
        return Memories(self.ledger, self.redactor, self.world.clock)

    async def memory_versions(self, workflow: str) -> list[VersionInfo]:
        """Newest first, as the ledger tells; with what is wrong with those that are kept on this machine."""
        versions = (await self.memories.of(workflow)).versions()
        troubles = await self._recall.troubles(workflow)
        return [
            msgspec.structs.replace(one, trouble=troubles.get(one.version_id) or troubles.get("", ""))
            for one in versions
        ]

    # Inside

    def _evidence(self) -> Evidence:
        folder = FolderEvidence(self.settings.home / "evidence")
        return folder if self.shipping is None else self.shipping.evidence(folder, self.settings.home)

    def _world(self) -> World:
        keeper = LinuxKeeper()
        site = Site(keeper, self._open_log, tool_server, self.browsers, self.browsers, self._recall)
        return World(
            clock=self._clock,
            ledger=self.ledger,
            redactor=self.redactor,
            evidence=self.evidence,
            inspector=WorldInspector(keeper, self.redactor, self.browsers),
            census=HostCensus(alone=isinstance(self.settings.database, Path)),
            runtimes=StepRuntimes(site),
            kinds=StepStates(site),
            environ={k: v for k, v in self._environ.items() if k not in _OWN_SECRETS | _PER_ATTEMPT},
            cases=_LateCases(self),
            generations=self.generations,
            lease_ttl_s=self.settings.lease_s,
            heartbeat_s=self.settings.heartbeat_s,
            worker=self.worker_id,
            machine=HostMachine(self.settings.home),
        )

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

    def policy_problem(self) -> str:
        """Why the policy file cannot be used; "" where it can, or where there is none."""
        file = self._policy_file()
        written = file.read() if file is not None else None
        if written is None or written.policy is not None:
            return ""
        return f"the policy file {self.settings.policy} is not followed: {written.problems}"

    def _policy_file(self) -> WatchedPolicyFile | None:
        path = self.settings.policy
        return None if path is None else WatchedPolicyFile(path, os.uname().nodename)

    def _vault_key(self) -> bytes:
        if self._key is None:
            self._key = vault_key(self.settings.home, self.settings.key)
        return self._key

    def _open_log(self, order: Order) -> StepLog:
        path = self.runs.files(order.run_id).log_path(order.step_index)
        heading = f"--- attempt {order.attempt} of {order.step_id} at {self.world.clock.now().iso()}"
        aside = None if order.aside is None else Path(order.aside)
        redactor = self._redactors.held(order.run_id)
        return StepLog(path, redactor, order.policy.log_bytes_max, heading, aside)


class _LateCases:
    """Most runs need none, so nothing is loaded for them before the first."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def store_case(
        self,
        state: RunState,
        record: StepRecord,
        failure: Failure,
        decision: str,
        policy_digest: str,
        limit_bytes: int,
        *,
        evidence: Sequence[str] = (),
    ) -> str | None:
        about = (state, record, failure, decision, policy_digest, limit_bytes)
        redactor = self._app.hiding.redactors.held(state.run_id)
        return await self._app.reporter.store_case(*about, redactor=redactor, evidence=evidence)


def tool_server() -> tuple[str, ...] | None:
    """What starts the MCP server for agents inside a step. `-P`, and the place of this package: nothing in the step's
    folder may take the place of a module. None: its package is not installed."""
    import importlib.util
    import sys

    if importlib.util.find_spec("mcp") is None:
        return None
    boot = "import sys; sys.path.insert(0, sys.argv.pop(1)); from recoup.mcp.inside import main; main()"
    return (sys.executable, "-P", "-c", boot, str(Path(__file__).parents[1]))


def environment_redactor(environ: Mapping[str, str]) -> SecretRedactor:
    """Hides what is secret by the names of the environment, and what looks like a secret anywhere."""
    redactor = SecretRedactor(pattern_set(default_cache(environ)))
    for name, value in secret_names(environ).items():
        register_secret(redactor, name, value)
    return redactor


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
    await _when_there(lambda: _made(settings.home), waiting, away, wait_max_s)
    clock = SystemClock() if isinstance(settings.database, Path) else SharedClock()
    ledger = await _when_there(
        lambda: open_ledger(settings.database, settings.home, clock), waiting, away, wait_max_s
    )
    app = App(settings, environ, ledger, clock)
    try:
        if waiting is not None:
            await _when_there(app.dispatch, waiting, away, wait_max_s)
        yield app
    finally:
        await app.close()
        await ledger.close()


async def _made(home: Path) -> None:
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


def make_home(home: Path) -> None:
    """Raises SettingsError for a folder that another setting must name, and StateError for one that the machine cannot
    write now."""
    try:
        require_own_home(home)
        for folder in reversed([folder for folder in home.parents if not folder.exists()]):
            folder.mkdir(exist_ok=True, mode=0o755)
        home.mkdir(exist_ok=True, mode=OWNER_ONLY_FOLDER)
        # Once more: another user may have made it meanwhile.
        require_own_home(home)
        hold_home(home)
        probe = home / f".write-{randomness.token_hex(4)}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        if error.errno not in _WRONG_HOME:
            raise StateError.of(error) from None
        raise SettingsError(
            f"the state folder {home} cannot be written: {error.strerror}",
            hint="Fix its permissions, or name another folder: RECOUP_HOME or --home.",
        ) from None


_WRONG_HOME = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
)
"""Errors that stay until the setting or the folder changes."""
