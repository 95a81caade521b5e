"""A whole probe in one process: real ledger and keeper, kinds that do as they are told, time in the test's hands."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from recoup.kernel.probe_health import Sign
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.events import Event, ProbePayload
from recoup.model.probe import Action, Check, ExitCheck, Fault, ProbeConfig, ProcessKind, Resource
from recoup.ports import Clock, Ledger
from recoup.probe.kinds import holder_of
from recoup.probe.outboxes.opening import link_of
from recoup.probe.ports import Done, Holder, Outbox, Site
from recoup.probe.supervisor import Probe
from recoup.probe.world import ProbeWorld
from recoup.processes.census import HostCensus
from recoup.processes.keeper import shared_keeper
from recoup.redaction.redactor import SecretRedactor
from recoup.testing.clock import HandClock

LEASE_S = 1e9
"""Longer than any time that a test makes pass at once."""
PATIENCE_S = 30.0


class ScriptedHolder:
    """A resource that is what the test says: `good` is what its own check sees, `answers` what its actions return."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.good = True
        self.answers: list[Done] = []
        """Of the next actions; when there are none left they succeed."""
        self.done: list[str] = []
        """What it was told to do, in order."""
        self.up = False

    @property
    def own_check(self) -> Check | None:
        return ExitCheck(every_s=1, failures=1)

    @property
    def settle_s(self) -> float:
        return 0

    async def look(self) -> Sign:
        return Sign(good=self.good, reason="" if self.good else "the test says so")

    async def start(self) -> Done:
        return self._do("start")

    async def stop(self) -> Done:
        self.done.append("stop")
        self.up = False
        return Done()

    async def act(self, action: Action) -> Done:
        return self._do(action)

    async def downgrade(self, mode: str) -> Done:
        return self._do(mode)

    def fail(self, fault_class: str = "process_exited", *, final: bool = False) -> None:
        """Something is wrong with it, until somebody does something."""
        self.site.fault(Fault(fault_class=fault_class, reason="the test says so", final=final))

    def _do(self, what: str) -> Done:
        self.done.append(what)
        self.up = True
        return self.answers.pop(0) if self.answers else Done()


class ProbeHouse:
    """Everything a probe needs, in one folder. A second one in the same folder is a probe that was started again."""

    def __init__(
        self,
        root: Path,
        *resources: Resource,
        clock: Clock | None = None,
        scripted: bool = False,
        ledger: Ledger | None = None,
        outboxes: Sequence[Outbox] = (),
        chance: Callable[[], float] = lambda: 0.0,
        probe_id: str = "house",
        gateway: tuple[str, str] | None = None,
        lease_s: float = LEASE_S,
    ) -> None:
        """`gateway`: its address and token."""
        self.clock = clock or HandClock()
        self.ledger: Ledger = ledger or SqliteLedger(root / "ledger.db")
        self.events: list[Event] = []
        self._changed = asyncio.Event()
        self.holders: dict[str, ScriptedHolder] = {}
        self.world = ProbeWorld(
            clock=self.clock,
            ledger=self.ledger,
            redactor=SecretRedactor(),
            census=HostCensus(alone=True),
            keeper=shared_keeper(),
            environ={"PATH": os.environ.get("PATH", "")},
            home=root,
            lease_ttl_s=lease_s,
            heartbeat_s=lease_s / 3,
            chance=chance,
            seen=self._see,
        )
        url, token = gateway or (None, None)
        self.config = ProbeConfig(id=probe_id, resources=resources, folder=str(root), gateway=url)
        self.probe = Probe(
            self.world,
            self.config,
            lambda _lifeline: outboxes,
            self._scripted if scripted else holder_of,
            link_of(self.world, self.config, token),
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[ProbeHouse]:
        """Stopped in order at the end, and whatever went wrong in it raised here."""
        stop = asyncio.Event()
        task = asyncio.create_task(self.probe.run(stop))
        started = asyncio.create_task(self.probe.started.wait())
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        try:
            yield self
        finally:
            stop.set()
            await self._ended(task)

    async def _ended(self, task: asyncio.Task[None]) -> None:
        done, _ = await asyncio.wait({task}, timeout=PATIENCE_S)
        if not done:
            waiting = "\n".join(_waits_for(one) for one in asyncio.all_tasks())
            raise AssertionError(f"it does not stop; these wait:\n{waiting}\nand there were:\n{self.told()}")
        await task

    async def until(self, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        """Returns when it holds; looks whenever something was recorded. Fails with the events after some patience."""
        try:
            async with asyncio.timeout(patience_s):
                while not holds():
                    self._changed.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), 0.05)
        except TimeoutError:
            raise AssertionError("it did not come about; there were:\n" + "\n".join(self.told())) from None

    async def until_told(self, resource_id: str, event_type: str, times: int) -> None:
        """So many such facts were recorded of it."""
        await self.until(lambda: self.types(resource_id).count(event_type) >= times)

    async def pass_time(self, seconds: float) -> None:
        """On the clock, after giving everybody a moment to look at it, and before giving them another."""
        assert isinstance(self.clock, HandClock)
        await asyncio.sleep(0.02)
        self.clock.advance(seconds)
        await asyncio.sleep(0.02)

    def types(self, resource_id: str) -> list[str]:
        return [fact.TYPE for fact in self.facts(resource_id)]

    def facts(self, resource_id: str) -> list[ProbePayload]:
        payloads = (event.payload for event in self.events)
        return [one for one in payloads if isinstance(one, ProbePayload) and one.resource_id == resource_id]

    def phase(self, resource_id: str) -> str:
        return self.probe.minders[resource_id].state.phase

    def told(self) -> list[str]:
        return [f"{event.seq} {event.type} {event.raw.decode()}" for event in self.events]

    def _see(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()

    def _scripted(self, site: Site) -> Holder:
        self.holders[site.resource.id] = holder = ScriptedHolder(site)
        return holder


def process(name: str, *command: str, **more: object) -> Resource:
    """A resource of a command; `settle_s`, `stop_grace_s` and the like go to the process, the rest to the resource."""
    of_process = {"settle_s": 0.05, "stop_grace_s": 1.0}
    own = {key: more.pop(key) for key in tuple(more) if key in ProcessKind.__struct_fields__}
    kind = ProcessKind(command=command or ("sleep", "1000"), **{**of_process, **own})  # type: ignore[arg-type]
    return Resource(id=name, kind=kind, **more)  # type: ignore[arg-type]


def _waits_for(task: asyncio.Task[Any]) -> str:
    """Where it stands, from the outermost call to the innermost."""
    places: list[str] = []
    inner: Any = task.get_coro()
    while (frame := getattr(inner, "cr_frame", None)) is not None:
        places.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}")
        inner = inner.cr_await
    return f"{task.get_name()}: {' > '.join(places)}"
