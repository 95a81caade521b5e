"""A gateway of a story's own: asked over HTTP as a program would."""

import asyncio
import json
import secrets
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from examples.camera import signed_in
from examples.stage import Stage, StoryBroken, ended, until

OVER: Final = ("succeeded", "failed", "dead_letter", "escalated", "cancelled", "blocked")
RUN_S_MAX: Final = 90
ANSWER_S_MAX: Final = 30
START_S_MAX: Final = 60


@dataclass(frozen=True)
class Gateway:
    url: str
    token: str

    async def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return await asyncio.to_thread(self._ask, path, body)

    async def run(self, **wanted: Any) -> dict[str, Any]:
        """Submit a run and wait for its end: what `recoup show --json` says of it."""
        run_id = (await self.ask("/api/runs", wanted))["runId"]

        async def over() -> dict[str, Any] | None:
            found: dict[str, Any] = await self.ask(f"/api/runs/{run_id}")
            return found if found["status"] in OVER else None

        return await until(over, f"{run_id} did not end", RUN_S_MAX)

    async def facts(self, run_id: str, kind: str) -> list[dict[str, Any]]:
        """What the events of this kind say."""
        page = await self.ask(f"/api/runs/{run_id}/events?limit=200")
        return [event["payload"] for event in page["items"] if event["type"] == kind]

    def _ask(self, path: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S_MAX) as answer:
                return json.load(answer)
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


async def _address(child: asyncio.subprocess.Process) -> str:
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
