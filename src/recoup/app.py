"""Builds every concrete object. Only this file knows which backend stands behind a port."""

from __future__ import annotations

import contextlib
import secrets as randomness
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import msgspec

from recoup.clock import SystemClock
from recoup.engine.claim import Held, claim
from recoup.engine.driver import Driver
from recoup.engine.entry import is_redelivery
from recoup.engine.world import Job, Watcher, World
from recoup.errors import (
    InvalidPlan,
    LedgerError,
    NotFound,
    Problem,
    SettingsError,
    UsageError,
    WaitsForOperator,
)
from recoup.evidence.folder import FolderEvidence
from recoup.evidence.run_folder import RunFolder
from recoup.evidence.vault import Vault, vault_key
from recoup.kernel.canonical import digest
from recoup.kernel.fold import fold
from recoup.kernel.policies import policy_digest
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.events import Event, RunSubmitted
from recoup.model.ids import Lease, run_stream
from recoup.model.outcome import Order
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import Append, Control, Draft, PolicyBody, StreamAppend
from recoup.processes.census import HostCensus
from recoup.processes.keeper import LinuxKeeper
from recoup.redaction.environment import secret_names
from recoup.redaction.redactor import SecretRedactor
from recoup.runtimes.inspector import WorldInspector
from recoup.runtimes.shell import ShellRuntime
from recoup.runtimes.step_log import StepLog
from recoup.settings import Settings
from recoup.workspace.workspaces import GitWorkspaces

_OWN_SECRETS = frozenset({"RECOUP_KEY", "RECOUP_TOKEN", "RECOUP_DATABASE"})
_PER_ATTEMPT = frozenset({"RECOUP_RETRY_CONTEXT", "RECOUP_OUTPUT"})
_SECRET_GIVEN = "[secret]"
_EVENTS_PAGE = 5_000


class App:
    """One process's Recoup: a ledger, a redactor, runtimes, and the runs in its home."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], ledger: SqliteLedger) -> None:
        self.settings = settings
        self.ledger = ledger
        self._environ = environ
        self.redactor = SecretRedactor()
        for name, value in secret_names(environ).items():
            self.redactor.register(name, value)
        self.evidence = FolderEvidence(settings.home / "evidence")
        self._key: bytes | None = None
        self.world = self._world()

    # Runs

    async def submit(self, plan: Plan, policy: Policy, given: Mapping[str, str], source: str | None) -> str:
        """Record a run that is to be driven. Nothing is recorded when the plan or its inputs cannot be used."""
        run_id = new_run_id(self.world.clock.now().iso())
        files = self.files(run_id)
        self._register_plan_secrets(plan)
        inputs = self._inputs(plan, given, source or plan.name)
        self._refuse_secret_names(plan, source or plan.name)
        if plan.workspace is not None:
            await GitWorkspaces(files.root).check(plan.workspace)
        raw = msgspec.json.encode(plan)
        files.make()
        files.write_plan(raw)
        self._keep_secrets(run_id, plan, inputs)
        body = policy_digest(policy)
        payload = RunSubmitted(
            workflow=plan.name,
            plan_digest=digest(msgspec.to_builtins(plan)),
            plan=plan,
            plan_redacted=bool(self.redactor.found_in(raw)),
            inputs={
                name: _SECRET_GIVEN if plan.inputs[name].secret and value is not None else value
                for name, value in inputs.items()
            },
            policy_digest=body,
            plan_source=source,
        )
        draft = Draft(RunSubmitted.TYPE, self.redactor.seal(payload))
        await self.ledger.append(
            Append(
                at=self.world.clock.now(),
                streams=(StreamAppend(run_stream(run_id), (draft,), 0),),
                policies=(PolicyBody(body, self.redactor.seal(policy)),),
            )
        )
        return run_id

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
        return Driver(self.world, job, state, taken.lease, taken.replaced)

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
        plan = msgspec.json.decode(_private_plan(files), type=Plan) if state.plan_redacted else state.plan
        policy = await self._recorded_policy(state.policy_digest)
        self._register_plan_secrets(plan)
        vault = self._vault(state.run_id)
        self._register_kept_secrets(vault, state, plan)
        return Job(
            run_id=state.run_id,
            plan=plan,
            policy=policy,
            files=files,
            secrets=vault,
            workspaces=GitWorkspaces(files.root, policy.checkpoint_bytes_max) if plan.workspace else None,
            watcher=watcher,
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
            runtimes={"run": ShellRuntime(keeper, self._open_log)},
            environ={k: v for k, v in self._environ.items() if k not in _OWN_SECRETS | _PER_ATTEMPT},
            lease_ttl_s=self.settings.lease_s,
            heartbeat_s=self.settings.heartbeat_s,
        )

    def _open_log(self, order: Order) -> StepLog:
        path = self.files(order.run_id).log_path(order.step_index)
        heading = f"--- attempt {order.attempt} of {order.step_id} at {self.world.clock.now().iso()}"
        return StepLog(path, self.redactor, order.policy.log_bytes_max, heading)

    def _vault(self, run_id: str) -> Vault:
        if self._key is None:
            self._key = vault_key(self.settings.home, self.settings.key)
        return Vault(self.files(run_id).private / "secrets", self._key)

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

    def _keep_secrets(self, run_id: str, plan: Plan, inputs: Mapping[str, str | None]) -> None:
        """So that another process, which may not have them in its environment, still knows what to hide."""
        given = {f"inputs.{name}": inputs[name] for name, spec in plan.inputs.items() if spec.secret}
        given |= {f"secrets.{name}": self._environ.get(name) for name in plan.secrets}
        for key, value in given.items():
            if value:
                self._vault(run_id).put(key, value)

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
        try:
            self.redactor.register(name, value)
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
    plan = state.plan_source or "PLAN"
    raise UsageError(
        f"run {state.run_id} has ended: {state.status}",
        hint=f"Mend the cause, then run the plan again, all its steps: recoup run {plan}",
    )


def _held_words(run_id: str, held: Held) -> str:
    owner = held.by.owner
    who = f"process {owner.pid} on {owner.host}" if owner else "another driver"
    return f"run {run_id} is being driven by {who}"


def _private_plan(files: RunFolder) -> bytes:
    try:
        return files.plan_path.read_bytes()
    except FileNotFoundError:
        raise NotFound(
            "the plan of this run holds a secret and is kept on the machine that began it",
            hint="Resume it there.",
        ) from None
