"""`recoup mcp` outside a step: the real MCP client, over stdio and HTTP; the ledger of a home, and a gateway."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent, TextResourceContents
from tests.integration.gateway_house import NO_TLS, Gateway, gateway

from recoup.app import App, open_app
from recoup.errors import RecoupError, SettingsError, UsageError
from recoup.mcp.bounds import ANSWER_BYTES_MAX, TEXT_CHARS_MAX, bounded
from recoup.mcp.desk import Desk, Steering, Submission
from recoup.mcp.gateway_desk import GatewayDesk
from recoup.mcp.ledger_desk import LedgerDesk
from recoup.mcp.serving import serve_http
from recoup.settings import read_settings

TINY = "{version: 1, name: tiny, steps: [{id: a, run: 'echo grüezi'}]}"
BROKEN = (
    "{version: 1, name: broken, steps: [{id: a, run: 'true', expect: [{run: 'true'}]}, "
    "{id: b, run: 'echo no such table >&2; exit 77'}]}"
)
GATED = "{version: 1, name: gated, steps: [{id: ask, approve: {message: 'Release?'}}]}"
LOOKING = {
    *("list_runs", "get_run", "explain_failure", "get_events", "get_log"),
    *("list_attempts", "list_workflows", "get_mode", "list_heals"),
}
CHANGING = {"submit_plan", "control_run"}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("mcp") / "home", "--workers", "2") as served:
        yield served


@pytest.fixture(scope="module")
def broken(house: Gateway) -> str:
    """A run that failed for good in its second step."""
    run_id = house.submit(BROKEN, reason="to see it fail")
    house.wait(run_id, lambda run: run["status"] == "failed")
    return run_id


@contextlib.asynccontextmanager
async def app_of(house: Gateway) -> AsyncIterator[App]:
    settings = read_settings({"HOME": str(house.home), "RECOUP_HOME": str(house.home)}, house.home)
    async with open_app(settings, {}) as app:
        yield app


@contextlib.asynccontextmanager
async def over_http(app: App, token: str | None, *, read_only: bool = False) -> AsyncIterator[Client]:
    """Served on this test's own loop; asked through a real socket."""
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve_http(app, 0, url.set_result, read_only=read_only))
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        await asyncio.wait({serving, url}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, verify=NO_TLS, timeout=20) as http,
            Client(streamable_http_client(await url, http_client=http)) as client,
        ):
            yield client
    finally:
        os.kill(os.getpid(), 15)
        await serving


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert isinstance(answer, CallToolResult)
    assert not answer.is_error, words(answer)
    return answer.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert isinstance(answer, CallToolResult)
    assert answer.is_error, answer
    return words(answer)


def words(answer: CallToolResult) -> str:
    return "\n".join(part.text for part in answer.content if isinstance(part, TextContent))


async def test_over_stdio_an_agent_submits_looks_and_steers(house: Gateway, broken: str, tmp_path: Path) -> None:
    plan = tmp_path / "gated.yaml"
    plan.write_text(GATED)
    started = StdioServerParameters(
        command=sys.executable,
        args=["-m", "recoup.cli.main", "mcp"],
        env={"RECOUP_HOME": str(house.home)},
        cwd=tmp_path,
    )
    async with Client(started) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == LOOKING | CHANGING
        for name, tool in tools.items():
            assert tool.annotations and tool.description
            assert tool.annotations.read_only_hint == (name in LOOKING)
            assert name in LOOKING or tool.annotations.destructive_hint
        made = await ask(client, "submit_plan", plan_path="gated.yaml", reason="to be asked", dedup_key="once")
        again = await ask(client, "submit_plan", plan_path="gated.yaml", dedup_key="once")
        assert (again["runId"], again["duplicate"]) == (made["runId"], True)
        house.wait(made["runId"], lambda run: run["status"] == "waiting")
        told = await refused(client, "control_run", run_id=made["runId"], action="resume", reason="go on")
        assert "possible now: " in told and "approve" in told
        done = await ask(client, "control_run", run_id=made["runId"], action="approve", reason="it is fine")
        assert done["outcome"] == "accepted"
        events = (await ask(client, "get_events", run_id=made["runId"]))["items"]
        actors = [one["payload"].get("actor") for one in events if one["type"] == "task.control"]
        assert any(actor and actor.endswith("(mcp)") for actor in actors)
        read = await client.read_resource(f"recoup://runs/{broken}")
        (content,) = read.contents
        assert isinstance(content, TextResourceContents)
        assert json.loads(content.text)["status"] == "failed"


async def test_a_failure_is_explained_from_what_is_recorded(house: Gateway, broken: str) -> None:
    async with app_of(house) as app, over_http(app, house.tokens["viewer"]) as client:
        told = await ask(client, "explain_failure", run_id=broken)
        assert told["status"] == "failed"
        assert told["knownGood"] == ["a"]
        assert told["stoppedAt"]["stepId"] == "b"
        (tried,) = told["tried"]
        assert (tried["stepId"], tried["attempt"], tried["failureClass"]) == ("b", 1, "deterministic_policy")
        assert "no such table" in told["logEnd"]
        assert f"reuse={broken}" in told["canBeDone"][0]
        assert "the run failed" in [note["what"] for note in told["happened"]]
        log = await ask(client, "get_log", run_id=broken, step="b", bytes_max=14)
        assert log["lines"] == ["no such table"]


async def test_over_http_roles_count_and_nobody_is_let_in_without_a_token(house: Gateway, broken: str) -> None:
    async with app_of(house) as app:
        async with over_http(app, house.tokens["viewer"]) as client:
            assert (await ask(client, "get_run", run_id=broken))["runId"] == broken
            told = await refused(client, "control_run", run_id=broken, action="cancel", reason="why not")
            assert "a viewer may not do this" in told
        async with over_http(app, house.tokens["operator"]) as client:
            made = await ask(client, "submit_plan", plan=TINY, reason="over MCP")
            (row,) = [one for one in (await ask(client, "list_runs", workflow="tiny"))["items"]]
            assert row["runId"] == made["runId"]
            first = (await ask(client, "get_events", run_id=made["runId"], limit=1))["items"][0]
            assert first["payload"]["submittedBy"].startswith("first operator (operator, tok-")
        for token in (None, "wrong", house.tokens["worker"]):
            with pytest.raises(BaseExceptionGroup):
                async with over_http(app, token):
                    pass
