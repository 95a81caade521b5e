"""The gateway with 100,000 runs: lists, counts and histories, submissions, and latency of an event to a browser.

Everything goes over HTTP on loopback, to a server in a separate process. Lists are requested one after the other,
each filter many times; the bar is for the slowest in a hundred. Submissions come from eight clients in one other
process. For the latency of events a third process appends, and a real Chromium (if there is one; a plain client
besides) listens with `EventSource`: the time from the durable append until the page has it. For comparison, the
bare database in the same minute: the same page of rows without HTTP, and durable commits of one row.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from benchmarks.durable_steps import bare_commits, in_folder
from benchmarks.peers.environments import PLACE
from benchmarks.progress import doing
from benchmarks.report import Figure, LeftOut, Row, against, of_rounds, percentile, scaled
from recoup.clock import SystemClock
from recoup.ledger.sqlite import SqliteLedger
from recoup.model import events as ev
from recoup.model.ids import run_stream
from recoup.model.instant import Instant
from recoup.runtimes.browser.finding import find_browser, has_library
from recoup.testing.ledger_suite import facts, failing, healing, into, note, once, submitted
from recoup.testing.list_suite import CLASSES, drives, fails, finished

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

RUNS = int(os.environ.get("RECOUP_BENCH_RUNS") or scaled(100_000, 10_000))
BATCH = 500
APART_S = 6
"""Between two runs: a hundred thousand are a week."""
ROUNDS = scaled(120, 5)
PAGE = 50
DEEP = 100
"""Pages."""
CLIENTS, SUBMISSIONS = 8, 150
"""Each."""
SUBMIT_TURNS = scaled(3, 1)
APPENDED = scaled(60, 10)
LIST_BAR_MS, EVENT_BAR_MS, SUBMIT_BAR = 100, 150, 200
PAINT_BAR_MS = 300.0
SEARCH_BAR_MS = 2000
LOG_LINES = 50_000
PAINTS = scaled(15, 3)
PAGES = ("/", "/runs", "/runs?status=failed", "/workflows", "/audit")
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
NO_BROWSER = "there is no Chromium here (recoup browser install)"
PLAN = "{version: 1, name: tiny, steps: [{id: a, run: 'true'}]}"
OPEN = "20260101-open"
"""The run that is appended to. Nobody drives it."""


def run() -> list[Row]:
    PLACE.mkdir(exist_ok=True)
    return in_folder(measured)


def measured(folder: Path) -> list[Row]:
    doing(f"making {RUNS:,} runs")
    home, began_s = folder / "home", time.perf_counter()
    asyncio.run(fill(home / "ledger.db"))
    made_s = time.perf_counter() - began_s
    figures: list[Row] = [Figure(f"{RUNS:,} runs created in", made_s, "s", bar=120, at_most=True)]
    with served(home) as gateway:
        doing("lists")
        figures += lists(gateway, home)
        doing("pages in a browser")
        figures += asyncio.run(paints(gateway))
        figures += asyncio.run(log_search(gateway, home))
        doing("submissions")
        figures += submissions(gateway, folder)
        doing("events, from the append to who listens")
        figures += asyncio.run(events(gateway, home))
    return figures


async def fill(path: Path) -> None:
    ledger, chance = SqliteLedger(path), random.Random(1)
    now = SystemClock().now()
    for begin in range(0, RUNS, BATCH):
        at = Instant(now.wall_us - (RUNS - begin) * APART_S * 1_000_000, now.boot_us, now.boot_id)
        parts = [
            into(run_stream(f"20260101-{number:07}"), *told(chance)) for number in range(begin, begin + BATCH)
        ]
        await ledger.append(facts(*parts, at=at))
    await ledger.append(facts(into(run_stream(OPEN), submitted("open")), at=now))
    await ledger.close()


def told(chance: random.Random) -> list[ev.Payload]:
    """Most have succeeded, some of them after a retry; one in ten failed; a few go on."""
    began: list[ev.Payload] = [
        submitted(f"workflow-{chance.randrange(50)}"),
        drives(f"box-{chance.randrange(20)}"),
    ]
    lot = chance.random()
    if lot < 0.05:
        began += [once(), failing(), once(attempt=2), finished(2), healing(attempt=2)]
    if lot < 0.85:
        return [*began, ev.RunSucceeded(known_good_prefix_length=1, reason="all steps passed")]
    if lot < 0.95:
        return [*began, fails(chance.choice(CLASSES))]
    return began if lot < 0.98 else began[:1]


@dataclass(frozen=True)
class Gateway:
    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@contextlib.contextmanager
def served(home: Path) -> Iterator[Gateway]:
    argv = [sys.executable, "-m", "recoup.cli.main", "serve", "--port", "0", "--json"]
    env = {**os.environ, "RECOUP_HOME": str(home)}
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stdout is not None
        opened = json.loads(process.stdout.readline())
        where = urlsplit(opened["url"])
        yield Gateway(where.hostname or "", where.port or 0, opened["tokens"]["operator"])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


# Lists


def questions() -> dict[str, Mapping[str, Any]]:
    """What is asked, by what it is called."""
    day = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    single: dict[str, Mapping[str, Any]] = {
        "no filter": {},
        "a workflow": {"workflow": "workflow-7"},
        "a status": {"status": "failed"},
        "three statuses": {"status": ["failed", "running", "queued"]},
        "a class": {"failureClass": "unknown"},
        "a worker": {"worker": "box-7"},
        "since yesterday": {"since": day},
        "until yesterday": {"until": day},
        "text with a match": {"text": "PASSED"},
        "text without a match": {"text": "no such words"},
    }
    pairs: dict[str, Mapping[str, Any]] = {
        "a workflow and a status": {"workflow": "workflow-7", "status": "failed"},
        "a status and a time": {"status": "failed", "until": day},
        "a class and a workflow": {"failureClass": "unknown", "workflow": "workflow-7"},
        "a worker and a status": {"worker": "box-7", "status": "failed"},
        "a worker and a workflow": {"worker": "box-7", "workflow": "workflow-7"},
        "a status and a text": {"status": ["failed", "succeeded"], "text": "no such words"},
    }
    return single | pairs


def lists(gateway: Gateway, home: Path) -> list[Figure]:
    line = http.client.HTTPConnection(gateway.host, gateway.port)
    figures: list[Figure] = []
    plain: list[float] = []
    for name, asked in questions().items():
        took = [asked_ms(line, gateway, "/api/runs", {**asked, "limit": PAGE}) for _ in range(ROUNDS)]
        plain = plain or took
        figures.append(_list_figure(name, took))
    cursor = deep(line, gateway)
    took = [asked_ms(line, gateway, "/api/runs", {"limit": PAGE, "cursor": cursor}) for _ in range(ROUNDS)]
    figures.append(_list_figure(f"page {DEEP}", took))
    for path, asked in OTHERS.items():
        took = [asked_ms(line, gateway, path, asked) for _ in range(ROUNDS)]
        figures.append(Figure(f"{path}: p99", percentile(took, 0.99), "ms", LIST_BAR_MS, at_most=True))
    line.close()
    bare = against("its bare query", plain, bare_query_ms(home), at_most=True, bare=True)
    return [*figures, of_rounds("a page over HTTP, no filter: p50", plain, "ms", at_most=True, peers=[bare])]


OTHERS: dict[str, Mapping[str, Any]] = {
    "/api/runs/count": {"text": "no such words"},
    "/api/tallies": {},
    "/api/history": {"bucketS": 1_800},
}


def _list_figure(name: str, took: list[float]) -> Figure:
    return Figure(f"a page, {name}: p99", percentile(took, 0.99), "ms", LIST_BAR_MS, at_most=True)


def deep(line: http.client.HTTPConnection, gateway: Gateway) -> str:
    """The cursor of the hundredth page."""
    cursor = ""
    for _ in range(DEEP - 1):
        asked = {"limit": PAGE, **({"cursor": cursor} if cursor else {})}
        cursor = answered(line, gateway, "/api/runs", asked)["nextCursor"]
    return cursor


def asked_ms(
    line: http.client.HTTPConnection, gateway: Gateway, path: str, asked: Mapping[str, Any]
) -> float:
    began = time.perf_counter()
    answered(line, gateway, path, asked)
    return (time.perf_counter() - began) * 1000


def answered(line: http.client.HTTPConnection, gateway: Gateway, path: str, asked: Mapping[str, Any]) -> Any:
    line.request("GET", f"{path}?{urlencode(asked, doseq=True)}", headers=gateway.headers)
    answer = line.getresponse()
    body = answer.read()
    assert answer.status == 200, body
    return json.loads(body)


def bare_query_ms(home: Path) -> list[float]:
    with contextlib.closing(sqlite3.connect(f"file:{home}/ledger.db?mode=ro", uri=True)) as database:
        took = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            sql = "SELECT * FROM runs ORDER BY submitted_at_us DESC, run_id DESC LIMIT ?"
            assert len(database.execute(sql, (PAGE,)).fetchall()) == PAGE
            took.append((time.perf_counter() - began) * 1000)
    return took


# Submissions


def submissions(gateway: Gateway, folder: Path) -> list[Figure]:
    rates: dict[str, list[float]] = {"": [], ", each with a key": []}
    bare = []
    for turn in range(SUBMIT_TURNS):
        for number, name in enumerate(rates):
            rates[name].append(_in_a_process("submit", gateway, str(number)))
        bare_folder = folder / f"bare-{turn}"
        bare_folder.mkdir()
        bare.append(bare_commits(bare_folder, 2_000))
    return [
        of_rounds(
            f"submitted by {CLIENTS} clients{name}",
            many,
            "runs/s",
            SUBMIT_BAR,
            peers=[against("bare durable commits of one row", many, bare, bare=True)],
        )
        for name, many in rates.items()
    ]


def _in_a_process(what: str, gateway: Gateway, *words: str) -> float:
    argv = [
        sys.executable,
        "-m",
        "benchmarks.gateway",
        what,
        gateway.host,
        str(gateway.port),
        gateway.token,
        *words,
    ]
    return float(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout)


async def submit_many(gateway: Gateway, with_keys: bool) -> float:
    began = time.perf_counter()
    await asyncio.gather(
        *(_submit(gateway, f"{time.time_ns()}-{one}" if with_keys else "") for one in range(CLIENTS))
    )
    return CLIENTS * SUBMISSIONS / (time.perf_counter() - began)


async def _submit(gateway: Gateway, key: str) -> None:
    """Over one connection, with as little work for the client as possible: it shares the machine."""
    reader, writer = await asyncio.open_connection(gateway.host, gateway.port)
    body = json.dumps({"plan": PLAN, "queue": "nobody"}).encode()
    for number in range(SUBMISSIONS):
        headers = gateway.headers | ({"Idempotency-Key": f"{key}-{number}"} if key else {})
        writer.write(_request("POST", "/api/runs", {**headers, "Content-Length": str(len(body))}) + body)
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 201 " in head[:20], head
        (length,) = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        await reader.readexactly(int(length.split(b":")[1]))
    writer.close()


def _request(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    return (
        "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items())]) + "\r\n\r\n"
    ).encode()


# Pages


async def paints(gateway: Gateway) -> list[Row]:
    """When the first thing of a page is seen, counted from asking for it, in a browser that has its styles already."""
    found = find_browser(os.environ) if has_library() else None
    if found is None:
        return [LeftOut("pages in a browser", NO_BROWSER)]
    async with _browsing(gateway, found.executable) as context:
        page = await context.new_page()
        return [await _paint(page, gateway, path) for path in PAGES]


async def _paint(page: Page, gateway: Gateway, path: str) -> Figure:
    took = []
    for _ in range(PAINTS):
        await page.goto(gateway.url + path)
        found = await page.wait_for_function(_PAINTED)
        took.append(float(await found.json_value()))
    name = f"first paint of {path}: p50 of {PAINTS}"
    return of_rounds(name, took, "ms", PAINT_BAR_MS, at_most=True)


async def log_search(gateway: Gateway, home: Path) -> list[Row]:
    """From the last letter typed until the page says how often the word stands in the part that it shows."""
    found = find_browser(os.environ) if has_library() else None
    if found is None:
        return []
    took = []
    async with _browsing(gateway, found.executable) as context:
        order = {"plan": PLAN, "queue": "nobody"}
        made = await context.request.post(f"{gateway.url}/api/runs", data=order, headers=gateway.headers)
        run_id = (await made.json())["runId"]
        _write_log(home / "runs" / run_id / "artifacts" / "logs" / "steps" / "step-0000.log")
        page = await context.new_page()
        await page.goto(f"{gateway.url}/runs/{run_id}?view=log")
        await page.locator(".log-lines", has_text=f"line {LOG_LINES - 1}").wait_for()
        for number in range(PAINTS):
            word = f"{LOG_LINES - 1 - number} of the log"
            began_s = time.perf_counter()
            await page.fill("#log-find", word)
            await page.wait_for_function(
                "word => document.querySelector('.log-lines .found mark')?.textContent === word", arg=word
            )
            took.append(1000 * (time.perf_counter() - began_s))
    name = f"finding a word in a log of {LOG_LINES:,} lines: p50 of {PAINTS}"
    return [of_rounds(name, took, "ms", SEARCH_BAR_MS, at_most=True)]


def _write_log(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"\x1b[32mline\x1b[0m {number} of the log\n" for number in range(LOG_LINES)))


@contextlib.asynccontextmanager
async def _browsing(gateway: Gateway, executable: str) -> AsyncIterator[BrowserContext]:
    """Signed in as a person is: browsers send cookies, no tokens."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable, chromium_sandbox=os.geteuid() != 0
        )
        # The benchmark's own script stands in no policy of the gateway's.
        context = await browser.new_context(bypass_csp=True)
        signed = await context.request.post(f"{gateway.url}/api/session", data={"token": gateway.token})
        assert signed.ok, await signed.text()
        yield context
        await browser.close()


# Events


async def events(gateway: Gateway, home: Path) -> list[Row]:
    plain = await _delays_ms(gateway, home, _plain_listener(gateway))
    figures = [_event_figure("a plain client", plain)]
    found = find_browser(os.environ) if has_library() else None
    if found is None:
        return [*figures, LeftOut("events in a browser", NO_BROWSER)]
    in_page = await _delays_ms(gateway, home, _browser_listener(gateway, found.executable))
    return [*figures, _event_figure("a browser", in_page)]


def _event_figure(who: str, delays_ms: list[float]) -> Figure:
    name = f"from the append to {who}: p50 of {len(delays_ms)}"
    return of_rounds(name, delays_ms, "ms", EVENT_BAR_MS, at_most=True)


async def _delays_ms(gateway: Gateway, home: Path, listener: AsyncIterator[dict[int, float]]) -> list[float]:
    """The listener tells that it listens, then what it heard and when."""
    assert await anext(listener) == {}
    argv = [
        sys.executable,
        "-m",
        "benchmarks.gateway",
        "append",
        gateway.host,
        str(gateway.port),
        "",
        str(home),
    ]
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    appended = {int(seq): at_s for seq, at_s in json.loads(out).items()}
    await asyncio.sleep(1)
    heard = await anext(listener)
    await listener.aclose()  # type: ignore[attr-defined]
    missed = appended.keys() - heard.keys()
    assert not missed, f"{len(missed)} of {len(appended)} events never came"
    return [(heard[seq] - at_s) * 1000 for seq, at_s in appended.items()]


async def append_some(home: Path) -> dict[int, float]:
    """One after the other; when each was durable."""
    ledger, chance, written = SqliteLedger(home / "ledger.db"), random.Random(2), {}
    clock = SystemClock()
    for number in range(APPENDED):
        await asyncio.sleep(chance.uniform(0.02, 0.15))
        done = await ledger.append(facts(into(run_stream(OPEN), note(f"number {number}")), at=clock.now()))
        written[done.positions[0].seq] = time.time()
    await ledger.close()
    return written


async def _plain_listener(gateway: Gateway) -> AsyncIterator[dict[int, float]]:
    reader, writer = await asyncio.open_connection(gateway.host, gateway.port)
    writer.write(_request("GET", f"/api/runs/{OPEN}/events/stream", gateway.headers))
    assert b" 200 " in (await reader.readuntil(b"\r\n\r\n"))[:20]
    heard: dict[int, float] = {}
    listening = asyncio.create_task(_hear(reader, heard))
    await asyncio.sleep(0.5)
    try:
        yield {}
        yield heard
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        writer.close()


async def _hear(reader: asyncio.StreamReader, heard: dict[int, float]) -> None:
    while line := await reader.readline():
        if line.startswith(b"id: "):
            heard[int(line[4:])] = time.time()


_LISTEN = """([path, kind]) => {
    window.heard = {};
    const source = new EventSource(path);
    source.addEventListener(kind, (event) => {
        window.heard[event.lastEventId] = (performance.timeOrigin + performance.now()) / 1000;
    });
    return new Promise((opened) => source.addEventListener("open", () => opened(true)));
}"""


async def _browser_listener(gateway: Gateway, executable: str) -> AsyncIterator[dict[int, float]]:
    async with _browsing(gateway, executable) as context:
        page = await context.new_page()
        await page.goto(f"{gateway.url}/healthz")
        assert await page.evaluate(_LISTEN, [f"/api/runs/{OPEN}/events/stream", ev.RunInterrupted.TYPE])
        yield {}
        yield {int(seq): at_s for seq, at_s in (await page.evaluate("window.heard")).items()}


def main() -> None:
    """What is done in processes of their own."""
    what, host, port, token, *words = sys.argv[1:]
    gateway = Gateway(host, int(port), token)
    if what == "submit":
        print(asyncio.run(submit_many(gateway, with_keys=words == ["1"])))
    else:
        print(json.dumps(asyncio.run(append_some(Path(words[0])))))


if __name__ == "__main__":
    main()
