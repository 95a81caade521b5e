"""Takes the pictures in docs/pictures: a gateway with a night's work in it, looked at with a real browser.

.venv/bin/python tools/console_pictures.py [--folder docs/pictures] [--only runs,run] [--home DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
from recoup.cli.demo import prepare
from recoup.runtimes.browser.finding import find_browser

TOKEN = secrets.token_urlsafe(32)
SIZE = (1280, 800)
PHONE = (390, 780)
_SHOP = {
    "old": '<button id="approve" class="btn">Approve</button> <button id="reject">Reject</button>',
    "new": '<a role="button" tabindex="0" id="k-91" class="btn">Approve</a> <button id="reject">Reject</button>',
}
_PAGE = """<!doctype html><meta charset="utf-8"><title>Invoices</title>
<style>body {{ font: 16px system-ui; margin: 40px }} td {{ padding: 6px 24px 6px 0 }}
button, .btn {{ padding: 8px 18px; border: 1px solid #777; font: inherit; background: #eee }}</style>
<h1>Invoice INV-1001</h1><table><tr><td>Paper<td>30.00<tr><td>Ink<td>12.00<tr><td><b>Total</b><td><b>42.00</b></table>
<p id="state">Open</p>{buttons}
<script>for (const b of document.querySelectorAll("button, a")) b.onclick = () =>
document.getElementById("state").textContent = b.textContent.startsWith("Approve") ? "Approved" : "Rejected"</script>"""
_INVOICES = """version: 1
name: invoice-sync
objective: Every invoice of the month is approved
steps:
  - {{id: open, browser: {{goto: "{url}"}}}}
  - id: approve
    browser: {{click: {{css: "#approve"}}}}
    expect: [{{text: Approved}}]
    heal: apply
"""
_PROBE = """version: 1
budget: {max_retries: 2, window_s: 600, delays_s: [1, 1], day_max: 12, healthy_reset_s: 600}
resources:
  - {id: api, process: {command: [sleep, "600"], settle: 100ms}}
  - {id: worker, process: {command: [sh, -c, "echo no route to host; exit 1"], settle: 100ms}}
"""
_PLANS = {
    "release": """version: 1
name: release
objective: The release of the week is with the customers
steps:
  - {id: build, run: 'echo building; sleep 0.3; echo done', expect: [{stdout: done}]}
  - {id: sign-off, approve: {message: Release to the customers?}}
  - {id: ship, run: 'echo shipped'}
""",
    "bank-transfer": """version: 1
name: bank-transfer
steps:
  - {id: prepare, run: 'echo 42.00 > amount.txt', expect: [{file: amount.txt}]}
  - {id: pay, run: 'echo paying; sleep 60', timeout: 1s, repeat: never}
  - {id: book, run: 'echo booked'}
""",
    "import": """version: 1
name: nightly-import
defaults: {max_attempts: 2}
steps:
  - {id: fetch, run: 'echo 1200 rows', expect: [{stdout: rows}]}
  - {id: load, run: 'echo "ERROR: relation invoices does not exist (row $RANDOM)"; exit 3'}
  - {id: report, run: 'echo never'}
""",
    "tests": """version: 1
name: long-tests
steps:
  - {id: compile, run: 'echo compiled', expect: [{stdout: compiled}]}
  - id: suite
    run: |
      for i in $(seq 1 4000); do
        printf '\\033[32mPASS\\033[0m test_case_%04d  \\033[90m%d ms\\033[0m\\n' $i $((i % 97)); sleep 0.05
        [ $((i % 23)) = 0 ] && printf '\\033[33mWARN\\033[0m slow fixture\\n'
      done; true
""",
}


class Gateway:
    """As a program uses it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers)) as answer:
            return json.load(answer)

    def submit(self, **wanted: Any) -> str:
        return str(self.ask("/api/runs", wanted)["runId"])

    def wait(self, run_id: str, *statuses: str) -> None:
        deadline = time.monotonic() + 90
        while (found := self.ask(f"/api/runs/{run_id}")["status"]) not in statuses:
            assert time.monotonic() < deadline, f"{run_id} is {found}"
            time.sleep(0.1)


OVER = ("succeeded", "failed", "dead_letter", "escalated")


def a_night(gateway: Gateway, place: Path, shop: Shop, until: contextlib.ExitStack) -> dict[str, str]:
    """Work of every kind; the runs by what they show."""
    demo = place / "demo"
    plan = prepare(demo)
    made = {"healed": "", "troubled": gateway.submit(planPath=str(plan), reason="every night")}
    for release in ("old", "old", "new"):
        shop.release = release
        made["healed"] = gateway.submit(plan=_INVOICES.format(url=shop.url))
        gateway.wait(made["healed"], *OVER)
    for _ in range(4):
        made["failed"] = gateway.submit(plan=_PLANS["import"])
        gateway.wait(made["failed"], *OVER)
    made["gate"] = gateway.submit(plan=_PLANS["release"])
    made["escalated"] = gateway.submit(plan=_PLANS["bank-transfer"])
    gateway.wait(made["gate"], "waiting")
    gateway.wait(made["escalated"], "escalated")
    gateway.wait(made["troubled"], *OVER)
    until.enter_context(_probe(place))
    made["running"] = gateway.submit(plan=_PLANS["tests"], reason="before the release")
    gateway.wait(made["running"], "running")
    return made


@contextlib.contextmanager
def _probe(place: Path) -> Iterator[None]:
    """On the same machine: a service that is well, and one that ends again and again."""
    file = place / "dev.yaml"
    file.write_text(_PROBE)
    argv = [
        sys.executable,
        "-m",
        "recoup.cli.main",
        "--home",
        str(place / "state"),
        "probe",
        "run",
        str(file),
    ]
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(8)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


class Shop:
    """A page that is made anew between two nights."""

    def __init__(self) -> None:
        self.release = "old"
        shop = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = _PAGE.format(buttons=_SHOP[shop.release]).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()


@contextlib.contextmanager
def serving(home: Path, *words: str) -> Iterator[Gateway]:
    argv = [
        sys.executable,
        "-m",
        "recoup.cli.main",
        "--home",
        str(home),
        "serve",
        "--port",
        "0",
        "--json",
        *words,
    ]
    env = {**os.environ, "RECOUP_TOKEN": TOKEN, "DEMO_TOKEN": "demo-" + secrets.token_urlsafe(24)}
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        yield Gateway(json.loads(process.stdout.readline())["url"])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


class Shots:
    """Pages by name, as people see them."""

    SETTLE_MS: ClassVar = 900

    def __init__(self, page: Page, url: str, folder: Path, only: set[str]) -> None:
        self._page, self._url, self._folder, self._only = page, url, folder, only

    def take(
        self,
        name: str,
        path: str,
        *,
        size: tuple[int, int] = SIZE,
        theme: str = "light",
        full: bool = False,
        before: str = "",
    ) -> None:
        if self._only and name not in self._only:
            return
        self._page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        self._page.set_viewport_size({"width": size[0], "height": size[1]})
        self._page.goto(self._url + path)
        self._page.wait_for_timeout(self.SETTLE_MS)
        if before:
            self._page.click(before)
            self._page.wait_for_timeout(self.SETTLE_MS)
        self._page.screenshot(path=self._folder / f"{name}.png", full_page=full)


def pictures(shots: Shots, runs: dict[str, str]) -> None:
    shots.take("overview", "/")
    shots.take("runs", "/runs")
    shots.take("phone", "/runs", size=PHONE)
    shots.take("run", f"/runs/{runs['troubled']}?view=timeline")
    shots.take("run-failed", f"/runs/{runs['failed']}", theme="dark")
    shots.take("control", f"/runs/{runs['gate']}", before="text=Cancel run")
    shots.take("log", f"/runs/{runs['running']}?view=log")
    shots.take("changes", f"/runs/{runs['troubled']}?view=changes")
    shots.take("compare", f"/runs/{runs['failed']}?view=compare")
    shots.take("heal", f"/heals/{runs['healed']}/approve/1")
    shots.take("workflow", "/workflows/nightly-import")
    shots.take("escalations", "/escalations")
    shots.take("escalation", "/escalations", before="main table a >> nth=0")
    shots.take("fleet", "/fleet")
    shots.take("probe", "/probes/dev")
    shots.take("policy", "/policy")
    shots.take("audit", "/audit")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "docs" / "pictures")
    words.add_argument("--only", default="")
    words.add_argument("--home", type=Path)
    given = words.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    chromium = find_browser(os.environ)
    assert chromium is not None, "there is no Chromium: recoup browser install"
    with contextlib.ExitStack() as until:
        place = given.home or Path(until.enter_context(tempfile.TemporaryDirectory()))
        gateway = until.enter_context(serving(place / "state", "--workers", "3"))
        runs = a_night(gateway, place, Shop(), until)
        playwright = until.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path=chromium.executable, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_context().new_page()
        page.goto(gateway.url + "/sign-in")
        page.fill("#token", TOKEN)
        page.press("#token", "Enter")
        page.wait_for_url(gateway.url + "/")
        pictures(Shots(page, gateway.url, given.folder, {one for one in given.only.split(",") if one}), runs)
        gateway.ask(
            f"/api/runs/{runs['running']}/control", {"action": "cancel", "reason": "the pictures are taken"}
        )
        browser.close()


if __name__ == "__main__":
    main()
