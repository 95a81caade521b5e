"""`resume: session`: the agent's session survives the loss of its driver."""

from __future__ import annotations

import secrets
import signal
import time
from uuid import uuid4

import pytest
from tests.scenario.conftest import Cli, kill, wait_for

SESSION = "task.step.agent.session"
AGENT = """#!/bin/sh
# As Claude Code speaks, for as long as nobody has written `go`.
printf '%s\\n' "$*" >> {folder}/calls
printf '{{"type":"system","subtype":"init","session_id":"%s","note":"%s"}}\\n' {session} "$API_TOKEN"
[ -e {folder}/go ] || exec sleep 300
echo '{{"type":"result","subtype":"success","is_error":false,"result":"done","num_turns":1}}'
"""


def scripted_agent(cli: Cli, session: str, **agent: str) -> str:
    """A plan with a step of an agent that is called `claude`."""
    program = cli.folder / "claude"
    program.write_text(AGENT.format(folder=cli.folder, session=session))
    program.chmod(0o755)
    more = "".join(f", {name}: {value}" for name, value in agent.items())
    return cli.plan(f"""
        version: 1
        name: agents
        steps: [{{id: fix, agent: {{cli: {program}, prompt: Make it, mcp: false{more}}}}}]
    """)


def calls(cli: Cli) -> list[str]:
    """The arguments of each call of the agent; only the lines that hold its options."""
    return [line for line in (cli.folder / "calls").read_text().splitlines() if "--output-format" in line]


def wait_for_event(cli: Cli, event_type: str) -> list[dict[str, object]]:
    wait_for(cli.folder / "calls", text="--output-format")
    deadline = time.monotonic() + 60
    while True:
        found = [
            line["payload"]
            for line in cli("events", "last", "--json").lines
            if line.get("type") == event_type
        ]
        if found:
            return found
        assert time.monotonic() < deadline, f"no {event_type}"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("ledger", "signum"),
    [("sqlite", signal.SIGKILL), ("sqlite", signal.SIGTERM), ("postgres", signal.SIGKILL)],
    ids=["killed", "interrupted", "killed, postgres"],
)
def test_the_attempt_after_a_lost_driver_resumes_the_session_of_the_agent(
    cli: Cli, request: pytest.FixtureRequest, ledger: str, signum: int
) -> None:
    if ledger == "postgres":
        cli.env["RECOUP_DATABASE"] = request.getfixturevalue("postgres").prepared_database()
    session, token = str(uuid4()), "tok-" + secrets.token_hex(12)
    cli.env["API_TOKEN"] = token
    driver = cli.start("run", scripted_agent(cli, session, resume="session"))
    (heard,) = wait_for_event(cli, SESSION)
    assert (heard["stepId"], heard["attempt"], heard["sessionId"]) == ("fix", 1, session)
    driver.send_signal(signum)
    driver.communicate()
    (cli.folder / "go").touch()
    resumed = cli("resume", "last", "--json", timeout=100)
    assert resumed.code == 0, resumed.err
    assert [f"--resume {session}" in call for call in calls(cli)] == [False, True]
    assert token not in cli("events", "last", "--json").out + cli("logs", "last").out


def test_a_fresh_session_is_neither_recorded_nor_resumed(cli: Cli) -> None:
    driver = cli.start("run", scripted_agent(cli, str(uuid4())))
    wait_for(cli.folder / "calls", text="--output-format")
    kill(driver)
    (cli.folder / "go").touch()
    resumed = cli("resume", "last", "--json", timeout=100)
    assert resumed.code == 0, resumed.err
    assert not any("--resume" in call for call in calls(cli))
    assert SESSION not in cli("events", "last", "--json").out
