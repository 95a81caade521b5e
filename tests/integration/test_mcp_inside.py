"""An agent inside a step calls Recoup's own tools: real agents against a scripted model, and the real MCP client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration import test_agents as agents
from tests.integration.test_agents import (
    DONE,
    WRITE,
    Bench,
    claude,
    codex,
    needs_claude,
    needs_codex,
)

from recoup.app import tool_server
from recoup.model import events as ev
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.plan import Limits
from recoup.model.run import RunStatus
from recoup.processes.keeper import LinuxKeeper
from recoup.runtimes.agent.runtime import AgentRuntime
from recoup.testing.model_server import Hang, ModelServer, Say, Use

bench = agents.bench

PROGRESS = Use("mcp__recoup__report_progress", {"message": "half of it is made", "percent": 50})
RESET = Use("mcp__recoup__request_reset", {"kind": "hard", "reason": "the build folder is torn"})


@pytest.fixture
def tooled(bench: Bench) -> Bench:
    bench.house.world.runtimes["agent"] = AgentRuntime(LinuxKeeper(), bench.open_log, tool_server())  # type: ignore[index]
    return bench


@needs_claude
async def test_claude_tells_progress_and_asks_for_a_reset(tooled: Bench) -> None:
    async with ModelServer(PROGRESS, RESET, Hang()) as model:
        state = await tooled.run(
            claude("--allowedTools", "Bash"),
            DONE,
            env={"ANTHROPIC_BASE_URL": model.url},
            limits=Limits(max_attempts=1),
        )
    print(tooled.log())
    failure = await tooled.failure()
    print(failure)
    assert failure.facts.kind is FailureKind.HARD_RESET_REQUESTED


@needs_codex
async def test_codex_tells_progress_and_asks_for_a_reset(tooled: Bench) -> None:
    async with ModelServer(PROGRESS, RESET, Hang()) as model:
        state = await tooled.run(codex(model.url), DONE, limits=Limits(max_attempts=1))
    print(tooled.log())
    failure = await tooled.failure()
    print(failure)
    assert failure.facts.kind is FailureKind.HARD_RESET_REQUESTED
