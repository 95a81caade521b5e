"""Workers, each with a home of its own as if on a machine of its own, and a gateway to ask."""

import asyncio
import json
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from examples.asking import Gateway
from examples.stage import Child, Stage, ended, until


@dataclass
class Worker:
    """One process, and what it has said."""

    name: str
    child: Child
    notices: list[dict[str, Any]] = field(default_factory=list)
    frozen: bool = False

    @property
    def pid(self) -> int:
        return self.child.pid

    async def listen(self) -> None:
        assert self.child.stdout is not None
        async for line in self.child.stdout:
            self.notices.append(json.loads(line))

    async def kill(self) -> None:
        self.child.kill()
        await self.child.wait()

    def freeze(self) -> None:
        self.child.send_signal(signal.SIGSTOP)
        self.frozen = True

    def wake(self) -> None:
        with suppress(ProcessLookupError):
            self.child.send_signal(signal.SIGCONT)
        self.frozen = False

    def said(self, event: str, run_id: str) -> str:
        found = [one["words"] for one in self.notices if (one["event"], one.get("runId")) == (event, run_id)]
        return str(found[-1]) if found else ""


@dataclass
class Fleet:
    """All that the story starts, and ends."""

    stage: Stage
    token: str
    url: str = ""
    workers: list[Worker] = field(default_factory=list)
    _gateway: Child | None = None
    _ears: list[asyncio.Task[None]] = field(default_factory=list)
    _homes: int = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.wake()
        children = [worker.child for worker in self.workers] + ([self._gateway] if self._gateway else [])
        await asyncio.gather(*(ended(child) for child in children))
        for ear in self._ears:
            ear.cancel()

    async def open(self) -> None:
        """The gateway: who looks at the fleet in a browser or over HTTP looks here."""
        self._gateway = await self.stage.start(
            "serve", "--port", "0", "--json", env={"RECOUP_TOKEN": self.token}
        )
        assert self._gateway.stdout is not None
        self.url = json.loads(await self._gateway.stdout.readline())["url"]

    async def hire(self) -> Worker:
        self._homes += 1
        home = str(self.stage.folder / f"machine-{self._homes}")
        child = await self.stage.start("worker", "--json", "--concurrency", "1", env={"RECOUP_HOME": home})
        worker = Worker(f"worker {self._homes}", child)
        self.workers.append(worker)
        self._ears.append(asyncio.create_task(worker.listen()))
        return worker

    async def kill(self, worker: Worker) -> None:
        self.workers.remove(worker)
        await worker.kill()

    async def ask(self, path: str) -> Any:
        return await Gateway(self.url, self.token).ask(path)

    async def page(self, path: str) -> str:
        return await Gateway(self.url, self.token).page(path)

    async def run(self, run_id: str) -> Any:
        return await self.ask(f"/api/runs/{run_id}")

    async def events(self, run_id: str) -> list[dict[str, Any]]:
        return list((await self.ask(f"/api/runs/{run_id}/events?limit=500"))["items"])

    async def workers_seen(self) -> list[dict[str, Any]]:
        return list((await self.ask("/api/workers"))["items"])

    async def driver_of(self, run_id: str) -> Worker:
        """Who says that it drives this run."""

        async def found() -> Worker | None:
            pids = [one["pid"] for one in await self.workers_seen() if run_id in one["runs"]]
            return next((worker for worker in self.workers if worker.pid in pids and not worker.frozen), None)

        return await until(found, f"nobody drives {run_id}")


def lines_of(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]
