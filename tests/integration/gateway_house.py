"""A real gateway on loopback, with two workers in it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Every client would load all certificates of this machine for itself."""


@dataclass
class Gateway:
    """Where it is, and who may."""

    url: str
    tokens: dict[str, str]
    home: Path
    process: subprocess.Popen[str]

    def client(self, role: str | None = "operator") -> httpx2.Client:
        return httpx2.Client(
            base_url=self.url, headers=self.auth(role), timeout=60, trust_env=False, verify=NO_TLS
        )

    def auth(self, role: str | None) -> dict[str, str]:
        return {} if role is None else {"Authorization": f"Bearer {self.tokens[role]}"}

    def submit(self, plan: str, **more: Any) -> str:
        with self.client() as client:
            answer = client.post("/api/runs", json={"plan": plan, **more})
        assert answer.status_code == 201, answer.text
        run_id = answer.json()["runId"]
        assert isinstance(run_id, str)
        return run_id

    def run(self, run_id: str) -> Any:
        with self.client() as client:
            return client.get(f"/api/runs/{run_id}").json()

    def wait(self, run_id: str, until: Callable[[Any], bool], seconds: float = 60) -> Any:
        deadline = time.monotonic() + seconds
        while not until(document := self.run(run_id)):
            assert time.monotonic() < deadline, document
            time.sleep(0.05)
        return document


@contextlib.contextmanager
def gateway(
    home: Path, *words: str, env: dict[str, str] | None = None, module: str = "recoup.cli.main"
) -> Iterator[Gateway]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-m", module, "serve", "--port", "0", "--json", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**kept, "RECOUP_HOME": str(home), **(env or {})},
        stdin=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        opened = json.loads(line)
        yield Gateway(opened["url"], opened["tokens"], home, process)
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=20)
        if process.poll() is None:
            process.kill()
            process.communicate()
