"""A whole Recoup in one process: real ledger, real engine, a scripted runtime and time that flies."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from recoup.checks.inspector import WorldInspector
from recoup.engine.claim import Claimed, claim
from recoup.engine.driver import Driver
from recoup.engine.world import Job, Watcher, World
from recoup.evidence.folder import FolderEvidence
from recoup.evidence.run_folder import RunFolder
from recoup.evidence.vault import Vault
from recoup.kernel.canonical import digest
from recoup.kernel.fold import fold
from recoup.kernel.policies import policy_digest
from recoup.learning.recall import Recall
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.events import Event, RunSubmitted
from recoup.model.ids import ProcessIdentity, run_stream
from recoup.model.plan import Plan, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import RunState
from recoup.model.storage import Append, Draft, PolicyBody, StreamAppend
from recoup.ports import Clock, Ledger, Pages, Recalls, Runtime, Workspaces
from recoup.processes.keeper import LinuxKeeper
from recoup.redaction.redactor import SecretRedactor
from recoup.steps.browser.state import BrowserState
from recoup.steps.hooks import StatefulKind
from recoup.testing.clock import FakeClock
from recoup.testing.runtime import ScriptedRuntime


class Browser(Runtime, Pages, Protocol):
    """A scripted one, or the real one."""


class FakeCensus:
    """One living process, this one, and as many dead ones as were named."""

    def __init__(self, name: str = "driver") -> None:
        self._identity = ProcessIdentity(name, "boot-1", os.getpid(), 1)
        self.dead: set[ProcessIdentity] = set()

    def own_identity(self) -> ProcessIdentity:
        return self._identity

    def is_alive(self, identity: ProcessIdentity) -> bool | None:
        return identity not in self.dead

    def restart(self) -> None:
        """From now on it is another process, and the former one is gone."""
        gone = self._identity
        self.dead.add(gone)
        self._identity = ProcessIdentity(gone.host, gone.boot_id, gone.pid, gone.start_ticks + 1)

    async def clear(self, run_id: str, keeper: ProcessIdentity | None) -> None:
        del run_id
        if keeper is not None:
            self.dead.add(keeper)


class House:
    """Everything a run needs, in one folder."""

    def __init__(
        self,
        root: Path,
        runtime: Runtime | None = None,
        clock: Clock | None = None,
        policy: Policy | None = None,
        name: str = "driver",
        redactor: SecretRedactor | None = None,
        ledger: Ledger | None = None,
        browser: Browser | None = None,
    ) -> None:
        self.root = root
        self.runtime = runtime or ScriptedRuntime()
        self.clock = clock or FakeClock()
        self.policy = policy or Policy()
        self.ledger: Ledger = ledger or SqliteLedger(root / "ledger.db")
        self.redactor = redactor or SecretRedactor()
        self.census = FakeCensus(name)
        self.seen: list[Event] = []
        self.pages = browser
        self.recalls = Recall(root / "learned")
        self.world = World(
            clock=self.clock,
            ledger=self.ledger,
            redactor=self.redactor,
            evidence=FolderEvidence(root / "evidence"),
            inspector=WorldInspector(LinuxKeeper(), self.redactor, browser),
            census=self.census,
            runtimes={"run": self.runtime} | ({"browser": browser} if browser else {}),
            kinds=kinds_of(browser, self.recalls),
            environ={"PATH": os.environ.get("PATH", "")},
        )

    async def submit(self, plan: Plan, run_id: str = "run-1", source: str | None = None) -> str:
        body = policy_digest(self.policy)
        fact = RunSubmitted(
            workflow=plan.name,
            plan_digest=digest(msgspec.to_builtins(plan)),
            plan=plan,
            plan_redacted=False,
            inputs={name: spec.default for name, spec in plan.inputs.items()},
            policy_digest=body,
            plan_source=source,
        )
        await self.ledger.append(
            Append(
                at=self.clock.now(),
                streams=(StreamAppend(run_stream(run_id), (Draft(fact.TYPE, self.redactor.seal(fact)),), 0),),
                policies=(PolicyBody(body, self.redactor.seal(self.policy)),),
            )
        )
        return run_id

    async def redactor_of(self, _run_id: str | None) -> SecretRedactor:
        return self.redactor

    async def driver(self, run_id: str, workspaces: Workspaces | None = None) -> Driver:
        taken = await claim(self.world, run_id)
        assert isinstance(taken, Claimed), f"{run_id} is held by {taken}"
        state = await self.state(run_id)
        files = RunFolder(self.root / "runs" / run_id).driven(taken.lease.epoch)
        job = Job(
            run_id=run_id,
            plan=state.plan,
            policy=self.policy,
            files=files,
            redactor=self.redactor,
            secrets=Vault(files.private / "secrets", b"k" * 32, files.aside),
            workspaces=workspaces,
            watcher=Watcher(event=self.seen.append),
        )
        return Driver(self.world, job, state, taken.lease, taken.replaced)

    async def run(self, plan: Plan, run_id: str = "run-1") -> RunState:
        """Submit and drive to the end of one delivery."""
        await self.submit(plan, run_id)
        return await (await self.driver(run_id)).drive()

    async def state(self, run_id: str) -> RunState:
        return fold(run_id, await self.ledger.read(run_stream(run_id)))

    async def types(self, run_id: str = "run-1") -> list[str]:
        return [event.type for event in await self.ledger.read(run_stream(run_id))]


def kinds_of(browser: Browser | None, recalls: Recalls) -> dict[str, Callable[[], StatefulKind]]:
    """With what the browser's steps keep, if there is one."""
    if browser is None:
        return {}
    state = BrowserState(browser, recalls)
    return {"browser": lambda: state}


def plan_of(*steps: str | Step, name: str = "workflow", folder: str = ".") -> Plan:
    """A plan of trivial steps, given by id, or of steps given whole."""
    made: Sequence[Step] = [Step(id=s, action=RunAction("true")) if isinstance(s, str) else s for s in steps]
    return Plan(name=name, steps=tuple(made), folder=folder)
