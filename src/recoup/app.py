"""Builds every concrete object. Only this file knows which backend stands behind a port."""

from __future__ import annotations

import contextlib
import secrets as randomness
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from recoup.clock import SystemClock
from recoup.engine.arguments import digest_now
from recoup.engine.claim import Held, claim
from recoup.engine.driver import Driver
from recoup.engine.entry import is_redelivery
from recoup.engine.lease import LeaseLifeline
from recoup.engine.reusing import find_reuse
from recoup.engine.world import EarlierRun, Job, Watcher, World
from recoup.errors import (
    InvalidPlan,
    LedgerError,
    NotFound,
    Problem,
    RecoupError,
    SettingsError,
    UsageError,
    WaitsForOperator,
)
from recoup.evidence.folder import FolderEvidence
from recoup.evidence.run_folder import RunFolder
from recoup.evidence.vault import Vault, vault_key
from recoup.kernel.canonical import digest
from recoup.kernel.earlier import Earlier, look_back, with_family
from recoup.kernel.elapsed import elapsed_s
from recoup.kernel.fold import fold, submitted
from recoup.kernel.policies import policy_digest
from recoup.kernel.prefix import is_good
from recoup.kernel.reuse import Reuse, repeated
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.events import Event, RunSubmitted
from recoup.model.ids import Lease, run_stream
from recoup.model.outcome import Order
from recoup.model.plan import Plan, Repeat
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import Append, Control, Draft, PolicyBody, StreamAppend
from recoup.ports import Keeper, Runtime
from recoup.processes.census import HostCensus
from recoup.processes.keeper import LinuxKeeper
from recoup.redaction.environment import secret_names
from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.redactor import SecretRedactor
from recoup.runtimes.deferred import DeferredRuntime
from recoup.runtimes.inspector import WorldInspector
from recoup.runtimes.shell import ShellRuntime
from recoup.runtimes.step_log import StepLog
from recoup.settings import Settings
from recoup.workspace.disk import remove_tree
from recoup.workspace.workspaces import GitWorkspaces

_OWN_SECRETS = frozenset({"RECOUP_KEY", "RECOUP_TOKEN", "RECOUP_DATABASE"})
_PER_ATTEMPT = frozenset({"RECOUP_RETRY_CONTEXT", "RECOUP_OUTPUT", "RECOUP_PROGRESS"})
_SECRET_GIVEN = "[secret]"
_EVENTS_PAGE = 5_000
_FAMILY_RUNS_MAX = 1_000
_PREVIEW = ".preview-"
_PREVIEW_S = 3600
"""The longest that a look at what can be reused may take."""


@dataclass(frozen=True, slots=True)
class Reusing:
    """The run whose proven steps a new one is to reuse, and the step from which on it must not."""

    run_id: str
    from_step: str | None = None


class App:
    """One process's Recoup: a ledger, a redactor, runtimes, and the runs in its home."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], ledger: SqliteLedger) -> None:
        self.settings = settings
        self.ledger = ledger
        self._environ = environ
        self.redactor = environment_redactor(environ)
        self.evidence = FolderEvidence(settings.home / "evidence")
        self._key: bytes | None = None
        self.world = self._world()

    # Runs

    async def submit(
        self,
        plan: Plan,
        policy: Policy,
        given: Mapping[str, str],
        source: str | None,
        reuse: Reusing | None = None,
    ) -> str:
        """Record a run that is to be driven. Nothing is recorded when the plan or its inputs cannot be used."""
        run_id = new_run_id(self.world.clock.now().iso())
        files = self.files(run_id)
        kept = self._plan_secrets(plan, reuse)
        inputs = self._inputs(plan, given, source or plan.name)
        self._refuse_secret_names(plan, source or plan.name)
        if plan.workspace is not None:
            await GitWorkspaces(files.root).check(plan.workspace)
        raw = msgspec.json.encode(plan)
        files.make()
        files.write_plan(raw)
        self._keep_secrets(files, plan, inputs, kept)
        payload = self._submission(plan, raw, policy, inputs, source, reuse)
        draft = Draft(RunSubmitted.TYPE, self.redactor.seal(payload))
        await self.ledger.append(
            Append(
                at=self.world.clock.now(),
                streams=(StreamAppend(run_stream(run_id), (draft,), 0),),
                policies=(PolicyBody(payload.policy_digest, self.redactor.seal(policy)),),
            )
        )
        return run_id

    async def preview(
        self, plan: Plan, policy: Policy, given: Mapping[str, str], source: str | None, reuse: Reusing
    ) -> Reuse:
        """What a run of this plan would reuse. Nothing is recorded, and nothing is left behind."""
        kept = self._plan_secrets(plan, reuse)
        inputs = self._inputs(plan, given, source or plan.name)
        payload = self._submission(plan, msgspec.json.encode(plan), policy, inputs, source, reuse)
        now = self.world.clock.now()
        with _throwaway(self.settings.home) as files:
            self._keep_secrets(files, plan, inputs, kept)
            job = await self._made_job(new_run_id(now.iso()), plan, policy, files, reuse.run_id, Watcher())
            baseline = None
            if job.workspaces is not None and plan.workspace is not None:
                baseline = await job.workspaces.create(plan.workspace)
            lifeline = LeaseLifeline(now.boot_us / 1e6 + _PREVIEW_S)
            return await find_reuse(self.world, job, submitted(job.run_id, payload, now), baseline, lifeline)

    async def recorded(self, state: RunState) -> tuple[Plan, dict[str, str]]:
        """The plan of a run as it is run, and the inputs that it was given."""
        files = self.files(state.run_id)
        plan, vault = _plan_of(state, files), self._vault(files)
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

    async def drive(
        self, run_id: str, watcher: Watcher, on_driver: Callable[[Driver], None] = lambda _driver: None
    ) -> RunState:
        """Drive a run until it ends, waits or is interrupted."""
        driver = await self._driver(run_id, watcher)
        on_driver(driver)
        return await driver.drive()

    async def carry_out(self, control: Control) -> RunState | None:
        """Carry out the controls of a run that nobody drives. None: somebody does, or did a moment ago."""
        taken = await claim(self.world, control.run_id)
        if isinstance(taken, Held):
            return None
        async with self._or_released(taken.lease):
            state = await self.state(control.run_id)
            driver = Driver(self.world, await self._job(state, Watcher()), state, taken.lease, taken.replaced)
            return await driver.answer()

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

    async def find(self, name: str) -> str:
        """A run id from its beginning, or from `last`."""
        if name == "last":
            newest = await self.ledger.runs(limit=1)
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

    def know_secrets_of(self, state: RunState) -> Plan:
        """Whoever stores words about a run must hide what the run hides. Gives the plan that told."""
        files = self.files(state.run_id)
        plan = _plan_of(state, files)
        self._register_plan_secrets(plan)
        self._register_kept_secrets(self._vault(files), state, plan)
        return plan

    def files(self, run_id: str) -> RunFolder:
        return RunFolder(self.settings.home / "runs" / run_id)

    # Inside

    async def _driver(self, run_id: str, watcher: Watcher) -> Driver:
        taken = await claim(self.world, run_id)
        if isinstance(taken, Held):
            raise UsageError(_held_words(run_id, taken), hint=f"Watch it: recoup events {run_id} --follow")
        async with self._or_released(taken.lease):
            state = await self.state(run_id)
            _must_be_drivable(state)
            job = await self._job(state, watcher)
            await self._must_not_repeat(state, job)
        return Driver(self.world, job, state, taken.lease, taken.replaced)

    async def _must_not_repeat(self, state: RunState, job: Job) -> None:
        """What a run that is linked to this one has done since this one began is done."""
        steps = zip(job.plan.steps, state.steps, strict=True)
        left = [step for step, record in steps if step.repeat is Repeat.NEVER and not is_good(record)]
        if not left or state.delivery == 0:
            return
        for run_id in await self._family(state.run_id):
            for relative in await self._looked_back(run_id):
                for step in left:
                    if repeated(relative, step, digest_now(step, job, state)):
                        raise UsageError(
                            f"{step.id} was done, or may have been, in run {run_id}, which is linked to this one, "
                            "and must not be repeated",
                            hint=f"Go on there: recoup show {run_id}",
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

    async def _job(self, state: RunState, watcher: Watcher) -> Job:
        files = self.files(state.run_id)
        files.make()
        plan = self.know_secrets_of(state)
        policy = await self._recorded_policy(state.policy_digest)
        begun = state.delivery > 0
        return await self._made_job(
            state.run_id, plan, policy, files, None if begun else state.reuse_from, watcher
        )

    async def _made_job(
        self,
        run_id: str,
        plan: Plan,
        policy: Policy,
        files: RunFolder,
        reuse_from: str | None,
        watcher: Watcher,
    ) -> Job:
        never = any(step.repeat is Repeat.NEVER for step in plan.steps)
        return Job(
            run_id=run_id,
            plan=plan,
            policy=policy,
            files=files,
            secrets=self._vault(files),
            workspaces=GitWorkspaces(files.root, policy.checkpoint_bytes_max) if plan.workspace else None,
            watcher=watcher,
            earlier=await self._earlier(reuse_from, never) if reuse_from is not None else None,
        )

    async def _earlier(self, run_id: str, has_unrepeatable: bool) -> EarlierRun | None:
        """None: it is gone."""
        events = await self.events(run_id)
        if not events:
            return None
        state, files = fold(run_id, events), self.files(run_id)
        try:
            plan = _plan_of(state, files)
        except NotFound:
            plan = state.plan  # whatever in it is redacted will be found to differ
        job = Job(run_id, plan, Policy(), files, self._vault(files), None)
        family = await self._family(run_id) if has_unrepeatable else []
        relatives = [looked_back for one in family for looked_back in await self._looked_back(one)]
        return EarlierRun(with_family(look_back(state, plan, events), relatives), job)

    async def _looked_back(self, run_id: str) -> list[Earlier]:
        """None where it is gone."""
        events = await self.events(run_id)
        states = [fold(run_id, events)] if events else []
        return [look_back(state, state.plan, events) for state in states]

    async def _family(self, run_id: str) -> list[str]:
        """The other runs that reused it, that it reused, or that reused the same: what one has done is done. Looked for
        among the newest: nobody goes on with a run for ever."""
        links: dict[str, str | None] = {}
        for row in await self.ledger.runs(limit=_FAMILY_RUNS_MAX):
            for first in await self.ledger.read(run_stream(row.run_id), 0, 1):
                links[row.run_id] = getattr(first.payload, "reuse_from", None)
        return sorted(_connected(run_id, links) - {run_id})

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
        body = await self.ledger.policy_body(wanted)
        if body is None:
            raise LedgerError(f"the policy {wanted} is not in the ledger", hint="The database is damaged.")
        return msgspec.json.decode(body, type=Policy)

    def _world(self) -> World:
        keeper = LinuxKeeper()
        return World(
            clock=SystemClock(),
            ledger=self.ledger,
            redactor=self.redactor,
            evidence=self.evidence,
            inspector=WorldInspector(keeper, self.redactor),
            census=HostCensus(),
            runtimes={
                "run": ShellRuntime(keeper, self._open_log),
                "python": DeferredRuntime(lambda: _python_runtime(keeper, self._open_log)),
                "agent": DeferredRuntime(lambda: _agent_runtime(keeper, self._open_log)),
            },
            environ={k: v for k, v in self._environ.items() if k not in _OWN_SECRETS | _PER_ATTEMPT},
            lease_ttl_s=self.settings.lease_s,
            heartbeat_s=self.settings.heartbeat_s,
        )

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

    def _plan_secrets(self, plan: Plan, reuse: Reusing | None) -> dict[str, str]:
        """Registered: those of the environment, and where it has one no longer, the value that the earlier run kept."""
        self._register_plan_secrets(plan)
        found = {name: self._environ[name] for name in plan.secrets if self._environ.get(name)}
        if reuse is None:
            return found
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


def _python_runtime(keeper: Keeper, open_log: Callable[[Order], StepLog]) -> Runtime:
    from recoup.runtimes.python_step import PythonRuntime

    return PythonRuntime(keeper, open_log)


def _agent_runtime(keeper: Keeper, open_log: Callable[[Order], StepLog]) -> Runtime:
    from recoup.runtimes.agent.runtime import AgentRuntime

    return AgentRuntime(keeper, open_log)


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


@contextlib.asynccontextmanager
async def open_app(settings: Settings, environ: Mapping[str, str]) -> AsyncIterator[App]:
    make_home(settings.home)
    ledger = SqliteLedger(settings.database)
    try:
        yield App(settings, environ, ledger)
    finally:
        await ledger.close()


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
    """Sorts by time, and can be typed: the first characters that are unique will do."""
    day, clock = iso[:10].replace("-", ""), iso[11:19].replace(":", "")
    return f"{day}-{clock}-{randomness.token_hex(3)}"


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


@contextlib.contextmanager
def _throwaway(home: Path) -> Iterator[RunFolder]:
    """A run's folder for the time of one question; also removes those of questions that were killed."""
    for left in home.glob(f"{_PREVIEW}*"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < time.time() - _PREVIEW_S:
                remove_tree(left)
    files = RunFolder(home / f"{_PREVIEW}{randomness.token_hex(4)}")
    try:
        files.make()
        yield files
    finally:
        remove_tree(files.root)


def _connected(run_id: str, links: Mapping[str, str | None]) -> set[str]:
    """The runs that are linked to this one, directly or through others."""
    found, before = {run_id}, 0
    while len(found) > before:
        before = len(found)
        for one, other in links.items():
            if one in found or other in found:
                found |= {run for run in (one, other) if run is not None}
    return found


def _plan_of(state: RunState, files: RunFolder) -> Plan:
    """As it is to be run; the ledger's may be redacted."""
    return msgspec.json.decode(_private_plan(files), type=Plan) if state.plan_redacted else state.plan


def _private_plan(files: RunFolder) -> bytes:
    try:
        return files.plan_path.read_bytes()
    except FileNotFoundError:
        raise NotFound(
            "the plan of this run holds a secret and is kept on the machine that began it",
            hint="Resume it there.",
        ) from None
