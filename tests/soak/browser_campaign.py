"""Browser runs that get through kills, freezes and a shop in trouble: the runs, their operator, and what is counted.

Each run buys something in a shop of its own (`shop.py`), whose log says afterwards what really happened. Its faults
follow from its seed (`browser_faults.py`). To repeat one:

    python -m tests.soak.browser_campaign command-sqlite-7
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg
from tests.commands import Commands, Started, loaded_commands
from tests.keys import KEY
from tests.soak.browser_faults import (
    HEARTBEAT_S,
    LEASE_S,
    NEVER,
    SHARED,
    SHELL,
    SIGN_IN,
    STEPS,
    Injected,
    Injector,
    faults_of,
)
from tests.soak.shop import QUANTITY, Effect, Shop

from recoup.model.ids import ProcessIdentity
from recoup.processes.identity import is_alive
from recoup.processes.process_table import process_table, send
from recoup.testing.postgres import PostgresServer, postgres_server

MARK: Final = "RECOUP_CAMPAIGN"
SETTINGS: Final = ("command-sqlite", "command-postgres", "fleet-sqlite", "fleet-postgres")
WORKERS: Final = 2
RUNS_AT_ONCE: Final = 4
_LOOK_S: Final = 0.02
_AGAIN_S: Final = 0.5
_COMMAND_S: Final = 120.0
_RUN_S: Final = 900.0
"""A run that takes longer counts as one that cannot be finished; a slow machine gets time."""
_COMMANDS_MAX: Final = 40
_SLACK_US: Final = 300_000
"""A fault takes a moment until it is felt, and is over a moment before that is."""
_ENDED: Final = ("succeeded", "cancelled", "dead_letter")
POLICY: Final = {
    "page_quiet_s": 0.1,
    "backoff_ms": 100,
    "takeovers_max": 30,
    "delivery_max": 4,
}
"""Faults of one run hit the others of its worker, too."""


def plan_of(shop: Shop, folder: Path) -> str:
    """Everything is named as people see it; a page that is opened again says what was done."""
    note, item, cart = shop.note, shop.item, f"In your cart: {QUANTITY} x {shop.item}"
    placed, key = f"Order placed for {shop.customer}", "$RECOUP_IDEMPOTENCY_KEY $RECOUP_ATTEMPT"
    steps: dict[str, dict[str, Any]] = {
        "open": _browser("goto", f"{shop.url}/sign-in", {"visible": {"label": "Customer"}}),
        "who": _browser("fill", {"label": "Customer", "value": "${{ inputs.customer }}"}),
        "sign-in": _browser("click", _button("Sign in"), {"text": f"Signed in as {shop.customer}"}),
        "search": _browser("fill", {"label": "Search", "value": item}),
        "find": _safe(_browser("click", _button("Find"), {"text": "3 items"})),
        "item": _safe(
            _browser("click", {"role": "link", "name": "Open", "inside": item}, {"url": f"**/item/{item}"})
        ),
        "quantity": _browser(
            "fill",
            {"label": "Quantity", "value": str(QUANTITY)},
            {"value": {"label": "Quantity", "is": str(QUANTITY)}},
        ),
        "add": _browser("click", _button("Add to cart"), {"text": cart}),
        "cart": _safe(_browser("click", {"role": "link", "name": "To the cart"}, {"title": "Cart"})),
        "panel": _safe(_browser("click", _button("Add a note"), {"visible": {"label": "Note"}})),
        "note": _browser("fill", {"label": "Note", "value": note}, {"value": {"label": "Note", "is": note}}),
        "total": _browser("read", {"css": "#total", "into": "total"}),
        SHELL: {"run": f'sleep 0.2; echo "{key}" >> "{folder / "charges"}"; sleep 0.2'},
        "gate": {"approve": "Order for ${{ steps.total.outputs.total }}?"},
        "order": _browser(
            "click",
            _button("Order"),
            {"text": placed},
            {"run": f"curl -sf --retry 3 --retry-connrefused {shop.url}/api/order?customer={shop.customer}"},
        ),
        "documents": _browser("goto", f"{shop.url}/documents", {"title": "Documents"}),
        "upload": _browser(
            "upload",
            {"label": "Receipt", "file": str(folder / shop.receipt)},
            {"text": f"Received {shop.receipt}"},
        ),
        "orders": _browser("goto", f"{shop.url}/orders", {"title": "Orders"}),
        "confirm": _browser(
            "click",
            {"role": "button", "name": "Confirm", "inside": shop.order},
            {"text": f"Confirmed {shop.order}"},
        ),
    }
    assert tuple(steps) == STEPS
    return json.dumps(
        {
            "version": 1,
            "name": f"buy-{shop.number}",
            "inputs": {"customer": {"required": True}},
            "defaults": {"timeout": "60s"},
            "steps": [{"id": name, **step} for name, step in steps.items()],
        }
    )


def _browser(verb: str, what: Any, *expect: dict[str, Any]) -> dict[str, Any]:
    return {"browser": {verb: what}, **({"expect": list(expect)} if expect else {})}


def _button(name: str) -> dict[str, str]:
    return {"role": "button", "name": name}


def _safe(step: dict[str, Any]) -> dict[str, Any]:
    return {**step, "repeat": "safe"}


# What the ledger says, read beside the program


@dataclass(frozen=True)
class Event:
    seq: int
    at_us: int
    type: str
    payload: dict[str, Any]


class Ledger(Protocol):
    EVENTS: str
    """Of a stream, after a sequence."""

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]: ...

    def close(self) -> None: ...


@dataclass
class SqliteLedger:
    """One connection for each question: a thread must not use that of another."""

    path: Path
    EVENTS = "SELECT seq, wall_us, type, payload FROM event_lines WHERE stream = ? AND seq > ? ORDER BY seq"

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        if not self.path.exists():
            return []
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=30)
        try:
            return connection.execute(query, values).fetchall()
        except sqlite3.OperationalError:  # it is being made
            return []
        finally:
            connection.close()

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class PostgresRows:
    """One connection for all threads, which take turns."""

    url: str
    EVENTS = (
        "SELECT seq, wall_us, type, payload FROM events"
        " WHERE stream_id = (SELECT id FROM streams WHERE name = ?) AND seq > ? ORDER BY seq"
    )

    def __post_init__(self) -> None:
        self._connection = psycopg.connect(self.url, autocommit=True, options="-c search_path=recoup")

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(query.replace("?", "%s").encode(), values).fetchall()

    def close(self) -> None:
        self._connection.close()


def events_of(ledger: Ledger, run_id: str, after: int = 0) -> list[Event]:
    rows = ledger.rows(ledger.EVENTS, f"run:{run_id}", after)
    return [Event(seq, at_us, kind, json.loads(payload)) for seq, at_us, kind, payload in rows]


# One run


@dataclass
class Tally:
    """What came of one run."""

    setting: str
    seed: str
    run_id: str = ""
    status: str = "not begun"
    questions: list[Event] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    injected: list[Injected] = field(default_factory=list)
    planned: list[str] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    charges: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    """Each command of the harness, how it ended and its last words."""
    duplicates: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    needless: list[str] = field(default_factory=list)
    records: str = ""
    """The ledger and the events of the run, as the commands print them; where something is wrong."""
    seconds: float = 0.0

    @property
    def finished(self) -> bool:
        return self.status == "succeeded"

    def problems(self) -> list[str]:
        named = {
            "duplicated effect": self.duplicates,
            "lost effect": self.lost,
            "wrong effect": self.wrong,
            "needless question": self.needless,
            "survivor": self.survivors,
            "leftover": self.leftovers,
            "not finished": [] if self.finished else [self.status],
        }
        return [f"{name}: {words}" for name, all_words in named.items() for words in all_words]

    def report(self) -> str:
        lines = [f"{self.seed}, run {self.run_id}, {self.status} after {self.seconds:.0f} s"]
        lines += [f"  ! {problem}" for problem in self.problems()]
        lines += [f"  planned: {fault}" for fault in self.planned]
        lines += [f"  fault:   {fault}" for fault in self.injected]
        lines += [f"  asked:   {event.payload.get('reason')}" for event in self.questions]
        lines += [f"  answer:  {answer}" for answer in self.answers]
        lines += [f"  effect:  {effect}" for effect in self.effects]
        lines += [f"  charge:  {line}" for line in self.charges]
        lines += [f"  command: {command}" for command in self.commands]
        return "\n".join([*lines, self.records])


@dataclass
class Place:
    """Where the runs of one setting are driven: a home, a database, a folder for temporary files."""

    setting: str
    root: Path
    temp: Path
    commands: Commands
    url: str | None
    ledger: Ledger = field(init=False)
    fleet: Fleet | None = None
    injected: list[Injected] = field(default_factory=list)
    """Of all runs: those of one worker share what happens to it."""

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True)
        self.temp.mkdir()
        (self.root / "policy.json").write_text(json.dumps(POLICY))
        self.ledger = PostgresRows(self.url) if self.url else SqliteLedger(self.database)

    @property
    def database(self) -> Path:
        return self.root / "home" / "ledger.db"

    def environ(self, temp: Path, home: str = "home") -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        shared = {"RECOUP_DATABASE": self.url} if self.url else {}
        return {
            **kept,
            **shared,
            MARK: str(self.root),
            "TMPDIR": str(temp),
            "RECOUP_HOME": str(self.root / home),
            "RECOUP_KEY": KEY,
            "RECOUP_POLICY": str(self.root / "policy.json"),
            "RECOUP_LEASE_S": str(LEASE_S),
            "RECOUP_HEARTBEAT_S": str(HEARTBEAT_S),
        }


@dataclass
class Run:
    """One run with its shop, its faults and its operator."""

    place: Place
    seed: str
    number: int
    folder: Path = field(init=False)
    temp: Path = field(init=False)
    shop: Shop = field(init=False)
    injector: Injector = field(init=False)
    tally: Tally = field(init=False)
    started: list[Started] = field(default_factory=list)
    _settled: int = 0
    """The last event that an answer was given to."""

    def __post_init__(self) -> None:
        self.folder = self.place.root / self.seed
        self.folder.mkdir()
        self.temp = self.place.temp / str(self.number) if self.place.fleet is None else self.place.temp
        self.temp.mkdir(exist_ok=True)
        self.shop = Shop(self.number)
        database = None if self.place.url else self.place.database
        self.injector = Injector(faults_of(self.seed, self.number // 10), self.shop, database)
        self.shop.hook = self.injector.saw_request
        if self.place.fleet is not None:
            self.injector.on_kill = self.place.fleet.replace
        self.tally = Tally(self.place.setting, self.seed)
        self.tally.planned = [str(fault) for fault in self.injector.faults]

    def perform(self) -> Tally:
        began_s = time.monotonic()
        over = threading.Event()
        tail = threading.Thread(target=self._follow, args=(over,), daemon=True)
        with self.shop:
            try:
                tail.start()
                self._drive(began_s + _RUN_S)
            except Exception:  # noqa: BLE001 a fault of the harness must not hide what the others found
                self.tally.status = f"harness: {traceback.format_exc()}"
            finally:
                over.set()
                tail.join()
                self.injector.finish()
                self._end()
            self._look()
        self.tally.seconds = time.monotonic() - began_s
        return self.tally

    def _follow(self, over: threading.Event) -> None:
        """Hands the run's events to the injector as they come."""
        seen = 0
        while not over.wait(_LOOK_S):
            if not self.tally.run_id:
                continue
            for event in events_of(self.place.ledger, self.tally.run_id, seen):
                seen = event.seq
                self.injector.saw_event(event.type, event.payload)

    # Driving it

    def _drive(self, deadline_s: float) -> None:
        (self.folder / self.shop.receipt).write_text(self.shop.receipt)
        plan = self.folder / "plan.json"
        plan.write_text(plan_of(self.shop, self.folder))
        words = (str(plan), "--input", f"customer={self.shop.customer}")
        if self.place.fleet is None:
            self._drive_by_commands(words, deadline_s)
        else:
            self.tally.run_id = self._command("submit", *words)[1].strip()
            self._attend(deadline_s)

    def _drive_by_commands(self, words: Sequence[str], deadline_s: float) -> None:
        self.tally.run_id = self._begun(self._start("run", *words, "--quiet"))
        while self.tally.run_id and time.monotonic() < deadline_s:
            self._wait(deadline_s)
            if self._answered() or len(self.tally.commands) > _COMMANDS_MAX:
                return
            self._start("resume", self.tally.run_id, "--quiet")

    def _begun(self, driver: Started) -> str:
        query = "SELECT run_id FROM runs WHERE workflow = ?"
        while not (rows := self.place.ledger.rows(query, f"buy-{self.number}")):
            if driver.poll() is not None:
                return ""
            time.sleep(_LOOK_S)
        return str(rows[0][0])

    def _wait(self, deadline_s: float) -> None:
        """Until nobody drives the run, or who does stands still and another may take its place."""
        while time.monotonic() < deadline_s:
            living = [process.pid for process in self.started if process.poll() is None]
            if not living:
                return
            if living == [self.injector.driver] and self.injector.frozen_driver.wait(_LOOK_S):
                time.sleep(_AGAIN_S)
                return
            time.sleep(_LOOK_S)

    def _attend(self, deadline_s: float) -> None:
        """In a fleet: answer what is asked, until the run is over."""
        while time.monotonic() < deadline_s:
            if self._answered():
                return
            time.sleep(0.1)

    def _answered(self) -> bool:
        """Whether the run is over; if it asks for something, that is answered first. Reads the ledger, so that most looks
        cost no command."""
        events = events_of(self.place.ledger, self.tally.run_id)
        last = next((e for e in reversed(events) if e.type in _TELLING), None)
        if last is None or last.seq <= self._settled:
            return False
        if last.type == "task.run.waiting" and last.payload["waitingFor"] == "approval":
            self._control(last, "approve", "--reason", "the total is right")
        elif last.type == "Escalated":
            return self._settle(last)
        elif last.type.removeprefix("task.run.") in ("succeeded", "cancelled", "dead_lettered"):
            return True
        elif last.type == "task.run.failed":
            return not last.payload["retryable"]
        return False

    def _settle(self, asked: Event) -> bool:
        """A truthful answer, by the log of the shop. To be signed in is a matter of the browser, which has lost it."""
        step = str(asked.payload.get("stepId"))
        self.tally.questions.append(asked)
        is_done = step in NEVER and step != SIGN_IN and self.shop.has(step)
        answer = "done" if is_done else "not-done"
        code = self._control(
            asked, "settle", "--step", step, "--as", answer, "--reason", "the log of the shop"
        )
        self.tally.answers.append(f"{step}: {answer} (exit {code})")
        return code != 0 or len(self.tally.questions) > 8

    def _control(self, asked: Event, *words: str) -> int:
        code, _ = self._command("control", self.tally.run_id, *words)
        if code == 0:
            self._settled = asked.seq
        return code

    def _start(self, *words: str) -> Started:
        process = self.place.commands.start(*words, env=self.place.environ(self.temp), cwd=self.folder)
        self.started.append(process)
        self.tally.commands.append(f"{_clock()} {' '.join(words[:2])} is process {process.pid}")
        return process

    def _command(self, *words: str) -> tuple[int, str]:
        env = self.place.environ(self.temp)
        done = self.place.commands.run(*words, env=env, cwd=self.folder, timeout=_COMMAND_S)
        said = (done.stderr or done.stdout).strip().splitlines()
        self.tally.commands.append(f"{_clock()} {' '.join(words)}: {done.returncode} {said[-1:]}")
        return done.returncode, done.stdout

    def _end(self) -> None:
        """Everybody who still drives the run is told that it is over."""
        for process in self.started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(LEASE_S + 20 if self._is_over() else 0)
            if process.poll() is None:
                process.kill()
                if self._is_over():
                    self.tally.survivors.append(f"recoup {process.words[0]}, process {process.pid}")
            out, err = process.communicate()
            last = (err or out).strip().splitlines()[-1:]
            self.tally.commands.append(f"process {process.pid} ended with {process.returncode}: {last}")
        if self.tally.run_id and not self._is_over():
            self._command(
                "control", self.tally.run_id, "cancel", "--reason", "the campaign goes on without it"
            )

    def _is_over(self) -> bool:
        return self._status() in _ENDED

    def _status(self) -> str:
        query = "SELECT status FROM runs WHERE run_id = ?"
        rows = self.place.ledger.rows(query, self.tally.run_id)
        return str(rows[0][0]) if rows else "not begun"

    # What came of it

    def _look(self) -> None:
        tally = self.tally
        if not tally.status.startswith("harness"):
            tally.status = self._status()
        tally.injected = self.injector.injected
        self.place.injected += tally.injected
        self.shop.wait_quiet()
        tally.effects, tally.requests = list(self.shop.effects), list(self.shop.requests)
        charges = self.folder / "charges"
        tally.charges = charges.read_text().splitlines() if charges.exists() else []
        tally.events = events_of(self.place.ledger, tally.run_id) if tally.run_id else []
        tally.survivors += survivors_of(tally) if tally.run_id else []
        if self.place.fleet is None:
            tally.leftovers = sorted(path.name for path in self.temp.iterdir())
        count_effects(tally, self.shop)

    def judge(self) -> None:
        """What needs the faults of the other runs, too; then the records of what went wrong."""
        self.tally.needless = list(needless_questions(self.tally, self.place.injected))
        if self.tally.problems() and self.tally.run_id:
            self.tally.records = self._records()

    def _records(self) -> str:
        said = {
            name: self.place.commands.run(
                *words, env=self.place.environ(self.temp), cwd=self.folder, timeout=_COMMAND_S
            ).stdout
            for name, words in {
                "ledger": ("ledger", self.tally.run_id, "--json"),
                "events": ("events", self.tally.run_id),
                "events.jsonl": ("events", self.tally.run_id, "--json"),
            }.items()
        }
        for name, text in said.items():
            (self.folder / name).write_text(text)
        return f"  requests: {self.tally.requests}\n{said['events']}\n{said['ledger']}"


_TELLING: Final = (
    *("task.run.waiting", "task.run.resumed", "task.run.started", "task.run.taken_over", "Escalated"),
    *("task.run.succeeded", "task.run.failed", "task.run.dead_lettered", "task.run.cancelled"),
)


def count_effects(tally: Tally, shop: Shop) -> None:
    """From the shop's log and the shell step's file alone, but for how often that step was begun."""
    counts = Counter(tally.effects)
    wanted = shop.wanted
    tally.wrong = [str(effect) for effect in counts if wanted.get(effect.kind) != effect]
    again = Counter(answer.split(":")[0] for answer in tally.answers if "not-done" in answer)
    often = {SIGN_IN: 1 + again[SIGN_IN]}
    tally.duplicates = [
        f"{n} times {effect}" for effect, n in counts.items() if n > often.get(effect.kind, 1)
    ]
    kinds = Counter(effect.kind for effect in counts)
    tally.duplicates += [f"{n} different: {kind}" for kind, n in kinds.items() if n > 1]
    keys = {line.split()[0] for line in tally.charges}
    if len(keys) > 1 or len(set(tally.charges)) < len(tally.charges):
        tally.duplicates.append(f"charges: {tally.charges}")
    tally.duplicates += [f"charged after it was done: {line}" for line in _late_charges(tally)]
    if tally.finished:
        tally.lost = [str(effect) for kind, effect in wanted.items() if not counts[effect]]
        tally.lost += [] if keys else ["the charge"]


def _late_charges(tally: Tally) -> list[str]:
    """Of attempts that were begun after one of them had finished: a finished step is not repeated."""
    attempts = [
        (event.type.rpartition(".")[2], event.payload["attempt"])
        for event in tally.events
        if event.type.startswith("task.step.attempt.") and event.payload["stepId"] == SHELL
    ]
    passed = next((number for kind, number in attempts if kind == "finished"), None)
    return [line for line in tally.charges if passed is not None and int(line.split()[1]) > passed]


def needless_questions(tally: Tally, of_all: Sequence[Injected]) -> Iterator[str]:
    """Those about a step whose outcome was known, or that nothing had happened to while it was under way."""
    asked_about = set[tuple[str, int]]()
    for question in tally.questions:
        step = question.payload.get("stepId") or "nothing"
        words = f"{step}: {question.payload.get('reason')}"
        attempt = _last_attempt(tally.events, step, question.seq)
        if attempt is None:
            yield f"never begun: {words}"
            continue
        number, began_us, finished = attempt
        if finished:
            yield f"finished: {words}"
        elif (step, number) in asked_about:
            yield f"asked twice: {words}"
        elif not _lost_meanwhile(tally.events, began_us, question) and not any(
            _hit(one, tally, began_us, question.at_us) for one in of_all
        ):
            yield f"nothing had happened to it: {words}"
        asked_about.add((step, number))


def _lost_meanwhile(events: Sequence[Event], began_us: int, question: Event) -> bool:
    """The driver was lost without a fault of ours: on a machine with too much to do it may miss its own lease."""
    return any(
        event.type == "task.run.taken_over" and began_us <= event.at_us <= question.at_us for event in events
    )


def _last_attempt(events: Sequence[Event], step: str, before: int) -> tuple[int, int, bool] | None:
    """Its number, when it began, and whether it has passed."""
    attempt = None
    for event in events:
        if event.seq >= before or event.payload.get("stepId") != step:
            continue
        if event.type == "task.step.attempt.started":
            attempt = event.payload["attempt"], event.at_us, False
        elif event.type == "task.step.attempt.finished" and attempt is not None:
            attempt = attempt[0], attempt[1], True
    return attempt


def _hit(injected: Injected, tally: Tally, began_us: int, asked_us: int) -> bool:
    concerned = injected in tally.injected or injected.fault.victim in SHARED
    return concerned and injected.began_us <= asked_us and injected.ended_us >= began_us - _SLACK_US


def survivors_of(tally: Tally) -> list[str]:
    """Processes of the run that live longer than its lease. Its keepers and guards are named by the ledger, everything
    that they started has a mark."""
    keepers = {
        ProcessIdentity(k["host"], k["bootId"], k["pid"], k["startTicks"])
        for event in tally.events
        if event.type == "task.step.attempt.launched" and (k := event.payload["keeper"])
    }
    deadline_s = time.monotonic() + LEASE_S + 5
    while True:
        left = [f"keeper {keeper.pid}" for keeper in keepers if is_alive(keeper)]
        left += marked(f"RECOUP_RUN_ID={tally.run_id}")
        if not left or time.monotonic() > deadline_s:
            return left
        time.sleep(0.1)


def marked(entry: str) -> list[str]:
    """Processes with this in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if entry.encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(f"{path.name} {(path / 'cmdline').read_bytes()[:160]!r}")
    return found


# Workers


@dataclass
class Fleet:
    """Workers, each with a home of its own where the database allows it. One that is killed is replaced at once."""

    place: Place
    workers: list[Started] = field(default_factory=list)
    homes: int = 0
    said: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        self.homes += 1
        home = f"home-{self.homes}" if self.place.url else "home"
        env = self.place.environ(self.place.temp, home)
        words = ("worker", "--concurrency", str(RUNS_AT_ONCE // WORKERS))
        log = self.place.root / f"worker-{self.homes}.log"
        self.workers.append(self.place.commands.start(*words, env=env, cwd=self.place.root))
        threading.Thread(target=_drain, args=(self.workers[-1], log), daemon=True).start()

    def replace(self, pid: int) -> None:
        """A worker that was killed, by another one."""
        with self._lock:
            dead = [worker for worker in self.workers if worker.pid == pid]
            if dead:
                self.workers.remove(dead[0])
                self.start()

    def end(self) -> list[str]:
        """Those that did not drain."""
        slow = []
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            try:
                worker.wait(60)
            except subprocess.TimeoutExpired:
                slow.append(f"worker {worker.pid} did not drain")
                worker.kill()
        return slow


def _drain(worker: Started, log: Path) -> None:
    with worker.stdout, worker.stderr, log.open("w") as file, suppress(ValueError, OSError):
        for line in worker.stderr:
            file.write(line)
            file.flush()


# The campaign


@dataclass
class Campaign:
    """All runs of all settings, some at once."""

    root: Path
    temp: Path
    """Short: a browser keeps a socket below it."""
    seeds: dict[str, list[str]]
    """Of each setting."""
    at_once: int = RUNS_AT_ONCE
    tallies: list[Tally] = field(default_factory=list)
    others: dict[str, list[str]] = field(default_factory=dict)
    """Survivors and leftovers that belong to no single run, by setting."""

    def fight(self, server: PostgresServer | None) -> None:
        with loaded_commands() as commands:
            for setting, seeds in self.seeds.items():
                url = server.prepared_database() if setting.endswith("postgres") and server else None
                place = Place(setting, self.root / setting, self.temp / str(len(self.others)), commands, url)
                self._fight_at(place, seeds)

    def _fight_at(self, place: Place, seeds: Sequence[str]) -> None:
        if place.setting.startswith("fleet"):
            place.fleet = Fleet(place)
            for _ in range(WORKERS):
                place.fleet.start()
        runs = list[Run]()
        others = self.others[place.setting] = list[str]()
        try:
            for seed in seeds:
                runs.append(Run(place, seed, _number(seed)))
            with ThreadPoolExecutor(self.at_once) as pool:
                for tally in pool.map(Run.perform, runs):
                    self.tallies.append(tally)
                    print(f"{_clock()} {tally.report().splitlines()[0]}", flush=True)
        finally:
            others += place.fleet.end() if place.fleet else []
        others += _left_after(place)
        for run in runs:
            run.judge()
        place.ledger.close()

    def problems(self) -> list[str]:
        """All that is against the bar, in words that let it be repeated."""
        found = [tally.report() for tally in self.tallies if tally.problems()]
        return found + [
            f"{setting}: {words}" for setting, all_words in self.others.items() for words in all_words
        ]

    def table(self) -> str:
        """The figures."""
        columns = (
            "runs",
            "finished",
            "questions",
            "needless",
            "duplicates",
            "lost",
            "wrong",
            "survivors",
            "leftovers",
        )
        lines = [f"{'setting':18}" + "".join(f"{name:>11}" for name in columns) + f"{'seconds/run':>13}"]
        for setting in [*self.seeds, "all"]:
            tallies = [tally for tally in self.tallies if setting in (tally.setting, "all")]
            others = [
                words for name, some in self.others.items() if setting in (name, "all") for words in some
            ]
            figures = _figures(tallies, others)
            mean_s = sum(tally.seconds for tally in tallies) / max(1, len(tallies))
            lines.append(
                f"{setting:18}" + "".join(f"{figures[name]:>11}" for name in columns) + f"{mean_s:>13.1f}"
            )
        kinds = Counter(injected.fault.kind for tally in self.tallies for injected in tally.injected)
        lines += ["", f"{sum(kinds.values())} faults of {sum(len(t.planned) for t in self.tallies)} planned:"]
        lines += [f"  {count:3} {kind}" for kind, count in sorted(kinds.items())]
        return "\n".join(lines)

    def figures(self) -> dict[str, int]:
        return _figures(self.tallies, [words for some in self.others.values() for words in some])


def _figures(tallies: Sequence[Tally], others: Sequence[str]) -> dict[str, int]:
    left = sum(words.startswith("leftover") for words in others)
    return {
        "runs": len(tallies),
        "finished": sum(tally.finished for tally in tallies),
        "questions": sum(len(tally.questions) for tally in tallies),
        "needless": sum(len(tally.needless) for tally in tallies),
        "duplicates": sum(len(tally.duplicates) for tally in tallies),
        "lost": sum(len(tally.lost) for tally in tallies),
        "wrong": sum(len(tally.wrong) for tally in tallies),
        "survivors": sum(len(tally.survivors) for tally in tallies) + len(others) - left,
        "leftovers": sum(len(tally.leftovers) for tally in tallies) + left,
    }


def _left_after(place: Place) -> list[str]:
    """Processes and folders of a setting that is over."""
    deadline_s = time.monotonic() + LEASE_S + 5
    while (left := marked(f"{MARK}={place.root}")) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    found = [f"survivor {words}" for words in left]
    if place.fleet is not None:
        found += [f"leftover {path.name}" for path in sorted(place.temp.iterdir())]
    return found


def _number(seed: str) -> int:
    """Far enough apart that neighbours of one are none of another's."""
    setting, _, number = seed.rpartition("-")
    return 1000 * (1 + SETTINGS.index(setting)) + 10 * int(number)


def seeds_of(runs: int, settings: Sequence[str] = SETTINGS, first: int = 1) -> dict[str, list[str]]:
    return {setting: [f"{setting}-{number}" for number in range(first, first + runs)] for setting in settings}


@contextmanager
def campaign(root: Path, seeds: dict[str, list[str]], at_once: int = RUNS_AT_ONCE) -> Iterator[Campaign]:
    """Fought out; what it has left behind is removed afterwards."""
    with ExitStack() as stack:
        temp = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="rc-", dir="/tmp", ignore_cleanup_errors=True)
            )
        )
        needs_server = any(setting.endswith("postgres") for setting in seeds)
        server = stack.enter_context(postgres_server()) if needs_server else None
        one = Campaign(root, temp, seeds, at_once)
        try:
            one.fight(server)
            yield one
        finally:
            _end_marked(f"{MARK}={root}")


def _end_marked(prefix: str) -> None:
    """What is left of the campaign, by its mark."""
    import signal

    table = process_table()
    for pid, process in table.items():
        with suppress(OSError):
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if any(word.startswith(prefix.encode()) for word in words):
                send(process, signal.SIGKILL)


def _clock() -> str:
    return time.strftime("%H:%M:%S", time.gmtime())


def main(words: Sequence[str]) -> None:
    """`SETTING-NUMBER …` repeats runs; `SETTING=COUNT …` makes so many of a setting."""
    seeds = dict[str, list[str]]()
    for word in words:
        setting, counted, number = word.partition("=") if "=" in word else word.rpartition("-")
        some = seeds_of(int(number), [setting])[setting] if counted == "=" else [word]
        seeds.setdefault(setting, []).extend(some)
    root = Path(tempfile.mkdtemp(prefix="recoup-campaign-"))
    with campaign(root / "runs", seeds or seeds_of(20)) as one:
        print("\n\n".join(one.problems()))
        print(one.table())
    print(f"kept in {root}")


if __name__ == "__main__":
    main(sys.argv[1:])
