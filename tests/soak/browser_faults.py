"""Faults for one run in a browser: which, when and to whom, by a seed; and how they are given to real processes."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.soak.shop import Request, Shop

from recoup.ledger.holders import lock_holders
from recoup.processes.process_table import Process, descendants, process_of, process_table, send

SIGN_IN: Final = "sign-in"
NEVER: Final = (SIGN_IN, "add", "order", "upload", "confirm")
"""The steps that must not be repeated, each with an effect in the shop."""
SHELL: Final = "charge"
GATE: Final = "gate"
STEPS: Final = (
    *(
        "open",
        "who",
        "sign-in",
        "search",
        "find",
        "item",
        "quantity",
        "add",
        "cart",
        "panel",
        "note",
        "total",
    ),
    *(SHELL, GATE, "order", "documents", "upload", "orders", "confirm"),
)
REQUESTS: Final = {
    "open": ("GET", "/sign-in"),
    "sign-in": ("POST", "/sign-in"),
    "find": ("GET", "/search"),
    "item": ("GET", "/item"),
    "add": ("POST", "/cart"),
    "cart": ("GET", "/cart"),
    "order": ("POST", "/order"),
    "documents": ("GET", "/documents"),
    "upload": ("POST", "/upload"),
    "orders": ("GET", "/orders"),
    "confirm": ("POST", "/confirm"),
}
"""What the shop gets in the course of a step."""
LEASE_S: Final = 3.0
HEARTBEAT_S: Final = 0.6
_LOOK_S: Final = 0.02
_FREEZE_TRIES: Final = 100
_MORE: Final = (0, 0, 1, 1, 2)
"""Faults beside the first."""
_OFTEN: Final = (SHELL, GATE, "order", *NEVER)
"""Steps that are hit more often than others."""


class Victim(StrEnum):
    DRIVER = "driver"
    GUARD = "guard"
    BROWSER = "browser"
    RENDERER = "renderer"
    NETWORK = "network service"
    NODE = "node"
    KEEPER = "keeper"
    DRIVER_AND_GUARD = "driver and guard"
    SHOP = "shop"


class Harm(StrEnum):
    KILL = "kill"
    FREEZE = "freeze"
    LONG_FREEZE = "freeze past the lease"
    RESTART = "restart"
    HANG = "hang"


PROCESSES: Final = tuple(one for one in Victim if one not in (Victim.DRIVER_AND_GUARD, Victim.SHOP))
SHARED: Final = (Victim.DRIVER, Victim.NODE, Victim.DRIVER_AND_GUARD)
"""Of a worker these are the same for all its runs."""


@dataclass(frozen=True)
class Fault:
    """One fault, by the step and the moment at which it comes."""

    victim: Victim
    harm: Harm
    step: str
    moment: str
    """An event of the ledger: `started`, `launched`, `finished`, `waiting`; or of the shop: `arrived`, `done`."""
    delay_s: float
    length_s: float
    """How long a freeze, a hang or a restart takes."""
    replaced: bool
    """Somebody tries to go on with the run while its driver is frozen."""

    def __str__(self) -> str:
        lasts = "" if self.harm is Harm.KILL else f" for {self.length_s:.2f} s"
        later = f" + {self.delay_s:.2f} s" if self.delay_s else ""
        return f"{self.harm} the {self.victim}{lasts} at {self.step} {self.moment}{later}"

    @property
    def kind(self) -> str:
        return f"{self.harm} {self.victim}"


KINDS: Final = (
    *((victim, harm) for victim in PROCESSES for harm in (Harm.KILL, Harm.FREEZE, Harm.LONG_FREEZE)),
    (Victim.DRIVER_AND_GUARD, Harm.KILL),
    (Victim.SHOP, Harm.RESTART),
    (Victim.SHOP, Harm.HANG),
)


def faults_of(seed: str, number: int) -> list[Fault]:
    """One to three, in the order of their steps. The kinds take turns by the number of the run, so that each comes, and at
    most one is aimed at a step that must not be repeated while it is under way: each such hit may cost a question."""
    chance = random.Random(seed)
    kinds = [KINDS[number % len(KINDS)], *chance.choices(KINDS, k=chance.choice(_MORE))]
    places = sorted(((_step(chance, victim), victim, harm) for victim, harm in kinds), key=_place)
    faults = list[Fault]()
    for step, victim, harm in places:
        aimed = any(fault.step in NEVER and fault.moment != "finished" for fault in faults)
        faults.append(_fault(chance, step, victim, harm, only_afterwards=aimed and step in NEVER))
    return faults


def _step(chance: random.Random, victim: Victim) -> str:
    return SHELL if victim is Victim.KEEPER else chance.choice((*STEPS, *_OFTEN))


def _place(one: tuple[str, Victim, Harm]) -> int:
    return STEPS.index(one[0])


def _fault(chance: random.Random, step: str, victim: Victim, harm: Harm, *, only_afterwards: bool) -> Fault:
    moments = ["started", "launched", "finished", *(("arrived", "done") if step in REQUESTS else ())]
    if step == GATE:
        moments = ["waiting", "finished"]
    elif victim is Victim.KEEPER:
        moments = ["launched"]
    moment = "finished" if only_afterwards else chance.choice(moments)
    span = (1.2 * LEASE_S, 2.2 * LEASE_S) if harm is Harm.LONG_FREEZE else (0.2, 0.5 * LEASE_S)
    return Fault(
        victim,
        harm,
        step,
        moment,
        delay_s=0.0 if moment in ("arrived", "done") or only_afterwards else chance.uniform(0, 0.3),
        length_s=chance.uniform(*span),
        replaced=chance.random() < 0.5,
    )


@dataclass
class Injected:
    """A fault that was given: to which processes, and from when to when."""

    fault: Fault
    began_us: int
    ended_us: int
    pids: tuple[int, ...]
    driver: int
    where: str
    """The event at which it was given, which may be a later one than was meant."""

    def __str__(self) -> str:
        at = time.strftime("%H:%M:%S", time.gmtime(self.began_us / 1e6))
        took = (self.ended_us - self.began_us) / 1e6
        return (
            f"{self.fault}: given {at}.{self.began_us % 1_000_000:06} (+{took:.2f} s) at {self.where},"
            f" pids {', '.join(map(str, self.pids)) or '-'}, driver {self.driver}"
        )


@dataclass
class Injector:
    """Gives a run its faults, one after the other, as the ledger and the shop come to them."""

    faults: list[Fault]
    shop: Shop
    database: Path | None
    """A SQLite file: nobody is frozen who holds its lock, for then nobody writes at all."""
    injected: list[Injected] = field(default_factory=list)
    driver: int = 0
    """Who drives the run now, as the ledger says."""
    keepers: dict[str, int] = field(default_factory=dict)
    """Who keeps what a step has started: the guard of the browser, or the keeper of a command."""
    frozen_driver: threading.Event = field(default_factory=threading.Event)
    """The driver stands still, and somebody is to take the run from it."""
    on_kill: Callable[[int], None] = lambda _pid: None
    """Told of the driver's death, so that a worker can be replaced."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _claimed: bool = False
    """The pending fault is about to be given."""
    _timers: list[tuple[threading.Timer, Callable[[], None]]] = field(default_factory=list)

    @property
    def pending(self) -> Fault | None:
        given = len(self.injected)
        return self.faults[given] if given < len(self.faults) else None

    def saw_event(self, kind: str, payload: dict[str, Any]) -> None:
        """An event of the run, in the order of the ledger."""
        owner = payload.get("owner") if kind in ("task.run.started", "task.run.resumed") else None
        step, moment = str(payload.get("stepId") or ""), kind.rpartition(".")[2]
        with self._lock:
            if owner:
                self.driver = owner["pid"]
            if moment == "launched":
                self.keepers.pop(step, None)
                self.keepers[step] = payload["keeper"]["pid"]
            fault = self.pending
            if fault is None or not self._is_due(fault, step, moment):
                return
            self._claimed = True
        time.sleep(fault.delay_s)  # not with the lock: the shop goes on meanwhile
        with self._lock:
            self._claimed = False
            self._give(fault, f"{step} {moment}")

    def _is_due(self, fault: Fault, step: str, moment: str) -> bool:
        """Also at the first event after it: the moment may have gone by, or its victim was not there."""
        if step not in STEPS or moment not in ("started", "launched", "finished", "waiting"):
            return False
        if step == fault.step:
            waits_for_shop = fault.moment in ("arrived", "done") and moment != "finished"
            return not waits_for_shop and (moment == fault.moment or _RANK[moment] > _RANK[fault.moment])
        return STEPS.index(step) > STEPS.index(fault.step)

    def saw_request(self, request: Request, moment: str) -> None:
        with self._lock:
            fault = self.pending
            if fault is None or fault.moment != moment or self._claimed:
                return
            method, path = REQUESTS[fault.step]
            if request.method == method and request.path.startswith(path):
                if fault.step == "find" and not request.query:
                    return
                self._give(fault, f"{request.method} {request.path} {moment}")

    def finish(self) -> None:
        """Everybody who was frozen goes on, and the shop is open."""
        with self._lock:
            timers, self._timers = self._timers, []
        for timer, end in timers:
            timer.cancel()
            end()

    # One fault

    def _give(self, fault: Fault, where: str) -> None:
        began_us = _now_us()
        if fault.victim is Victim.SHOP:
            self._trouble_the_shop(fault)
            pids: tuple[int, ...] = ()
        else:
            victims = self._processes(fault)
            if not victims:
                return
            pids = tuple(process.pid for process in victims)
            began_us = _now_us()
            self._harm(fault, victims)
        lasts_us = 0 if fault.harm is Harm.KILL else int(1e6 * fault.length_s)
        self.injected.append(Injected(fault, began_us, began_us + lasts_us, pids, self.driver, where))

    def _trouble_the_shop(self, fault: Fault) -> None:
        if fault.harm is Harm.RESTART:
            self.shop.stop()
            self._later(fault.length_s, self.shop.start)
        else:
            self.shop.hang()
            self._later(fault.length_s, self.shop.flow)

    def _harm(self, fault: Fault, victims: Sequence[Process]) -> None:
        if fault.harm is Harm.KILL:
            for process in victims:
                send(process, signal.SIGKILL)
            if fault.victim in (Victim.DRIVER, Victim.DRIVER_AND_GUARD):
                self.on_kill(self.driver)
            return
        for process in victims:
            self._freeze(process)
        if fault.victim is Victim.DRIVER and fault.harm is Harm.LONG_FREEZE and fault.replaced:
            self.frozen_driver.set()

        def wake() -> None:
            self.frozen_driver.clear()
            for process in victims:
                send(process, signal.SIGCONT)

        self._later(fault.length_s, wake)

    def _freeze(self, process: Process) -> None:
        send(process, signal.SIGSTOP)
        for _ in range(_FREEZE_TRIES):
            if self.database is None or process.pid not in lock_holders(self.database):
                return
            send(process, signal.SIGCONT)
            time.sleep(_LOOK_S)
            send(process, signal.SIGSTOP)

    def _later(self, seconds: float, end: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, end)
        timer.daemon = True
        self._timers.append((timer, end))
        timer.start()

    # Whom

    def _processes(self, fault: Fault) -> list[Process]:
        """The victims as they are now, found from the driver that the ledger names and its own tree."""
        driver = process_of(self.driver) if self.driver else None
        table = process_table()
        if driver is None or driver.state in "ZX":
            return []
        below = descendants(table, driver.pid)
        if fault.victim is Victim.DRIVER:
            return [driver]
        if fault.victim is Victim.NODE:
            return [process for process in below if b"run-driver" in _words(process)]
        if fault.victim is Victim.KEEPER:
            return [process for process in below if process.pid == self.keepers.get(SHELL)]
        guards = [process for process in below if process.pid == self._guard() and process.state not in "ZX"]
        if fault.victim is Victim.DRIVER_AND_GUARD:
            return [*guards, driver] if guards else []
        if fault.victim is Victim.GUARD or not guards:
            return guards
        browser = descendants(table, guards[0].pid)
        if fault.victim is Victim.BROWSER:
            return [process for process in browser if process.parent == guards[0].pid]
        mark = b"--type=renderer" if fault.victim is Victim.RENDERER else b"network.mojom.NetworkService"
        return [process for process in browser if any(mark in word for word in _words(process))]

    def _guard(self) -> int:
        """Of the browser that was used last."""
        return next((pid for step, pid in reversed(self.keepers.items()) if step != SHELL), 0)


_RANK: Final = {"started": 0, "launched": 1, "arrived": 1, "done": 1, "waiting": 0, "finished": 2}


def _words(process: Process) -> list[bytes]:
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _now_us() -> int:
    return time.time_ns() // 1000
