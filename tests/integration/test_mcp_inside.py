"""An agent inside a step calls Recoup's own tools: real agents against a scripted model, and the real MCP client."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent
from tests.integration import test_agents as agents
from tests.integration.test_agents import (
    Bench,
    Watching,
    claude,
    codex,
    needs_claude,
    needs_codex,
)
from tests.repositories import new_repository

from recoup.clock import SystemClock
from recoup.errors import UsageError
from recoup.mcp.inside import CONTEXT_BYTES_MAX, FIRST_ATTEMPT, REASON_CHARS_MAX, build
from recoup.model import events as ev
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.ids import run_stream
from recoup.model.outcome import Order
from recoup.model.plan import AgentAction, FileCheck, Limits, Plan, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import RunStatus
from recoup.model.workspace import GitSource
from recoup.processes.keeper import LinuxKeeper
from recoup.runtimes.agent.runtime import AgentRuntime
from recoup.runtimes.shell import ShellRuntime
from recoup.runtimes.step_log import StepLog
from recoup.runtimes.tool_server import tool_server
from recoup.testing.house import House
from recoup.testing.model_server import ModelServer, Use
from recoup.workspace.workspaces import GitWorkspaces

bench = agents.bench
ONCE = Limits(max_attempts=1)
PROGRESS = Use("mcp__recoup__report_progress", {"message": "half of it is made", "percent": 50})
RESET = Use("mcp__recoup__request_reset", {"kind": "hard", "reason": "the build folder is torn"})
OTHER = '{"mcpServers": {"other": {"command": "false"}}}'
"""One that the user has given the agent."""


@pytest.fixture
def tooled(bench: Bench) -> Bench:
    bench.house.world.runtimes["agent"] = AgentRuntime(LinuxKeeper(), bench.open_log, tool_server())  # type: ignore[index]
    return bench


@needs_claude
async def test_claude_tells_progress_and_asks_for_a_reset(tooled: Bench) -> None:
    async with ModelServer(PROGRESS, RESET) as model:
        order = Order(
            run_id="run-1",
            step_id="fix",
            step_index=0,
            attempt=1,
            action=claude("--allowedTools", "Bash", "--mcp-config", OTHER),
            cwd=str(tooled.folder),
            env={**tooled.env, **attempt_env(tooled.folder), "ANTHROPIC_BASE_URL": model.url},
            policy=Policy(stop_grace_seconds=1),
        )
        (tooled.folder / "mcp.py").write_text("raise SystemExit('a file of the workspace was loaded')")
        hooks = Watching()
        runtime = AgentRuntime(LinuxKeeper(), tooled.open_log, tool_server())
        outcome = await runtime.perform(order, hooks)
    [init] = [line for line in tooled.log().splitlines() if '"subtype":"init"' in line]
    servers = {server["name"]: server["status"] for server in json.loads(init)["mcp_servers"]}
    assert servers.keys() == {"recoup", "other"}
    assert "half of it is made" in hooks.notes, "people are shown it"
    assert outcome.kind is FailureKind.HARD_RESET_REQUESTED
    assert (outcome.agent_event, outcome.interrupted) == ("claude:asked:hard_reset_requested", False)
    assert outcome.detail == "the build folder is torn"
    assert "This attempt ends now" in tooled.log(), "the agent learns what follows"


@needs_codex
async def test_codex_tells_progress_and_asks_for_a_reset_without_any_permission(tooled: Bench) -> None:
    """It takes the server's tools as soon as it has them; here it is told to wait for that."""
    async with ModelServer(PROGRESS, RESET) as model:
        action = codex(model.url, "-c", "mcp_servers.recoup.required=true")
        words = tuple(word.replace("danger-full-access", "read-only") for word in action.args)
        await tooled.run(msgspec.structs.replace(action, args=words), limits=ONCE)
    failure = await tooled.failure()
    assert failure.facts.kind is FailureKind.HARD_RESET_REQUESTED
    assert failure.facts.agent_event == "codex:asked:hard_reset_requested"
    assert failure.failure_class is FailureClass.STUCK_NO_PROGRESS
    assert failure.summary == "the step asked for a hard reset: the build folder is torn"
    assert '"text":"told"' in tooled.log() and "This attempt ends now" in tooled.log()


async def test_without_the_package_an_agent_works_as_before_and_the_log_says_so_once(bench: Bench) -> None:
    await bench.run(stand_in(bench, "claude"), limits=Limits(max_attempts=2, no_progress_limit=9))
    assert bench.log().count("--- attempt") == 2
    assert bench.log().count("[the agent is given no tools of Recoup") == 1
    assert "mcp" not in bench.log().partition("given: ")[2].partition("\n")[0]


@pytest.mark.parametrize(("mcp", "given"), [(True, True), (False, False)])
async def test_the_plan_says_whether_an_agent_gets_the_tools(tooled: Bench, mcp: bool, given: bool) -> None:
    action = msgspec.structs.replace(stand_in(tooled, "claude"), mcp=mcp)
    await tooled.run(action, limits=ONCE)
    assert ("--mcp-config={" in tooled.log()) is given
    assert ("waits: 0" in tooled.log()) is given
    assert "given no tools" not in tooled.log()


def stand_in(bench: Bench, name: str) -> AgentAction:
    """A command of that name, which says what it was given and fails."""
    path = Path(bench.env["HOME"]) / name
    path.write_text('#!/bin/sh\necho "given: $*"\necho "waits: $MCP_CONNECTION_NONBLOCKING"\nexit 1\n')
    path.chmod(0o755)
    return AgentAction(str(path), "Make it")


async def test_a_step_that_asks_for_a_hard_reset_goes_on_in_a_fresh_workspace(tmp_path: Path) -> None:
    """Any process of the step may ask; the attempt ends, and the next one finds nothing of what this one did."""
    (tmp_path / "house").mkdir()
    new_repository(tmp_path / "repo", {"README": "hello\n"})
    house = House(tmp_path / "house", clock=SystemClock(), policy=Policy(backoff_ms=1, stop_grace_seconds=1))

    def open_log(_order: Any) -> StepLog:
        return StepLog(house.root / "log", house.redactor, 1 << 20, "---")

    house.world.runtimes["run"] = ShellRuntime(LinuxKeeper(), open_log)  # type: ignore[index]
    secret = "hush" + secrets.token_hex(12)
    house.redactor.register("TOKEN", secret)
    asked = json.dumps({"kind": "hard", "reason": f"the build folder is torn: {secret}"})
    script = f"""
        [ "$RECOUP_ATTEMPT" = 1 ] || {{ test ! -e torn && touch made; exit; }}
        touch torn; echo '{asked}' > "$RECOUP_RESET"; sleep 60
    """
    step = Step(id="build", action=RunAction(script), expect=(FileCheck("made"),))
    plan = Plan(
        name="build", steps=(step,), workspace=GitSource(str(tmp_path / "repo")), folder=str(tmp_path)
    )
    await house.submit(plan)
    workspaces = GitWorkspaces(house.root / "runs" / "run-1")
    state = await (await house.driver("run-1", workspaces)).drive()
    events = [event.payload for event in await house.ledger.read(run_stream("run-1"))]
    (failed,) = [one for one in events if isinstance(one, ev.AttemptFailed)]
    await house.ledger.close()
    assert (state.status, state.workspaces.current) == (RunStatus.SUCCEEDED, 2)
    assert (failed.strategy, failed.outcome_known) == ("hard_reset", False)
    assert failed.facts.kind is FailureKind.HARD_RESET_REQUESTED
    assert failed.summary == "the step asked for a hard reset: the build folder is torn: [redacted]"


def attempt_env(folder: Path) -> dict[str, str]:
    about = {"RECOUP_RUN_ID": "run-1", "RECOUP_STEP_ID": "fix", "RECOUP_ATTEMPT": "2"}
    return {**about, "RECOUP_OUTPUT": str(folder / "output")}


@contextmanager
def pipe(path: Path) -> Iterator[int]:
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield reader
    finally:
        os.close(reader)


async def test_the_server_speaks_through_the_files_of_its_attempt_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tmp_path / "context.json"
    env = {
        **attempt_env(tmp_path),
        **{"RECOUP_PROGRESS": str(tmp_path / "progress"), "RECOUP_RESET": str(tmp_path / "reset")},
        **{"RECOUP_RETRY_CONTEXT": str(context), "RECOUP_HOME": "/nowhere/at/all"},
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    async with Client(build()) as client:

        async def ask(tool: str, **arguments: Any) -> tuple[bool, str]:
            answer = await client.call_tool(tool, arguments)
            assert isinstance(answer, CallToolResult)
            (said,) = answer.content
            assert isinstance(said, TextContent)
            return bool(answer.is_error), said.text

        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
        assert {name for name, one in hints.items() if one and one.read_only_hint} == {"get_failure_context"}
        assert {name for name, one in hints.items() if one and one.destructive_hint} == {"request_reset"}

        context.write_text('{"failureSummary": "it was torn"}' + " " * CONTEXT_BYTES_MAX)
        failed, said = await ask("get_failure_context")
        assert not failed and "it was torn" in said and len(said) == CONTEXT_BYTES_MAX
        monkeypatch.delenv("RECOUP_RETRY_CONTEXT")
        assert await ask("get_failure_context") == (False, FIRST_ATTEMPT)
        assert await ask("report_progress", message="nobody reads this") == (False, "told")
        with pipe(tmp_path / "progress") as progress:
            assert await ask("report_progress", message="half of it", percent=100) == (False, "told")
            assert os.read(progress, 1000) == b'100.0/100.0 "half of it"\n'
        assert (await ask("request_reset", kind="hard", reason="torn"))[0], "nobody heard it"
        with pipe(tmp_path / "reset") as reset:
            failed, said = await ask("request_reset", kind="hard", reason="é" * 10 + " torn" * 1_000)
            asked = json.loads(os.read(reset, 1 << 16))
            assert not failed and "This attempt ends now" in said
            assert asked["kind"] == "hard" and len(asked["reason"]) <= REASON_CHARS_MAX
            assert asked["reason"].endswith(" torn")
        assert (await ask("request_reset", kind="sideways", reason="torn"))[0]
        assert (await ask("request_reset", kind="soft", reason="  "))[0]


def test_outside_a_step_there_is_no_server_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECOUP_RUN_ID", raising=False)
    with pytest.raises(UsageError, match="not inside a step"):
        build()
