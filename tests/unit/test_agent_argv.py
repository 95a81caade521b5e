"""How an agent is called, and what it is told."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.engine.papers import CONSTRAINTS
from recoup.model.outcome import Order
from recoup.model.plan import AgentAction, AgentSession
from recoup.model.policy import Policy
from recoup.runtimes.agent.claude import CLAUDE
from recoup.runtimes.agent.clis import argv_of, call_of, cli_name, dialect_of
from recoup.runtimes.agent.codex import CODEX
from recoup.runtimes.agent.prompt import FILES_MAX, prompt_for
from recoup.runtimes.agent.tools import FORWARDED, TOOLS

SESSION = "0b7c3f52-5f0e-4d19-9a57-0d8a3b1c2d4e"
CONTEXT: dict[str, Any] = {
    "objective": "Everything is green",
    "stepId": "fix",
    "title": "Make the tests pass",
    "instructions": "Fix th",
    "attempt": 2,
    "failureSummary": "a postcondition does not hold: run: pytest -q: exit code 1",
    "failureClass": "unknown",
    "failureKind": "postcondition_failed",
    "failureSignature": "v2:0123456789abcdef",
    "strategy": "soft_reset",
    "lastCommand": "pytest -q",
    "changedFiles": ["app.py", "lib/b.py"],
    "diffHash": "sha256:77",
    "constraints": list(CONSTRAINTS),
}


def order_of(
    action: AgentAction,
    objective: str = "",
    title: str = "",
    context: dict[str, Any] | None = None,
    session_id: str | None = None,
) -> Order:
    return Order(
        run_id="run-1",
        step_id="fix",
        step_index=0,
        attempt=2 if context else 1,
        action=action,
        cwd=".",
        env={},
        policy=Policy(),
        objective=objective,
        title=title,
        retry_context=context,
        session_id=session_id,
    )


def argv(action: AgentAction, **more: Any) -> tuple[str, ...]:
    return argv_of(call_of(order_of(action, **more)), dialect_of(action))


# The command


def test_claude_is_asked_for_events_and_takes_the_users_own_arguments_last() -> None:
    assert argv(AgentAction("claude", "Fix it", ("--allowedTools", "Bash", "Edit"))) == (
        *("claude", "-p", "Fix it", "--output-format", "stream-json", "--verbose"),
        *("--allowedTools", "Bash", "Edit"),
    )


def test_codex_gets_its_prompt_behind_all_options() -> None:
    wanted = ("codex", "exec", "--json", "--sandbox", "read-only", "--", "Fix it")
    assert argv(AgentAction("codex", "Fix it", ("--sandbox", "read-only"))) == wanted


def test_gemini_is_asked_for_events() -> None:
    wanted = ("gemini", "--prompt=Fix it", "--output-format", "stream-json", "--yolo")
    assert argv(AgentAction("gemini", "Fix it", ("--yolo",))) == wanted


@pytest.mark.parametrize("prompt", ["--help", "-x", "- a list", "resume"])
@pytest.mark.parametrize("cli", ["claude", "codex", "gemini"])
def test_no_prompt_can_be_mistaken_for_an_option(cli: str, prompt: str) -> None:
    words = argv(AgentAction(cli, prompt))
    place = next(index for index, word in enumerate(words) if word.endswith(prompt))
    assert (
        not words[place].startswith("-") or words[place - 1] == "--" or words[place].startswith("--prompt=")
    )


@pytest.mark.parametrize("cli", ["/opt/bin/claude", "claude --model small", "~/bin/claude"])
def test_a_command_is_known_by_its_name_wherever_it_is(cli: str) -> None:
    action = AgentAction(cli, "Fix it")
    assert cli_name(action) == "claude"
    assert argv(action)[: len(cli.split())] == tuple(cli.split())
    assert "stream-json" in argv(action)


def test_any_other_command_gets_the_prompt_last_or_where_it_says() -> None:
    assert argv(AgentAction("my-agent 'a b'", "Fix it", ("-q",))) == ("my-agent", "a b", "-q", "Fix it")
    assert argv(AgentAction("my-agent --do={prompt}", "Fix it", ("-q",))) == ("my-agent", "--do=Fix it", "-q")
    assert argv(AgentAction("my-agent", "Fix it", ("--", "{prompt}"))) == ("my-agent", "--", "Fix it")
    assert argv(AgentAction("claude -p {prompt}", "Fix it")) == ("claude", "-p", "Fix it")


def test_a_command_that_cannot_be_split_is_still_no_reason_to_raise() -> None:
    assert argv(AgentAction("my-agent 'a", "Fix it")) == ("my-agent", "'a", "Fix it")


def test_the_prompt_is_not_looked_at_for_a_place_of_its_own() -> None:
    assert argv(AgentAction("my-agent {prompt}", "say {prompt}")) == ("my-agent", "say {prompt}")


@pytest.mark.parametrize(
    ("cli", "words"),
    [
        ("claude", ("--resume", SESSION)),
        ("codex", ("resume", SESSION, "--")),
        ("gemini", ("--resume", SESSION)),
    ],
)
def test_a_session_is_gone_on_with_only_when_the_plan_says_so(cli: str, words: tuple[str, ...]) -> None:
    goes_on = AgentAction(cli, "Fix it", (), AgentSession.SESSION)
    called = argv(goes_on, context=CONTEXT, session_id=SESSION)
    place = called.index(words[0])
    assert called[place : place + len(words)] == words
    assert SESSION not in argv(AgentAction(cli, "Fix it"), context=CONTEXT, session_id=SESSION)
    assert SESSION not in argv(goes_on)


def test_after_a_hard_reset_the_session_is_fresh() -> None:
    goes_on = AgentAction("claude", "Fix it", (), AgentSession.SESSION)
    context = {**CONTEXT, "strategy": "hard_reset"}
    assert "--resume" not in argv(goes_on, context=context, session_id=SESSION)


# The prompt


def test_a_prompt_that_stands_alone_is_given_as_it_is() -> None:
    assert prompt_for(order_of(AgentAction("claude", "/review\n\nall"))) == "/review\n\nall"


def test_the_first_attempt_gets_objective_and_step_and_nothing_else() -> None:
    order = order_of(AgentAction("claude", "Fix the tests"), "Everything is green", "Make the tests pass")
    assert (
        prompt_for(order)
        == "Objective: Everything is green\n\nStep fix: Make the tests pass\n\nFix the tests"
    )


def test_a_retry_gets_the_minimal_envelope_and_nothing_else() -> None:
    order = order_of(
        AgentAction("claude", "Fix the tests"), "Everything is green", "Make the tests pass", CONTEXT
    )
    assert prompt_for(order) == (
        "Objective: Everything is green\n\n"
        "Step fix, attempt 2: Make the tests pass\n\n"
        "Instructions:\nFix the tests\n\n"
        "The attempt before this one failed: a postcondition does not hold: run: pytest -q: exit code 1\n"
        "Failure signature: v2:0123456789abcdef\n"
        "Last command: pytest -q\n"
        "Changed files: app.py, lib/b.py\n"
        "Diff hash: sha256:77\n\n"
        "Constraints:\n"
        "- do not re-run unchanged remediation\n"
        "- if test harness instability is detected, isolate cause before editing product code"
    )


def test_what_is_not_known_is_not_said() -> None:
    context = {**CONTEXT, "lastCommand": CONTEXT["instructions"], "changedFiles": [], "diffHash": None}
    told = prompt_for(order_of(AgentAction("claude", "Fix the tests"), context=context))
    assert "Last command" not in told and "Changed files" not in told and "Diff hash" not in told


def test_an_envelope_stays_small_however_much_was_changed() -> None:
    context = {**CONTEXT, "changedFiles": ["f" * 4000] * 100_000}
    told = prompt_for(order_of(AgentAction("claude", "x" * 100_000), "o" * 100_000, context=context))
    assert len(told.encode()) < 128 << 10
    assert f"and {100_000 - FILES_MAX} more" in told


@given(
    st.text(max_size=50),
    st.dictionaries(st.sampled_from(sorted(CONTEXT)), st.text() | st.none() | st.integers()),
)
def test_any_prompt_can_be_carried_as_an_argument(prompt: str, context: dict[str, Any]) -> None:
    told = prompt_for(order_of(AgentAction("claude", prompt + "\0\ud800"), context=context or None))
    assert "\0" not in told
    told.encode()


# Recoup's own tools

SERVER = ("/usr/bin/python3", "-P", "-c", 'say "hi"')


def test_claude_is_given_the_server_beside_those_of_the_user_and_may_use_its_tools() -> None:
    assert CLAUDE.offer is not None
    config, allowed = CLAUDE.offer(SERVER).args
    told = json.loads(config.removeprefix("--mcp-config="))
    assert told == {"mcpServers": {"recoup": {"command": SERVER[0], "args": list(SERVER[1:])}}}
    assert allowed.removeprefix("--allowedTools=").split(",") == [f"mcp__recoup__{tool}" for tool in TOOLS]
    assert CLAUDE.offer(SERVER).env == {"MCP_CONNECTION_NONBLOCKING": "0"}


def test_codex_is_given_the_server_with_the_variables_of_its_attempt_and_no_others() -> None:
    assert CODEX.offer is not None
    option, setting = CODEX.offer(SERVER).args
    told = tomllib.loads(setting)["mcp_servers"]["recoup"]
    assert option == "-c"
    assert [told["command"], *told["args"]] == list(SERVER)
    assert told["env_vars"] == list(FORWARDED)


@pytest.mark.parametrize("kind", ["reset_requested", "hard_reset_requested"])
def test_after_an_agent_asked_for_a_reset_its_session_is_not_gone_on_with(kind: str) -> None:
    action = AgentAction("claude", "Fix it", resume=AgentSession.SESSION)
    context = {**CONTEXT, "failureKind": kind}
    assert "--resume" in argv(action, context=CONTEXT, session_id=SESSION)
    assert "--resume" not in argv(action, context=context, session_id=SESSION)
