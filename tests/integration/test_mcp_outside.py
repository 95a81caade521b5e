"""`recoup mcp` outside a step: the real MCP client, over stdio and HTTP; the ledger of a home, and a gateway."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent, TextResourceContents
from tests.integration.gateway_house import NO_TLS, Gateway, gateway

from recoup.app import App, open_app
from recoup.documents.plan_file import parse_plan
from recoup.engine.world import Watcher
from recoup.errors import RecoupError, SettingsError, UsageError
from recoup.mcp import gateway_desk as desk_of_gateway
from recoup.mcp import outside
from recoup.mcp.bounds import ANSWER_BYTES_MAX, TEXT_CHARS_MAX, bounded
from recoup.mcp.command import mcp as mcp_command
from recoup.mcp.desk import Desk, Steering
from recoup.mcp.gateway_desk import GatewayDesk
from recoup.mcp.ledger_desk import LedgerDesk
from recoup.mcp.outside import Asking, build
from recoup.mcp.serving import serve_http
from recoup.model.storage import EVERY_RUN, RunFilter
from recoup.operations.recording import record
from recoup.operations.submission import SubmitRequest
from recoup.runtimes.tool_server import tool_server
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
    *("list_escalations", "get_queue", "list_workers", "list_memory_versions"),
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
async def served(
    app: App, *, read_only: bool = False, plan_folders: tuple[Path, ...] = ()
) -> AsyncIterator[str]:
    """On this test's own loop, at a real socket."""
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve_http(app, 0, url.set_result, read_only=read_only, plan_folders=plan_folders)
    )

    def ended(task: asyncio.Task[None]) -> None:
        if not url.done():
            url.set_exception(task.exception() or EOFError())

    serving.add_done_callback(ended)
    place = await url
    try:
        yield place
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


@contextlib.asynccontextmanager
async def connected(url: str, token: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, verify=NO_TLS, timeout=20) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


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


async def test_over_stdio_an_agent_submits_looks_and_steers(
    house: Gateway, broken: str, tmp_path: Path
) -> None:
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
        made = await ask(
            client, "submit_plan", plan_path="gated.yaml", reason="to be asked", dedup_key="once"
        )
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
    async with app_of(house) as app, served(app) as url, connected(url, house.tokens["viewer"]) as client:
        told = await ask(client, "explain_failure", run_id=broken)
        log = await ask(client, "get_log", run_id=broken, step="b", bytes_max=14)
    assert (told["status"], told["knownGood"], told["stoppedAt"]["stepId"]) == ("failed", ["a"], "b")
    (tried,) = told["tried"]
    assert (tried["stepId"], tried["attempt"], tried["failureClass"]) == ("b", 1, "deterministic_policy")
    assert "no such table" in told["logEnd"]
    assert told["canBeDone"][-1].endswith(f": recoup queue retry {broken}")
    assert any(note["what"].startswith("failed: ") for note in told["happened"])
    assert log["lines"] == ["no such table"]


async def test_over_http_a_token_counts_for_what_its_role_may(house: Gateway, broken: str) -> None:
    async with app_of(house) as app, served(app) as url:
        async with connected(url, house.tokens["viewer"]) as client:
            assert (await ask(client, "get_run", run_id=broken))["runId"] == broken
            told = await refused(client, "control_run", run_id=broken, action="cancel", reason="why not")
            assert "a viewer may not do this" in told
        async with connected(url, house.tokens["operator"]) as client:
            made = await ask(client, "submit_plan", plan=TINY, reason="over MCP")
            first = (await ask(client, "get_events", run_id=made["runId"], limit=1))["items"][0]
            assert first["payload"]["submittedBy"].startswith("first operator (operator, tok-")
            told = await refused(
                client, "submit_plan", plan="{version: 1, name: x, steps: [{id: a, rum: b}]}"
            )
            assert "did you mean `run`?" in told


async def test_over_http_what_a_second_person_must_agree_to_is_not_done(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("approval_required: [submit, cancel]\n")
    token = secrets.token_urlsafe(32)
    env = {"HOME": str(tmp_path), "RECOUP_POLICY": str(tmp_path / "policy.yaml"), "RECOUP_TOKEN": token}
    async with open_app(read_settings(env, tmp_path, str(tmp_path / "home")), {}) as app:
        made = await LedgerDesk(app, "me").submit(SubmitRequest(plan=TINY, queue="nobody"))
        async with served(app) as url, connected(url, token) as client:
            told = await refused(client, "submit_plan", plan=TINY, reason="alone")
            assert "somebody else must agree" in told and "RECOUP_GATEWAY" in told
            cancel = {"run_id": made["runId"], "action": "cancel", "reason": "alone"}
            assert "approval_required names cancel" in await refused(client, "control_run", **cancel)
            assert [one["status"] for one in (await ask(client, "list_runs"))["items"]] == ["queued"]
            paused = await ask(client, "control_run", **{**cancel, "action": "pause"})
            assert paused["outcome"] == "accepted", "what is not on the list is done"


async def test_over_http_plans_come_from_their_folders_only(house: Gateway, tmp_path: Path) -> None:
    inside, outside = tmp_path / "plans", tmp_path / "outside.yaml"
    inside.mkdir()
    for path in (inside / "tiny.yaml", outside):
        path.write_text(TINY)
    (inside / "link.yaml").symlink_to(outside)
    async with (
        app_of(house) as app,
        served(app, plan_folders=(inside,)) as url,
        connected(url, house.tokens["operator"]) as client,
    ):
        assert "certain folders only" in await refused(client, "submit_plan", plan=TINY)
        for path in (outside, inside / "link.yaml", inside / ".." / "outside.yaml"):
            assert "none of the folders" in await refused(client, "submit_plan", plan_path=str(path))
        assert (await ask(client, "submit_plan", plan_path=str(inside / "tiny.yaml"), queue="nobody"))[
            "runId"
        ]


async def test_over_http_nobody_else_is_let_in(house: Gateway) -> None:
    async with app_of(house) as app, served(app) as url:
        known = f"Bearer {house.tokens['operator']}"
        asked: list[tuple[int, dict[str, str]]] = [
            (401, {}),
            (401, {"Authorization": f"Bearer {secrets.token_urlsafe(32)}"}),
            (401, {"Authorization": house.tokens["operator"]}),
            (403, {"Authorization": f"Bearer {house.tokens['worker']}"}),
            (421, {"Authorization": known, "Host": "rebound.example"}),
            (403, {"Authorization": known, "Origin": "https://elsewhere.example"}),
        ]
        async with httpx2.AsyncClient(trust_env=False, verify=NO_TLS) as http:
            for status, headers in asked:
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
                accept = {"Accept": "application/json, text/event-stream"}
                answer = await http.post(url, json=body, headers={**accept, **headers})
                assert answer.status_code == status, (headers, answer.text)


async def test_read_only_offers_nothing_that_changes(house: Gateway) -> None:
    operator = house.tokens["operator"]
    async with (
        app_of(house) as app,
        served(app, read_only=True) as url,
        connected(url, operator) as client,
    ):
        assert {tool.name for tool in (await client.list_tools()).tools} == LOOKING
        assert "Unknown tool" in await refused(client, "submit_plan", plan=TINY)


async def test_a_gateway_answers_as_the_ledger_does(house: Gateway, broken: str) -> None:
    gateway_desk = GatewayDesk(house.url, house.tokens["operator"])
    house.submit(BROKEN, queue="nobody")  # lists have a second page
    looks: list[Callable[[Desk], Any]] = [
        lambda desk: desk.run(broken),
        lambda desk: desk.steps(broken),
        lambda desk: desk.attempts(broken),
        lambda desk: desk.events(broken, 2, 3),
        lambda desk: desk.log_end(broken, "b", 9),
        lambda desk: desk.mode("broken"),
        lambda desk: desk.mode("-"),
        lambda desk: desk.heals(None, broken, None, 5),
        lambda desk: desk.escalations("resolved", "run", 1, None),
        lambda desk: desk.memory("broken"),
    ]
    async with app_of(house) as app, contextlib.aclosing(gateway_desk):
        ledger_desk = LedgerDesk(app, "me")
        for look in looks:
            assert plain(await look(ledger_desk)) == await look(gateway_desk)
        for desk in (ledger_desk, gateway_desk):
            one = await desk.runs(EVERY_RUN, 1, None)
            two = await desk.runs(EVERY_RUN, 1, one["nextCursor"])
            assert one["items"][0]["submittedAt"] > two["items"][0]["submittedAt"]
            at_us = round(datetime.fromisoformat(two["items"][0]["submittedAt"]).timestamp() * 1e6)
            before = RunFilter(statuses=("failed",), workflow="broken", until_us=at_us + 1, text="BROK")
            assert (await desk.runs(before, 5, None))["items"]
            assert not (await desk.runs(RunFilter(until_us=1), 5, None))["items"]
            assert "broken" in [mode["workflow"] for mode in (await desk.workflows())["items"]]
            assert "nobody" in [one["queue"] for one in (await desk.queue())["queues"]]
            assert (await desk.workers())["items"]


async def test_all_pages_of_a_gateway_are_one_list(
    house: Gateway, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with contextlib.aclosing(GatewayDesk(house.url, house.tokens["viewer"])) as desk:
        attempts, workflows = await desk.attempts(broken), await desk.workflows()
        assert len(attempts["items"]) > 1
        monkeypatch.setattr(desk_of_gateway, "_PAGE_ITEMS", 1)
        assert (await desk.attempts(broken), await desk.workflows()) == (attempts, workflows)
        monkeypatch.setattr(desk_of_gateway, "_PAGES_MAX", 1)
        cut = await desk.attempts(broken)
        assert len(cut["items"]) == 1 and cut["nextCursor"] is not None


async def test_with_a_gateway_the_role_of_its_token_counts(house: Gateway, broken: str) -> None:
    async with contextlib.aclosing(GatewayDesk(house.url, house.tokens["viewer"])) as desk:

        def desk_of(asking: Asking, *, changing: bool) -> Desk:
            return desk

        async with Client(build(desk_of, str, read_only=False)) as client:
            assert (await ask(client, "explain_failure", run_id=broken))["status"] == "failed"
            some = {"status": "failed", "text": "BROK", "since": "2020-01-01T00:00:00Z", "limit": 50}
            assert broken in [one["runId"] for one in (await ask(client, "list_runs", **some))["items"]]
            some["until"] = some["since"]
            assert (await ask(client, "list_runs", **some))["items"] == []
            told = await refused(client, "submit_plan", plan=TINY)
            assert "a viewer may not do this" in told and "It takes the role: operator." in told


async def test_what_cannot_be_had_or_done_is_said_alike_by_both(house: Gateway, broken: str) -> None:
    gateway_desk = GatewayDesk(house.url, house.tokens["operator"])
    cancel = Steering(action="cancel", reason="too late")
    asked: list[tuple[Callable[[Desk], Any], str]] = [
        (lambda desk: desk.run("nothing"), "there is no run 'nothing'"),
        (lambda desk: desk.log_end(broken, "z", 100), "has no step 'z'"),
        (lambda desk: desk.mode("nobody"), "no workflow 'nobody' has ever run here"),
        (lambda desk: desk.runs(EVERY_RUN, 5, "?"), "cursor"),
        (lambda desk: desk.runs(RunFilter(statuses=("odd",)), 5, None), "status"),
        (lambda desk: desk.submit(SubmitRequest()), "there is no plan"),
        (lambda desk: desk.submit(SubmitRequest(plan=TINY, plan_path="/x")), "two plans"),
        (lambda desk: desk.submit(SubmitRequest(plan=TINY, from_step="a")), "what is reused"),
        (lambda desk: desk.submit(SubmitRequest(plan_path="relative")), "must begin with /"),
        (lambda desk: desk.control(broken, cancel), "possible now: nothing"),
        (lambda desk: desk.control(broken, msgspec.structs.replace(cancel, action="settle")), "settle needs"),
        (lambda desk: desk.control(broken, msgspec.structs.replace(cancel, force=True)), "force is for"),
    ]
    async with app_of(house) as app, contextlib.aclosing(gateway_desk):
        for act, expected in asked:
            for desk in (LedgerDesk(app, "me"), gateway_desk):
                with pytest.raises(RecoupError) as error:
                    await act(desk)
                assert expected in error.value.message, (desk, error.value.message)


async def test_a_gateway_that_is_not_there_or_not_safe_is_told() -> None:
    with pytest.raises(UsageError, match="unencrypted"):
        GatewayDesk("http://gateway.example:8620", "token")
    desk = GatewayDesk("http://127.0.0.1:9", "token")
    async with contextlib.aclosing(desk):
        with pytest.raises(RecoupError, match="does not answer"):
            await desk.workflows()


async def test_without_tokens_nothing_is_served(tmp_path: Path) -> None:
    async with open_app(read_settings({"HOME": str(tmp_path)}, tmp_path, str(tmp_path / "home")), {}) as app:
        with pytest.raises(SettingsError, match="there are no tokens"):
            async with served(app):
                pass


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    ended = CliRunner().invoke(mcp_command, [])
    assert isinstance(ended.exception, SettingsError)
    assert ended.exception.hint == "pip install 'recoup[mcp]'"
    assert tool_server() is None


def test_no_answer_is_without_a_limit() -> None:
    long = bounded({"a": ["x" * (TEXT_CHARS_MAX + 7)], "b": 1}, str)
    assert long == {"a": ["x" * TEXT_CHARS_MAX + "… [7 characters left out]"], "b": 1}
    with pytest.raises(UsageError, match="Ask for less"):
        bounded(["x" * TEXT_CHARS_MAX] * (ANSWER_BYTES_MAX // TEXT_CHARS_MAX + 1), str)


def plain(document: Any) -> Any:
    return json.loads(msgspec.json.encode(document))


@pytest.mark.parametrize("read_max", [4, 8, 1_000])
async def test_of_a_very_long_run_its_end_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_max: int
) -> None:
    monkeypatch.setattr(outside, "EVENTS_READ_MAX", read_max)
    monkeypatch.setattr(outside, "_EVENTS_PAGE", 2)
    settings = read_settings({"RECOUP_HOME": str(tmp_path / "home")}, tmp_path)
    async with open_app(settings, {}) as app:
        steps = ", ".join(f"{{id: s{number}, run: 'true'}}" for number in range(6))
        text = f"{{version: 1, name: long, steps: [{steps}, {{id: bad, run: 'exit 9', max_attempts: 1}}]}}"
        run_id = await record(app, parse_plan(text, "plan", tmp_path), {}, None)
        state = await app.driving.drive(run_id, Watcher())
        told = await outside._telling_events(LedgerDesk(app, "ada"), run_id)
    assert state.seq > 16
    assert told[-1]["type"] == "task.run.failed"
