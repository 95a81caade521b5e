"""Builds every concrete object. Only this file knows which backend stands behind a port."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import secrets as randomness
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from recoup.clock import SystemClock
from recoup.documents.policy_watch import WatchedPolicyFile
from recoup.engine.breaking import blocked_words, kept_out
from recoup.engine.claim import Claimed, Held, claim
from recoup.engine.driver import Driver
from recoup.engine.entry import is_redelivery
from recoup.engine.forcing import force_mode, known_workflows
from recoup.engine.generations import Generations
from recoup.engine.world import Job, Watcher, World
from recoup.errors import (
    Conflict,
    DispatchError,
    InvalidPlan,
    InvalidProbe,
    LeaseLost,
    LedgerError,
    NotFound,
    Problem,
    RecoupError,
    SettingsError,
    StateError,
    UsageError,
    WaitsForOperator,
    WorkflowBlocked,
)
from recoup.evidence.folder import FolderEvidence
from recoup.evidence.run_folder import RunFolder
from recoup.evidence.vault import NoSecrets, Vault, vault_key
from recoup.fleet.delivering import Deliveries
from recoup.fleet.queued import DEFAULT_QUEUE, Queued, hint_of, stream_of_key
from recoup.kernel.canonical import digest
from recoup.kernel.controls import is_over
from recoup.kernel.elapsed import elapsed_s
from recoup.kernel.fold import fold
from recoup.kernel.modes import calls_for_report, mode_document
from recoup.kernel.needs import needs_of
from recoup.kernel.policies import policy_digest, stored_policy
from recoup.kernel.reuse import Reuse
from recoup.learning.recall import Recall
from recoup.ledger.sqlite import SqliteLedger
from recoup.linked import LinkedRuns, Reusing, plan_of, throwaway
from recoup.memories import Memories
from recoup.model.dispatch import Hint
from recoup.model.events import Event, RunSubmitted, SubmissionKeyTaken
from recoup.model.failure import Failure
from recoup.model.ids import EVERY_WORKFLOW, Lease, run_stream
from recoup.model.mode import Mode
from recoup.model.outcome import Order
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus, StepRecord
from recoup.model.storage import Append, Control, Draft, PolicyBody, RunFilter, StreamAppend
from recoup.model.target import HealMode
from recoup.ports import Dispatch, Evidence, Keeper, Ledger, Runtime, Secrets
from recoup.processes.census import HostCensus
from recoup.processes.keeper import LinuxKeeper, shared_keeper
from recoup.redaction.environment import secret_names
from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.redactor import SecretRedactor
from recoup.runtimes.deferred import DeferredRuntime
from recoup.runtimes.inspector import WorldInspector
from recoup.runtimes.late_browser import LateBrowser
from recoup.runtimes.shell import ShellRuntime
from recoup.runtimes.step_log import StepLog
from recoup.settings import DatabaseUrl, Settings
from recoup.workspace.workspaces import GitWorkspaces

if TYPE_CHECKING:
    from recoup.depot.shipping import Shipping
    from recoup.kernel.preview import Preview
    from recoup.metrics.collector import Metrics
    from recoup.model.probe import ProbeConfig
    from recoup.probe.operators import Operators
    from recoup.probe.supervisor import Probe
    from recoup.probe.world import ProbeWorld
    from recoup.reports.reporter import Reporter
    from recoup.retention import Retention
    from recoup.runtimes.browser.runtime import BrowserRuntime

_OWN_SECRETS = frozenset({"RECOUP_KEY", "RECOUP_TOKEN", "RECOUP_DATABASE", "RECOUP_EVIDENCE"})
_PER_ATTEMPT = frozenset({"RECOUP_RETRY_CONTEXT", "RECOUP_OUTPUT", "RECOUP_PROGRESS", "RECOUP_RESET"})
_SECRET_GIVEN = "[secret]"
_EVENTS_PAGE = 1_000
_POLICIES_MAX = 100
_POLICY_LOOK_S = 1.0
_AUDIT_WAIT_S = 0.5
_AUDIT_WHOLE_WAIT_S = 30.0
_AUDIT_EVENTS_MAX = 50_000
"""About a second's work; the next run, or `recoup audit export`, goes on from there."""


class App:
    """One process's Recoup: a ledger, a redactor, runtimes, and the runs in its home."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], ledger: Ledger) -> None:
        self.settings = settings
        self.worker_id = f"{os.uname().nodename}-{os.getpid()}-{randomness.token_hex(2)}"
        """Whoever drives runs here; also where no worker is listed under it."""
        self._recall = Recall(settings.home / "learning", settings.sentences)
        self.ledger = ledger
        self._environ = environ
        self.redactor = environment_redactor(environ)
        if isinstance(settings.database, DatabaseUrl):
            with contextlib.suppress(ValueError):  # too short to be told from other text
                self.redactor.register("RECOUP_DATABASE", settings.database.password)
        if password := urlsplit(settings.evidence or "").password:
            with contextlib.suppress(ValueError):
                self.redactor.register("RECOUP_EVIDENCE", password)
        self.shipping = open_shipping(settings)
        self.evidence = self._evidence()
        self._key: bytes | None = None
        self._dispatch: Dispatch | None = None
        self._policies: dict[str, Policy] = {}
        """By digest: what a digest names does not change."""
        self._stored_policies: set[str] = set()
        self.generations = Generations(ledger, self.redactor, SystemClock(), self._policy_file())
        self.browsers = LateBrowser(self._browser_runtime)
        self.world = self._world()
        self._linked = LinkedRuns(self.world, self.events, self.files, self._vault)

    # Runs

    async def submit(
        self,
        plan: Plan,
        given: Mapping[str, str],
        source: str | None,
        reuse: Reusing | None = None,
        queued: Queued | None = None,
        heal: HealMode | None = None,
    ) -> str:
        """Record a run that is to be driven, by workers if it is `queued`. Nothing is recorded when the plan or its
        inputs cannot be used. Raises Conflict when a key is taken."""
        policy = await self.policy()
        run_id = new_run_id(self.world.clock.now().iso())
        files = self.files(run_id)
        kept = await self._plan_secrets(plan, reuse)
        inputs = self._inputs(plan, given, source or plan.name)
        self._refuse_secret_names(plan, source or plan.name)
        if plan.workspace is not None:
            await GitWorkspaces(files.root).check(plan.workspace)
        raw = msgspec.json.encode(plan)
        if queued is not None and self.shipping is not None:
            self.shipping.must_be_fit(plan, bool(self.redactor.found_in(raw)))
        payload = self._submission(plan, raw, policy, inputs, source, reuse)
        payload = msgspec.structs.replace(payload, heal=heal)
        if (
            queued is None
            or payload.plan_redacted
            or kept
            or any(spec.secret for spec in plan.inputs.values())
        ):
            files.make()
        if payload.plan_redacted:
            files.write_plan(raw)
        self._keep_secrets(files, plan, inputs, kept)
        if queued is not None:
            payload = queued.marked(payload)
        if self.shipping is not None:
            await self.shipping.submitted(run_id, files, plan, payload.plan_redacted)
        draft = Draft(RunSubmitted.TYPE, self.redactor.seal(payload))
        key = () if queued is None else queued.key_taken(plan.name, run_id)
        taken = [
            StreamAppend(stream, (Draft(fact.TYPE, self.redactor.seal(fact)),), 0) for stream, fact in key
        ]
        await self.ledger.append(
            Append(
                at=self.world.clock.now(),
                streams=(StreamAppend(run_stream(run_id), (draft,), 0), *taken),
                policies=self._unstored(payload.policy_digest, policy),
            )
        )
        self._stored_policies.add(payload.policy_digest)
        return run_id

    def _unstored(self, digest_of_it: str, policy: Policy) -> tuple[PolicyBody, ...]:
        """The body of a policy goes into the ledger once, and is never taken out."""
        if digest_of_it in self._stored_policies:
            return ()
        return (PolicyBody(digest_of_it, self.redactor.seal(policy)),)

    async def submit_queued(
        self,
        plan: Plan,
        given: Mapping[str, str],
        source: str | None,
        queued: Queued,
        reuse: Reusing | None = None,
        heal: HealMode | None = None,
    ) -> Submitted:
        """For workers. Under a key that is taken nothing is submitted: the run that has it is named."""
        earlier = await self.run_with_key(plan.name, queued.dedup_key)
        if earlier is not None:
            return Submitted(earlier, duplicate=True)
        try:
            run_id = await self.submit(plan, given, source, reuse, queued, heal)
        except Conflict:
            earlier = await self.run_with_key(plan.name, queued.dedup_key)
            if earlier is None:
                raise
            return Submitted(earlier, duplicate=True)
        delay_s = (queued.not_before_us - self.world.clock.now().wall_us) / 1e6
        return Submitted(run_id, note=await self.hint(queued.hint(run_id), max(0.0, delay_s)))

    async def retry(
        self, run_id: str, *, submitted_by: str | None = None, reason: str | None = None
    ) -> Submitted:
        """A run that has ended, once more: a new one, linked to it, in the same queue."""
        state = await self.state(run_id)
        if not is_over(state):
            raise UsageError(
                f"run {run_id} has not ended: {state.status}",
                hint=f"See what it waits for: recoup show {run_id}",
            )
        if state.status is RunStatus.SUCCEEDED:
            raise UsageError(f"run {run_id} has succeeded: nothing is left to do")
        plan, given = await self.recorded(state)
        needs = tuple(sorted({*state.needs, *needs_of(plan)}))
        queued = Queued(
            queue=state.queue or DEFAULT_QUEUE,
            priority=state.priority,
            needs=needs,
            dedup_key=f"retry of {run_id}",
            submitted_by=submitted_by,
            submit_reason=reason,
        )
        reusing = Reusing(run_id)
        return await self.submit_queued(plan, given, state.plan_source, queued, reusing, state.heal)

    async def run_with_key(self, workflow: str, key: str | None) -> str | None:
        if key is None:
            return None
        for event in await self.ledger.read(stream_of_key(workflow, key), limit=1):
            assert isinstance(event.payload, SubmissionKeyTaken)
            return event.payload.run_id
        return None

    async def dispatch(self) -> Dispatch:
        """The queue beside the ledger, opened when somebody needs it."""
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

    async def preview(
        self, plan: Plan, given: Mapping[str, str], source: str | None, reuse: Reusing
    ) -> Reuse:
        """What a run of this plan would reuse. Nothing of it is recorded, and nothing is left behind."""
        policy = await self.policy()
        kept = await self._plan_secrets(plan, reuse)
        inputs = self._inputs(plan, given, source or plan.name)
        payload = self._submission(plan, msgspec.json.encode(plan), policy, inputs, source, reuse)
        run_id = new_run_id(self.world.clock.now().iso())
        with throwaway(self.settings.home) as files:
            self._keep_secrets(files, plan, inputs, kept)
            job = await self._made_job(run_id, plan, policy, files, reuse.run_id, Watcher())
            return await self._linked.would_reuse(job, payload)

    async def recorded(self, state: RunState) -> tuple[Plan, dict[str, str]]:
        """The plan of a run as it is run, and the inputs that it was given."""
        files = self.files(state.run_id)
        await self._fetch_missing(state.run_id)
        plan, vault = plan_of(state, files), self._vault(files)
        given = {
            name: vault.get(f"inputs.{name}") if plan.inputs[name].secret else value
            for name, value in state.inputs.items()
            if value is not None
        }
        return plan, given

    async def must_not_be_driven(self, state: RunState) -> None:
        """Nobody changes what another run is to build on."""
        lease = None if state.status.is_terminal else await self.ledger.lease(state.run_id)
        if lease is None or lease.owner is None or self.world.census.is_alive(lease.owner) is False:
            return
        raise UsageError(
            _held_words(state.run_id, Held(lease)),
            hint=f"Stop it first: recoup control {state.run_id} pause --reason '...' (or cancel)",
        )

    async def must_be_free(self, run_id: str) -> None:
        """Nobody holds it now: its driver gave it back, is dead, or let the lease run out."""
        lease, now = await self.ledger.lease(run_id), self.world.clock.now()
        if lease is None or lease.owner is None or self.world.census.is_alive(lease.owner) is False:
            return
        if elapsed_s(lease.renewed_at, now, lease.ttl_s) < lease.ttl_s:
            hint = f"Watch it: recoup events {run_id} --follow. Take a pause back: recoup control {run_id} resume"
            raise UsageError(_held_words(run_id, Held(lease)), hint=hint)

    async def must_not_be_blocked(self, state: RunState) -> None:
        """The mode of its workflow lets it go on. Raises WorkflowBlocked."""
        await self._must_not_be_blocked(state, await self._recorded_policy(state.policy_digest))

    async def drive(
        self, run_id: str, watcher: Watcher, on_driver: Callable[[Driver], None] = lambda _driver: None
    ) -> RunState:
        """Drive a run until it ends, waits or is interrupted."""
        driver = await self._driver(run_id, watcher)
        on_driver(driver)
        return await driver.drive()

    def deliveries(self, watcher: Callable[[RunState], Watcher] = lambda _state: Watcher()) -> Deliveries:
        """For a worker: how any run is driven."""

        async def state_of(run_id: str) -> RunState | None:
            events = await self.events(run_id)
            return fold(run_id, events) if events else None

        async def driver(state: RunState, taken: Claimed) -> Driver:
            job = await self._job(state, watcher(state), taken.lease)
            return Driver(self.world, job, state, taken.lease, taken.replaced, vouched=True)

        def decliner(state: RunState, policy: Policy, taken: Claimed) -> Driver:
            job = Job(state.run_id, state.plan, policy, self.files(state.run_id), NoSecrets(), None)
            return Driver(self.world, job, state, taken.lease, taken.replaced)

        return Deliveries(self.world, state_of, self._policy_of, driver, decliner, self.report_if_due)

    async def _bare_job(self, state: RunState) -> Job:
        """For whoever needs nothing but the ledger."""
        policy = await self._recorded_policy(state.policy_digest)
        return Job(state.run_id, state.plan, policy, self.files(state.run_id), NoSecrets(), None)

    async def _policy_of(self, state: RunState) -> Policy:
        """The one that everybody follows, as the run will from its first step on."""
        newest = await self.generations.current_within(_POLICY_LOOK_S)
        return newest or await self._recorded_policy(state.policy_digest)

    async def policy_of(self, state: RunState) -> Policy:
        """The one by which the run's controls are judged."""
        return await self._policy_of(state)

    async def is_driven(self, run_id: str) -> bool:
        """Somebody holds its lease, and it has not run out."""
        lease, now = await self.ledger.lease(run_id), self.world.clock.now()
        if lease is None or lease.owner is None or self.world.census.is_alive(lease.owner) is False:
            return False
        return elapsed_s(lease.renewed_at, now, lease.ttl_s) < lease.ttl_s

    async def foresee(
        self, run_id: str, action: str, step_id: str | None = None, argument: str | None = None
    ) -> Preview:
        """What a control would do now. Nothing is sent."""
        from recoup.kernel.preview import preview

        state, now = await self.state(run_id), self.world.clock.now()
        wish = Control(
            id="",
            run_id=run_id,
            action=action,
            reason="",
            actor="",
            at=now,
            step_id=step_id,
            argument=argument,
        )
        return preview(state, wish, await self.policy_of(state), await self.is_driven(run_id))

    async def carry_out(self, control: Control) -> RunState | None:
        """Carry out the controls of a run that nobody drives. None: somebody does, or did a moment ago."""
        taken = await claim(self.world, control.run_id)
        if isinstance(taken, Held):
            return None
        async with self._or_released(taken.lease):
            state = await self.state(control.run_id)
            try:
                job = await self._job(state, Watcher(), taken.lease)
            except (SettingsError, NotFound, StateError):
                if control.action != "cancel":
                    raise
                job = await self._bare_job(state)
            return await self._answered(Driver(self.world, job, state, taken.lease, taken.replaced))

    async def state(self, run_id: str) -> RunState:
        return fold(run_id, await self.events(run_id))

    async def events(self, run_id: str, after: int = 0) -> list[Event]:
        """All events of a run, in order."""
        found: list[Event] = []
        while True:
            page = await self.ledger.read(run_stream(run_id), after, _EVENTS_PAGE)
            found += page
            if len(page) < _EVENTS_PAGE:
                return found
            after = page[-1].seq
            await asyncio.sleep(0)  # a server answers others meanwhile

    async def find(self, name: str) -> str:
        """A run id from its beginning, or from `last`."""
        if name == "last":
            newest = (await self.ledger.runs(limit=1)).rows
            if newest:
                return newest[0].run_id
            raise NotFound("there are no runs yet", hint="Start one: recoup run PLAN")
        found = await self.ledger.find_runs(name)
        if name in found:
            return name
        if len(found) == 1:
            return found[0]
        if not found:
            raise NotFound(f"no run begins with {name!r}", hint="List them: recoup runs")
        raise NotFound(f"several runs begin with {name!r}: {', '.join(found)}", hint="Give more of the id.")

    async def know_secrets_of(self, state: RunState) -> Plan:
        """Whoever stores words about a run must hide what the run hides. Gives the plan that told."""
        try:
            return self._secrets_known(state)
        except NotFound:
            if self.shipping is None:
                raise
            await self._fetch_missing(state.run_id)
            return self._secrets_known(state)

    def _secrets_known(self, state: RunState) -> Plan:
        files = self.files(state.run_id)
        plan = plan_of(state, files)
        self._register_plan_secrets(plan)
        self._register_kept_secrets(self._vault(files), state, plan)
        return plan

    def files(self, run_id: str) -> RunFolder:
        return RunFolder(self.settings.home / "runs" / run_id)

    @cached_property
    def reporter(self) -> Reporter:
        """Made when something has failed, or somebody asks."""
        from recoup.reports.reporter import Reporter
        from recoup.workspace.git import git_version

        return Reporter(self.ledger, self.evidence, self.redactor, self.files, git_version)

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
        return [] if words is None else [words]

    async def _report(self, state: RunState) -> str | None:
        if state.status is RunStatus.SUCCEEDED:
            return None
        try:
            mode = (await self.ledger.workflow_state(state.workflow)).health.mode
        except LedgerError as error:
            return f"whether a report is due is not known: {error}"
        if not calls_for_report(state, mode):
            return None
        written = await self.reporter.write_report(state.run_id)
        return f"report: {written.path}" if written.path else written.problem

    async def export_whole_audit(self) -> int | None:
        """Before anything is forgotten, where this home keeps an audit: all that it does not hold yet. None: it keeps
        none. Raises StateError, LedgerError."""
        folder = self.settings.home / "audit"
        if not isinstance(self.settings.database, Path) and not folder.is_dir():
            return None
        from recoup.audit.exporting import EVENTS_MAX, export

        exported = 0
        while True:
            done = await export(self.ledger, folder, self.world.clock.now(), wait_s=_AUDIT_WHOLE_WAIT_S)
            if done.busy:
                raise StateError(
                    f"another process was exporting to {folder} for {_AUDIT_WHOLE_WAIT_S:g} s",
                    hint="Let it end, then prune again.",
                )
            exported += done.events
            if done.events < EVENTS_MAX:
                return exported

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
            if self._environ.get(name):
                self._register(name, self._environ[name])
        if config.gateway is not None and self.settings.token:
            self._register("RECOUP_TOKEN", self.settings.token)
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

    async def workflows(self) -> list[str]:
        return await known_workflows(self.ledger)

    async def modes(self, workflows: Sequence[str]) -> list[dict[str, Any]]:
        """By the policy as it is seen: who only looks makes no generation of their file."""
        (policy, _), now = await self.generations.seen(), self.world.clock.now()
        return [
            mode_document(name, (await self.ledger.workflow_state(name)).health, policy, now)
            for name in workflows
        ]

    async def force_mode(
        self,
        workflow: str,
        mode: Mode,
        reason: str,
        actor: str,
        for_s: float | None = None,
        approval_ref: str | None = None,
        beside: tuple[StreamAppend, ...] = (),
    ) -> None:
        """The reason is redacted by what the workflow's last run knows as secret, as far as that is kept here: nobody
        must be kept from stopping a workflow because a run's files are gone or on another machine."""
        for name in [workflow] if workflow != EVERY_WORKFLOW else await self.workflows():
            for row in (await self.ledger.runs(RunFilter(workflow=name), limit=1)).rows:
                with contextlib.suppress(NotFound, SettingsError, StateError, OSError):
                    await self.know_secrets_of(await self.state(row.run_id))
        policy, now = await self.policy(), self.world.clock.now()
        told = await force_mode(
            *(self.ledger, self.redactor, workflow, mode),
            reason=reason,
            actor=actor,
            for_s=for_s,
            policy=policy,
            now=now,
            approval_ref=approval_ref,
            beside=beside,
        )
        if self.metrics is not None:
            self.metrics.event(told)

    # Inside

    async def _driver(self, run_id: str, watcher: Watcher) -> Driver:
        taken = await claim(self.world, run_id)
        if isinstance(taken, Held):
            raise UsageError(_held_words(run_id, taken), hint=f"Watch it: recoup events {run_id} --follow")
        async with self._or_released(taken.lease):
            state = await self.state(run_id)
            _must_be_drivable(state)
            job = await self._job(state, watcher, taken.lease)
            driver = Driver(self.world, job, state, taken.lease, taken.replaced)
            try:
                await self._must_not_be_blocked(state, job.policy)
                await self._linked.must_not_repeat(state, job)
            except UsageError:
                # The lease is ours now: who comes next cannot see that an owner was lost.
                if taken.replaced is not None:
                    await self._answered(driver)
                raise
        return driver

    async def _answered(self, driver: Driver) -> RunState:
        """A run may end by an answer too: by a wish, or because its driver was lost once too often."""
        before = driver.state.status
        state = await driver.answer()
        if state.status is not before:
            await self.wind_up(state)
        if (hint := hint_of(state)) is not None and not is_over(state):
            await self.hint(hint)
        return state

    async def _must_not_be_blocked(self, state: RunState, policy: Policy) -> None:
        """A run that was never begun is begun as blocked; one that was stays as it is and spends no delivery."""
        if not state.begun:
            return
        now = self.world.clock.now()
        refusal = await kept_out(self.ledger, self.redactor, state.workflow, state.run_id, policy, now)
        if refusal is not None:
            raise WorkflowBlocked(
                blocked_words(state.workflow, refusal, now), hint=f"Then: recoup resume {state.run_id}"
            )

    @contextlib.asynccontextmanager
    async def _or_released(self, lease: Lease) -> AsyncIterator[None]:
        """Whatever goes wrong, the run does not stay in our hands."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(LedgerError):
                await self.ledger.release(lease)
            raise

    async def _job(self, state: RunState, watcher: Watcher, lease: Lease) -> Job:
        files = self.files(state.run_id)
        files.make()
        if self.shipping is not None:
            inner = GitWorkspaces(files.root) if state.plan.workspace else None
            await self.shipping.enter(state, files, inner, lease.epoch, lambda: self._must_hold(lease))
        plan = await self.know_secrets_of(state)
        watcher = self._measured(state, watcher)
        policy = await self._recorded_policy(state.policy_digest)
        reuse_from = None if state.begun else state.reuse_from
        return await self._made_job(state.run_id, plan, policy, files, reuse_from, watcher, lease.epoch)

    def _must_hold(self, lease: Lease) -> None:
        """Asked before anything is removed: a driver that was frozen since its claim may have an heir here."""
        if self.world.clock.now().boot_us / 1e6 >= lease.deadline_boot_s:
            raise LeaseLost(
                f"the lease of run {lease.run_id} ran out before its driver began",
                hint=f"Begin again: recoup resume {lease.run_id}",
            )

    def _measured(self, state: RunState, watcher: Watcher) -> Watcher:
        if self.metrics is None:
            return watcher
        self.metrics.enter(state)
        return dataclasses.replace(watcher, event=self.metrics.beside(watcher.event))

    async def _made_job(
        self,
        run_id: str,
        plan: Plan,
        policy: Policy,
        files: RunFolder,
        reuse_from: str | None,
        watcher: Watcher,
        epoch: int | None = None,
    ) -> Job:
        """Without an epoch of a lease: for a question that leaves nothing behind."""
        if reuse_from is not None:
            await self._fetch_missing(reuse_from)
        job = Job(
            run_id=run_id,
            plan=plan,
            policy=policy,
            files=files,
            secrets=self._secrets(run_id, files, epoch),
            workspaces=None,
            watcher=watcher,
            earlier=None if reuse_from is None else await self._linked.earlier(reuse_from, plan),
        )
        if plan.workspace:
            # The run may follow another policy before it takes its next checkpoint.
            inner = GitWorkspaces(
                files.root, lambda: job.policy.checkpoint_bytes_max, must_hold=lambda: job.must_hold()
            )
            job.workspaces = inner
            if self.shipping is not None:
                job.workspaces = self.shipping.workspaces(run_id, files, inner, sends=epoch is not None)
        return job

    def _secrets(self, run_id: str, files: RunFolder, epoch: int | None) -> Secrets:
        vault = self._vault(files)
        if self.shipping is None or epoch is None:
            return vault
        return self.shipping.secrets(run_id, files, vault, epoch)

    def _evidence(self) -> Evidence:
        folder = FolderEvidence(self.settings.home / "evidence")
        return folder if self.shipping is None else self.shipping.evidence(folder, self.settings.home)

    async def _fetch_missing(self, run_id: str) -> None:
        if self.shipping is not None:
            await self.shipping.fetch_missing(run_id, self.files(run_id))

    def _submission(
        self,
        plan: Plan,
        raw: bytes,
        policy: Policy,
        inputs: Mapping[str, str | None],
        source: str | None,
        reuse: Reusing | None,
    ) -> RunSubmitted:
        return RunSubmitted(
            workflow=plan.name,
            plan_digest=digest(msgspec.to_builtins(plan)),
            plan=plan,
            plan_redacted=bool(self.redactor.found_in(raw)),
            inputs={
                name: _SECRET_GIVEN if plan.inputs[name].secret and value is not None else value
                for name, value in inputs.items()
            },
            policy_digest=policy_digest(policy),
            plan_source=source,
            parent_run_id=reuse.run_id if reuse else None,
            reuse_from=reuse.run_id if reuse else None,
            from_step=reuse.from_step if reuse else None,
        )

    async def _recorded_policy(self, wanted: str) -> Policy:
        policy = self._policies.get(wanted)
        if policy is None:
            body = await self.ledger.policy_body(wanted)
            if body is None:
                raise LedgerError(
                    f"the policy {wanted} is not in the ledger", hint="The database is damaged."
                )
            policy = stored_policy(body)
            if len(self._policies) >= _POLICIES_MAX:
                self._policies.clear()
            self._policies[wanted] = policy
        return policy

    def _world(self) -> World:
        keeper = LinuxKeeper()
        return World(
            clock=SystemClock(),
            ledger=self.ledger,
            redactor=self.redactor,
            evidence=self.evidence,
            inspector=WorldInspector(keeper, self.redactor, self.browsers),
            census=HostCensus(alone=isinstance(self.settings.database, Path)),
            runtimes={
                "run": ShellRuntime(keeper, self._open_log),
                "python": DeferredRuntime(lambda: _python_runtime(keeper, self._open_log)),
                "agent": DeferredRuntime(lambda: _agent_runtime(keeper, self._open_log)),
                "browser": self.browsers,
            },
            pages=self.browsers,
            recalls=self._recall,
            environ={k: v for k, v in self._environ.items() if k not in _OWN_SECRETS | _PER_ATTEMPT},
            cases=_LateCases(self),
            generations=self.generations,
            lease_ttl_s=self.settings.lease_s,
            heartbeat_s=self.settings.heartbeat_s,
            worker=self.worker_id,
        )

    def _browser_runtime(self) -> BrowserRuntime:
        """Raises ModuleNotFoundError."""
        from recoup.learning.screens import screen_of
        from recoup.processes.guard import Guard
        from recoup.runtimes.browser.runtime import BrowserRuntime
        from recoup.targets.resolver import PageResolver

        return BrowserRuntime(
            Guard, PageResolver(), self._open_log, self._environ, sketch=screen_of, traces=True
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

    def _open_log(self, order: Order) -> StepLog:
        path = self.files(order.run_id).log_path(order.step_index)
        heading = f"--- attempt {order.attempt} of {order.step_id} at {self.world.clock.now().iso()}"
        return StepLog(path, self.redactor, order.policy.log_bytes_max, heading)

    def _vault(self, files: RunFolder) -> Vault:
        if self._key is None:
            self._key = vault_key(self.settings.home, self.settings.key)
        return Vault(files.private / "secrets", self._key)

    def _inputs(self, plan: Plan, given: Mapping[str, str], source: str) -> dict[str, str | None]:
        unknown = [name for name in given if name not in plan.inputs]
        if unknown:
            known = ", ".join(plan.inputs) or "none"
            raise UsageError(f"the plan has no input {unknown[0]!r}", hint=f"Its inputs: {known}.")
        missing = [name for name, spec in plan.inputs.items() if spec.required and name not in given]
        if missing:
            raise UsageError(
                f"the plan needs a value for {', '.join(missing)}", hint=f"Add --input {missing[0]}=VALUE."
            )
        inputs = {name: given.get(name, spec.default) for name, spec in plan.inputs.items()}
        for name, spec in plan.inputs.items():
            value = inputs[name]
            if spec.secret and value is not None:
                self._register(f"inputs.{name}", value)
        problems = [
            Problem(f"inputs.{name}", "holds a registered secret: declare it `secret: true`")
            for name, value in inputs.items()
            if value and not plan.inputs[name].secret and self.redactor.found_in(value.encode())
        ]
        if problems:
            raise InvalidPlan(source, problems)
        return inputs

    def _refuse_secret_names(self, plan: Plan, source: str) -> None:
        """Names stand in the ledger as they are, so none of them may hold a secret."""
        names = [("name", plan.name), *((f"inputs.{name}", name) for name in plan.inputs)]
        for index, step in enumerate(plan.steps):
            names += [(f"steps[{index}].{key}", key) for key in (*step.outputs, *step.env)]
            names.append((f"steps[{index}].id", step.id))
        problems = [
            Problem(
                where,
                f"holds the value of {', '.join(held)}, which is a registered secret: call it otherwise",
            )
            for where, name in names
            if (held := self.redactor.found_in(name.encode()))
        ]
        if problems:
            raise InvalidPlan(source, problems)

    def _keep_secrets(
        self, files: RunFolder, plan: Plan, inputs: Mapping[str, str | None], kept: Mapping[str, str]
    ) -> None:
        """So that another process, which may not have them in its environment, still knows what to hide."""
        given = {f"inputs.{name}": inputs[name] for name, spec in plan.inputs.items() if spec.secret}
        given |= {f"secrets.{name}": value for name, value in kept.items()}
        for key, value in given.items():
            if value:
                self._vault(files).put(key, value)

    async def _plan_secrets(self, plan: Plan, reuse: Reusing | None) -> dict[str, str]:
        """Registered: those of the environment, and where it has one no longer, the value that the earlier run kept."""
        self._register_plan_secrets(plan)
        found = {name: self._environ[name] for name in plan.secrets if self._environ.get(name)}
        if reuse is None:
            return found
        await self._fetch_missing(reuse.run_id)
        vault = self._vault(self.files(reuse.run_id))
        for name in plan.secrets:
            with contextlib.suppress(RecoupError):  # it was not set there either
                value = vault.get(f"secrets.{name}")
                self._register(name, value)
                found.setdefault(name, value)
        return found

    def _register_plan_secrets(self, plan: Plan) -> None:
        for name in plan.secrets:
            if self._environ.get(name):
                self._register(name, self._environ[name])

    def _register_kept_secrets(self, vault: Vault, state: RunState, plan: Plan) -> None:
        for name, spec in plan.inputs.items():
            if spec.secret and state.inputs.get(name) is not None:
                self._register(f"inputs.{name}", vault.get(f"inputs.{name}"))
        for name in plan.secrets:
            with contextlib.suppress(NotFound):  # it was not set when the run was submitted
                self._register(name, vault.get(f"secrets.{name}"))
        for record in state.steps:
            for name in record.secret_outputs:
                key = f"steps.{record.step_id}.outputs.{name}"
                with contextlib.suppress(ValueError):
                    self.redactor.register(key, vault.get(key))

    def _register(self, name: str, value: str) -> None:
        register_secret(self.redactor, name, value)


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
        return await self._app.reporter.store_case(*about, evidence=evidence)


def _python_runtime(keeper: Keeper, open_log: Callable[[Order], StepLog]) -> Runtime:
    from recoup.runtimes.python_step import PythonRuntime

    return PythonRuntime(keeper, open_log)


def _agent_runtime(keeper: Keeper, open_log: Callable[[Order], StepLog]) -> Runtime:
    from recoup.runtimes.agent.runtime import AgentRuntime

    return AgentRuntime(keeper, open_log, tool_server())


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


def register_secret(redactor: SecretRedactor, name: str, value: str) -> None:
    try:
        redactor.register(name, value)
    except ValueError as error:
        raise UsageError(f"the secret {name} cannot be kept out of the records: {error}") from None


@dataclasses.dataclass(frozen=True, slots=True)
class Submitted:
    """A run in a queue."""

    run_id: str
    duplicate: bool = False
    """It was submitted before, under the same key."""
    note: str | None = None


@contextlib.asynccontextmanager
async def open_app(settings: Settings, environ: Mapping[str, str]) -> AsyncIterator[App]:
    make_home(settings.home)
    ledger = await open_ledger(settings.database)
    app = App(settings, environ, ledger)
    try:
        yield app
    finally:
        await app.close()
        await ledger.close()


async def open_ledger(database: Path | DatabaseUrl) -> Ledger:
    if isinstance(database, Path):
        return SqliteLedger(database)
    try:
        from recoup.ledger.postgres.ledger import PostgresLedger
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"a PostgreSQL database needs the package {error.name}", hint="pip install 'recoup[postgres]'"
        ) from None
    return await PostgresLedger.open(database.url)


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
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = home / f".write-{randomness.token_hex(4)}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SettingsError(
            f"the state folder {home} cannot be written: {error.strerror}",
            hint="Free some space or mend its permissions, or name another folder: RECOUP_HOME or --home.",
        ) from None


def new_run_id(iso: str) -> str:
    """Sorts by time, and can be typed: the first characters that are unique will do. 48 bits, as a gateway is given
    hundreds in a second: with 24 two of them would have the same id every few minutes."""
    day, clock = iso[:10].replace("-", ""), iso[11:19].replace(":", "")
    return f"{day}-{clock}-{randomness.token_hex(6)}"


def _must_be_drivable(state: RunState) -> None:
    if is_redelivery(state) or not (state.status.is_terminal or state.status is RunStatus.ESCALATED):
        return
    if state.status is RunStatus.ESCALATED:
        raise WaitsForOperator(
            f"run {state.run_id} waits for an operator: {state.reason}",
            hint=f"See what to do: recoup show {state.run_id}",
        )
    raise UsageError(
        f"run {state.run_id} has ended: {state.status}",
        hint=f"Mend the cause, then go on in a new run: recoup resume {state.run_id}",
    )


def _held_words(run_id: str, held: Held) -> str:
    owner = held.by.owner
    who = f"process {owner.pid} on {owner.host}" if owner else "another driver"
    return f"run {run_id} is being driven by {who}"
