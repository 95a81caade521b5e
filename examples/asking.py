"""A gateway of a story's own: asked over HTTP as a program would."""

import asyncio
import http.client
import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from examples.camera import signed_in
from examples.stage import Child, Stage, StoryBroken, ended

OVER: Final = ("succeeded", "failed", "dead_letter", "escalated", "cancelled", "blocked")
ENDS: Final = (b"event: task.run.", b"event: Escalated", b"event: end")
"""Lines of a stream of events after which a run may be over."""
RUN_S_MAX: Final = 90
ANSWER_S_MAX: Final = 30
START_S_MAX: Final = 60


@dataclass(frozen=True)
class Gateway:
    url: str
    token: str

    async def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return await asyncio.to_thread(self._ask, path, body)

    async def page(self, path: str) -> str:
        """As it stands, for those who look for words in it."""
        return await asyncio.to_thread(self._read, path)

    async def run(self, **wanted: Any) -> dict[str, Any]:
        """Submit a run and wait for its end: what `recoup show --json` says of it."""
        run_id = (await self.ask("/api/runs", wanted))["runId"]
        return await asyncio.to_thread(self._over, run_id)

    async def facts(self, run_id: str, kind: str) -> list[dict[str, Any]]:
        """What the events of this kind say."""
        page = await self.ask(f"/api/runs/{run_id}/events?limit=200")
        return [event["payload"] for event in page["items"] if event["type"] == kind]

    def _over(self, run_id: str) -> dict[str, Any]:
        """Its events say when it is worth asking how it stands."""
        last = time.monotonic() + RUN_S_MAX
        with self._open(f"/api/runs/{run_id}/events/stream") as events:
            for line in events:
                if line.startswith(ENDS):
                    found: dict[str, Any] = self._ask(f"/api/runs/{run_id}", None)
                    if found["status"] in OVER:
                        return found
                if time.monotonic() > last:
                    break
        raise StoryBroken(f"{run_id} did not end within {RUN_S_MAX} s")

    def _ask(self, path: str, body: Mapping[str, Any] | None) -> Any:
        with self._open(path, body) as answer:
            return json.load(answer)

    def _read(self, path: str) -> str:
        with self._open(path) as answer:
            return answer.read().decode()

    def _open(self, path: str, body: Mapping[str, Any] | None = None) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=ANSWER_S_MAX)
            return answer
        except urllib.error.HTTPError as refused:
            raise StoryBroken(f"{path}: {refused.code} {refused.read()[:500].decode()}") from None


@asynccontextmanager
async def serving(stage: Stage, *words: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Gateway]:
    """`recoup serve`, as long as it is entered."""
    token = secrets.token_urlsafe(32)
    stage.say(f"   $ recoup serve {' '.join(words)} &")
    child = await stage.start(
        "serve", "--port", "0", "--json", *words, env={"RECOUP_TOKEN": token, **(env or {})}
    )
    try:
        yield Gateway(await _address(child), token)
    finally:
        await ended(child, grace_s=15)


async def _address(child: Child) -> str:
    assert child.stdout is not None
    line = await asyncio.wait_for(child.stdout.readline(), START_S_MAX)
    if not line:
        said = await child.stderr.read() if child.stderr else b""
        raise StoryBroken(f"recoup serve ended at once:\n{said.decode()[-2_000:]}")
    return str(json.loads(line)["url"])


async def pictures(stage: Stage, gateway: Gateway, story: str, pages: Mapping[str, str]) -> None:
    """Of pages of the console; nothing where nobody asked for any."""
    async with signed_in(stage.pictures, story, gateway.url, gateway.token) as camera:
        for what, path in pages.items():
            await camera.take(what, path)
