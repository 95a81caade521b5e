"""Coding agents: the real command lines against a scripted model on loopback, and small commands in their place.

`make agents` installs the real ones; without them their tests are skipped, and say so.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import socket
import urllib.request
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.repositories import new_repository

from recoup.clock import SystemClock
from recoup.model import events as ev
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity, run_stream
from recoup.model.outcome import Order, Progress
from recoup.model.plan import AgentAction, AgentSession, Check, FileCheck, Limits, Plan, Step, TextMatch
from recoup.model.policy import Policy
from recoup.model.redacted import Redacted
from recoup.model.run import RunState, RunStatus
from recoup.model.workspace import GitSource
from recoup.processes.keeper import LinuxKeeper
from recoup.runtimes.agent.runtime import AgentRuntime
from recoup.runtimes.step_log import StepLog
from recoup.testing.house import House
from recoup.testing.model_server import Asked, Hang, ModelServer, Refuse, Say, Use
from recoup.workspace.workspaces import GitWorkspaces

AGENTS = Path(__file__).parents[2] / ".agents" / "node_modules" / ".bin"
NODE = shutil.which("node")


def needs(name: str) -> pytest.MarkDecorator:
    ready = NODE is not None and (AGENTS / name).exists()
    return pytest.mark.skipif(not ready, reason=f"{name} is not installed: run `make agents`")


needs_claude, needs_codex, needs_gemini = needs("claude"), needs("codex"), needs("gemini")

IDLE_S = 20
"""Longer than an agent takes to begin on a busy machine."""
RECONNECT_S = 15
NO_LIMITS = Limits()
WRITE = Use("Bash", {"command": "echo made > made.txt", "description": "make it"})
DONE = FileCheck("made.txt", contains=TextMatch(text="made"))


@dataclass
class Bench:
    """A run of one agent step in a repository of its own."""

    house: House
    folder: Path
    env: dict[str, str]

    async def run(
        self,
        action: AgentAction,
        *expect: Check,
        env: dict[str, str] | None = None,
        limits: Limits = NO_LIMITS,
    ) -> RunState:
        step = Step(
            id="fix",
            title="Make it",
            action=action,
            expect=expect,
            env={**self.env, **(env or {})},
            limits=limits,
        )
        source = GitSource(str(self.folder / "repo"))
        plan = Plan(
            name="agents", objective="It is made", steps=(step,), workspace=source, folder=str(self.folder)
        )
        await self.house.submit(plan)
        workspaces = GitWorkspaces(self.house.root / "runs" / "run-1")
        return await (await self.house.driver("run-1", workspaces)).drive()

    async def of_type(self, payload: type[Any]) -> list[Any]:
        events = await self.house.ledger.read(run_stream("run-1"))
        return [event.payload for event in events if isinstance(event.payload, payload)]

    async def failure(self) -> Any:
        """The first failed attempt."""
        return (await self.of_type(ev.AttemptFailed))[0]

    def log(self) -> str:
        return (self.house.root / "log").read_text()

    def open_log(self, order: Order) -> StepLog:
        return StepLog(self.house.root / "log", self.house.redactor, 1 << 20, f"--- attempt {order.attempt}")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    (tmp_path / "house").mkdir()
    house = House(tmp_path / "house", clock=SystemClock(), policy=Policy(backoff_ms=1, stop_grace_seconds=1))
    made = Bench(house, tmp_path, quiet(tmp_path))
    house.world.runtimes["agent"] = AgentRuntime(LinuxKeeper(), made.open_log)  # type: ignore[index]
    new_repository(tmp_path / "repo", {"README": "hello\n"})
    yield made
    await house.ledger.close()


def quiet(folder: Path) -> dict[str, str]:
    """A home of its own and no way out: whatever an agent wants from elsewhere is refused at once."""
    home = folder / "agent-home"
    home.mkdir()
    nowhere = f"http://127.0.0.1:{closed_port()}"
    return {
        "HOME": str(home),
        "PATH": f"{AGENTS}:{os.environ['PATH']}",
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1",
        "ANTHROPIC_API_KEY": dummy_key(),
        "SCRIPTED_KEY": dummy_key(),
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


def dummy_key() -> str:
    return "-".join(("not", "a", "key", secrets.token_hex(4)))


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def claude(
    *args: str, prompt: str = "Make made.txt", resume: AgentSession = AgentSession.FRESH
) -> AgentAction:
    return AgentAction("claude", prompt, ("--bare", *args), resume)


def codex(url: str, *args: str, resume: AgentSession = AgentSession.FRESH) -> AgentAction:
    provider = {
        "name": '"scripted"',
        "base_url": f'"{url}/v1"',
        "env_key": '"SCRIPTED_KEY"',
        "wire_api": '"responses"',
        "supports_websockets": "false",
        "request_max_retries": "0",
        "stream_max_retries": "1",
    }
    table = ",".join(f"{name}={value}" for name, value in provider.items())
    settings = ("-c", "model_provider=scripted", "-c", f"model_providers.scripted={{{table}}}")
    return AgentAction(
        "codex", "Make made.txt", (*settings, "--sandbox", "danger-full-access", *args), resume
    )


def gemini(*args: str) -> AgentAction:
    return AgentAction("gemini", "Make made.txt", ("--model", "gemini-2.5-flash", *args))


def gemini_env(bench: Bench, url: str, tries: int = 1) -> dict[str, str]:
    """Its key is accepted at another address only if its settings say that a key is meant."""
    settings = bench.folder / "agent-home" / ".gemini" / "settings.json"
    settings.parent.mkdir()
    chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"maxAttempts": tries}}
    settings.write_text(json.dumps(chosen))
    return {
        "GEMINI_API_KEY": dummy_key(),
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "TMPDIR": str(bench.folder),
    }


def users_words(body: dict[str, Any]) -> str:
    """What the model was told by the user in the last message."""
    return json.dumps([one for one in body["messages"] if one["role"] == "user"][-1]["content"])


# The model


async def test_a_model_may_answer_by_what_it_is_asked_instead_of_by_turn() -> None:
    def choose(asked: Asked, turn: int) -> Say:
        return Say(f"turn {turn} of {asked.body['messages'][0]['content']}")

    talk = [{"role": "user", "content": "fix"}, {"role": "assistant", "content": "how?"}]
    async with ModelServer(choose=choose) as model:
        answers = [await asyncio.to_thread(said_by, model.url, talk[:length]) for length in (1, 2)]
    assert ["turn 0 of fix" in answers[0], "turn 1 of fix" in answers[1]] == [True, True]


def said_by(url: str, messages: list[dict[str, str]]) -> str:
    request = urllib.request.Request(f"{url}/v1/messages", json.dumps({"messages": messages}).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read())


# Claude Code


@needs_claude
async def test_an_agent_that_edits_a_file_passes_by_its_postcondition(bench: Bench) -> None:
    async with ModelServer(WRITE, Say("it is made")) as model:
        state = await bench.run(claude("--allowedTools", "Bash"), DONE, env={"ANTHROPIC_BASE_URL": model.url})
    finished = (await bench.of_type(ev.AttemptFinished))[0]
    assert state.status is RunStatus.SUCCEEDED
    assert finished.changed_files == ("made.txt",)
    assert (finished.agent.cli, finished.agent.turns) == ("claude", 2)
    assert finished.agent.last_command == "echo made > made.txt"
    assert finished.agent.session_id and finished.agent.cost_usd > 0
    told = users_words(model.asked[0].body)
    assert all(words in told for words in ("Objective: It is made", "Step fix: Make it", "Make made.txt"))
    assert '"type":"result"' in bench.log()


@needs_claude
async def test_an_agent_that_loops_with_the_same_diff_is_reset_softly_and_then_hard(bench: Bench) -> None:
    wrong = Use("Bash", {"command": "echo wrong > other.txt", "description": "make it"})
    async with ModelServer(wrong, Say("it is made")) as model:
        await bench.run(claude("--allowedTools", "Bash"), DONE, env={"ANTHROPIC_BASE_URL": model.url})
    failed = await bench.of_type(ev.AttemptFailed)
    assert [one.strategy for one in failed][:2] == ["soft_reset", "hard_reset"]
    assert failed[1].failure_class is FailureClass.STUCK_NO_PROGRESS
    first, retry = users_words(model.asked[0].body), users_words(model.asked[2].body)
    assert "Constraints" not in first
    for words in (
        "do not re-run unchanged remediation",
        "Last command: echo wrong",
        "other.txt",
        "Diff hash: ",
    ):
        assert words in retry
    assert len([one for one in model.asked[2].body["messages"] if one["role"] == "assistant"]) == 0


@needs_claude
async def test_an_agent_that_was_denied_a_tool_fails_for_good_although_it_claims_success(
    bench: Bench,
) -> None:
    async with ModelServer(WRITE, Say("it is made")) as model:
        state = await bench.run(claude(), env={"ANTHROPIC_BASE_URL": model.url})
    failure = await bench.failure()
    assert state.status is RunStatus.FAILED
    assert (failure.facts.exit_code, failure.facts.kind) == (0, FailureKind.TOOL_DENIED)
    assert failure.failure_class is FailureClass.DETERMINISTIC_POLICY
    assert failure.agent.denials == ("Bash: echo made > made.txt",)
    assert len(await bench.of_type(ev.AttemptFailed)) == 1


@needs_claude
async def test_an_agent_whose_service_is_down_may_be_tried_again(bench: Bench) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    await bench.run(claude(), env={"ANTHROPIC_BASE_URL": url}, limits=Limits(max_attempts=1))
    failure = await bench.failure()
    assert failure.facts.kind is FailureKind.CONNECTION_LOST
    assert failure.failure_class is FailureClass.TRANSIENT_RUNTIME
    assert failure.facts.agent_event.startswith("claude:result:")


@needs_claude
async def test_an_agent_whose_model_never_answers_runs_into_the_idle_timeout(bench: Bench) -> None:
    async with ModelServer(Hang()) as model:
        limits = Limits(max_attempts=1, idle_timeout_s=IDLE_S)
        await bench.run(claude(), env={"ANTHROPIC_BASE_URL": model.url}, limits=limits)
    failure = await bench.failure()
    assert model.hung.is_set()
    assert failure.facts.kind is FailureKind.IDLE_TIMEOUT
    assert failure.failure_class is FailureClass.STUCK_NO_PROGRESS
    assert failure.agent.session_id


@needs_claude
async def test_an_agent_that_is_rate_limited_cools_down(bench: Bench) -> None:
    refusal = Refuse(429, "rate_limit_error", "slow down", {"retry-after": "120"})
    async with ModelServer(refusal) as model:
        limits = Limits(max_attempts=1)
        await bench.run(claude(), env={"ANTHROPIC_BASE_URL": model.url}, limits=limits)
    failure = await bench.failure()
    assert failure.facts.kind is FailureKind.RATE_LIMITED
    assert failure.failure_class is FailureClass.COOLDOWN


@needs_claude
async def test_an_agent_that_is_not_logged_in_fails_for_good(bench: Bench) -> None:
    state = await bench.run(claude(), env={"ANTHROPIC_API_KEY": ""})
    failure = await bench.failure()
    assert state.status is RunStatus.FAILED
    assert failure.failure_class is FailureClass.DETERMINISTIC_POLICY
    assert failure.facts.agent_event == "claude:result:authentication_failed"
    assert "Not logged in" in failure.summary


@needs_claude
async def test_a_second_attempt_goes_on_in_the_session_when_the_plan_says_so(bench: Bench) -> None:
    async with ModelServer(Say("I thought about it"), WRITE, Say("it is made")) as model:
        action = claude("--allowedTools", "Bash", resume=AgentSession.SESSION)
        state = await bench.run(action, DONE, env={"ANTHROPIC_BASE_URL": model.url})
    failed, finished = await bench.failure(), (await bench.of_type(ev.AttemptFinished))[0]
    assert state.status is RunStatus.SUCCEEDED
    assert failed.agent.session_id == finished.agent.session_id
    assert "I thought about it" in json.dumps(model.asked[1].body["messages"])
    assert "do not re-run unchanged remediation" in users_words(model.asked[1].body)


@needs_claude
async def test_an_unknown_session_costs_an_attempt_and_the_next_is_fresh(bench: Bench) -> None:
    home = Path(bench.env["HOME"])
    forgetful = home / "claude"
    forgetful.write_text(
        f'#!/bin/sh\n[ -f {home}/was ] && rm -rf {home}/.claude\ntouch {home}/was\nexec {AGENTS}/claude "$@"\n'
    )
    forgetful.chmod(0o755)
    async with ModelServer(Say("I thought about it")) as model:
        action = AgentAction(str(forgetful), "Make it", ("--bare",), AgentSession.SESSION)
        await bench.run(
            action, DONE, env={"ANTHROPIC_BASE_URL": model.url}, limits=Limits(no_progress_limit=9)
        )
    first, second, third = await bench.of_type(ev.AttemptFailed)
    assert second.facts.agent_event == "claude:result:session_not_found"
    assert second.agent.session_id is None
    assert third.facts.kind is FailureKind.POSTCONDITION_FAILED
    assert third.agent.session_id not in (None, first.agent.session_id)


# Codex


@needs_codex
async def test_codex_edits_a_file_and_passes_by_its_postcondition(bench: Bench) -> None:
    async with ModelServer(Use("exec_command", {"cmd": "echo made > made.txt"}), Say("it is made")) as model:
        state = await bench.run(codex(model.url), DONE)
    agent = (await bench.of_type(ev.AttemptFinished))[0].agent
    assert state.status is RunStatus.SUCCEEDED
    assert (agent.cli, agent.turns, agent.last_command) == ("codex", 1, "echo made > made.txt")
    assert agent.session_id


@needs_codex
async def test_codex_goes_on_in_its_session_when_the_plan_says_so(bench: Bench) -> None:
    write = Use("exec_command", {"cmd": "echo made > made.txt"})
    async with ModelServer(Say("I thought about it"), write, Say("it is made")) as model:
        state = await bench.run(codex(model.url, resume=AgentSession.SESSION), DONE)
    failed, finished = await bench.failure(), (await bench.of_type(ev.AttemptFinished))[0]
    assert state.status is RunStatus.SUCCEEDED
    assert failed.agent.session_id == finished.agent.session_id
    told = json.dumps(model.asked[1].body["input"])
    assert "I thought about it" in told and "do not re-run unchanged remediation" in told


@needs_codex
async def test_codex_that_reconnects_for_ever_runs_into_the_idle_timeout(bench: Bench) -> None:
    action = codex(f"http://127.0.0.1:{closed_port()}")
    await bench.run(action, limits=Limits(max_attempts=1, idle_timeout_s=RECONNECT_S))
    failure = await bench.failure()
    assert "Reconnecting" in bench.log()
    assert failure.facts.kind is FailureKind.IDLE_TIMEOUT
    assert failure.facts.agent_event == "codex:waiting:connection_error"
    assert failure.failure_class is FailureClass.TRANSIENT_RUNTIME


@needs_codex
async def test_codex_with_a_refused_key_fails_for_good(bench: Bench) -> None:
    async with ModelServer(Refuse(401, "invalid_api_key", "Incorrect key")) as model:
        await bench.run(codex(model.url))
    failure = await bench.failure()
    assert failure.facts.agent_event.startswith("codex:turn.failed:")
    assert failure.failure_class is FailureClass.DETERMINISTIC_POLICY


@needs_codex
async def test_codex_with_an_unknown_option_fails_for_good(bench: Bench) -> None:
    await bench.run(AgentAction("codex", "Make it", ("--no-such-option",)))
    failure = await bench.failure()
    assert (failure.facts.exit_code, failure.facts.agent_event) == (2, "codex:exit:usage_error")
    assert failure.failure_class is FailureClass.DETERMINISTIC_CONTRACT


# Gemini CLI

SHELL = Use("run_shell_command", {"command": "echo made > made.txt", "description": "make it"})


@needs_gemini
async def test_gemini_works_by_its_postcondition_too(bench: Bench) -> None:
    async with ModelServer(SHELL, Say("it is made")) as model:
        state = await bench.run(gemini("--yolo"), DONE, env=gemini_env(bench, model.url))
    finished = (await bench.of_type(ev.AttemptFinished))[0]
    assert (state.status, finished.changed_files) == (RunStatus.SUCCEEDED, ("made.txt",))
    assert finished.agent.last_command == "echo made > made.txt"
    assert finished.agent.session_id
    assert "Step fix: Make it" in json.dumps(model.asked[0].body["contents"])


@needs_gemini
async def test_gemini_that_was_not_offered_a_tool_fails_for_good_although_it_claims_success(
    bench: Bench,
) -> None:
    async with ModelServer(SHELL, Say("it is made")) as model:
        state = await bench.run(gemini(), env=gemini_env(bench, model.url))
    failure = await bench.failure()
    assert (state.status, failure.facts.exit_code) == (RunStatus.FAILED, 0)
    assert failure.facts.kind is FailureKind.TOOL_DENIED
    assert failure.failure_class is FailureClass.DETERMINISTIC_POLICY
    assert failure.agent.denials == ("run_shell_command: not offered to the agent",)


@needs_gemini
@pytest.mark.parametrize(
    ("refusal", "cls"),
    [
        (Refuse(503, "unavailable", "not now"), FailureClass.TRANSIENT_RUNTIME),
        (Refuse(400, "invalid_argument", "API key not valid."), FailureClass.DETERMINISTIC_POLICY),
    ],
)
async def test_gemini_tells_why_its_service_refused(bench: Bench, refusal: Refuse, cls: FailureClass) -> None:
    """Of a status that it tried again for, only its exit code speaks in the end."""
    async with ModelServer(refusal) as model:
        env = gemini_env(bench, model.url)
        await bench.run(gemini(), env=env, limits=Limits(max_attempts=1))
    failure = await bench.failure()
    assert failure.facts.agent_event.startswith("gemini:result:")
    assert (failure.failure_class, failure.facts.exit_code) == (cls, refusal.status - 256)


@needs_gemini
async def test_gemini_that_waits_for_its_service_again_and_again_is_told_from_one_that_is_stuck(
    bench: Bench,
) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    limits = Limits(max_attempts=1, idle_timeout_s=IDLE_S)
    await bench.run(gemini(), env=gemini_env(bench, url, tries=10), limits=limits)
    failure = await bench.failure()
    assert failure.facts.kind is FailureKind.IDLE_TIMEOUT
    assert failure.failure_class is FailureClass.TRANSIENT_RUNTIME
    assert failure.facts.agent_event == "gemini:waiting:connection_error"


# Any command


async def test_a_command_that_is_not_installed_says_what_to_install(bench: Bench) -> None:
    await bench.run(AgentAction("gemini", "Make it"), env={"PATH": "/nowhere"})
    failure = await bench.failure()
    assert failure.facts.kind is FailureKind.SPAWN_FAILED
    assert failure.failure_class is FailureClass.DETERMINISTIC_CONTRACT
    assert "npm install -g @google/gemini-cli" in failure.summary


async def test_without_a_command_nothing_is_executed(bench: Bench) -> None:
    await bench.run(AgentAction("''", "touch made.txt"))
    assert (await bench.failure()).facts.kind is FailureKind.SPAWN_FAILED
    assert not list(bench.house.root.rglob("made.txt"))


async def test_a_prompt_stands_where_the_command_says_and_otherwise_last(bench: Bench) -> None:
    script = 'printf "%s|" "$@" > made.txt'
    state = await bench.run(
        AgentAction(f"sh -c '{script}' {{prompt}} --quick", "two words", ("--more",)),
        FileCheck("made.txt", contains=TextMatch(text="--quick|--more|")),
    )
    assert state.status is RunStatus.SUCCEEDED


async def test_what_any_command_prints_is_progress_and_can_be_checked(bench: Bench) -> None:
    slow = "sh -c 'for n in 1 2 3; do echo still $n >&2; sleep 0.8; done; echo made > made.txt'"
    state = await bench.run(
        AgentAction(slow, "Make it"), DONE, limits=Limits(idle_timeout_s=2, max_attempts=1)
    )
    assert state.status is RunStatus.SUCCEEDED


async def test_a_known_format_is_understood_whoever_prints_it(bench: Bench) -> None:
    session = str(uuid4())
    lines = [
        {"type": "thread.started", "thread_id": session},
        {"type": "turn.started"},
        {"type": "turn.failed", "error": {"message": "unexpected status 503 Service Unavailable: down"}},
    ]
    wrapper = Path(bench.env["HOME"]) / "wrapper"
    wrapper.write_text("#!/bin/sh\n" + "".join(f"echo '{json.dumps(line)}'\n" for line in lines) + "exit 1\n")
    wrapper.chmod(0o755)
    await bench.run(AgentAction(str(wrapper), "Make it"), limits=Limits(max_attempts=1))
    failure = await bench.failure()
    assert (failure.agent.cli, failure.agent.session_id) == ("wrapper", session)
    assert failure.failure_class is FailureClass.TRANSIENT_RUNTIME


async def test_a_secret_in_an_agents_words_reaches_neither_log_nor_ledger(bench: Bench) -> None:
    secret = "hush" + secrets.token_hex(12)
    hidden = str(uuid4())
    bench.house.redactor.register("TOKEN", secret)
    bench.house.redactor.register("OTHER", hidden)
    message = {"model": "m", "content": [{"type": "text", "text": f"the token is {secret}"}]}
    tool = {
        "model": "m",
        "content": [{"type": "tool_use", "name": "Bash", "input": {"command": "x" * 1990 + secret}}],
    }
    lines: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "session_id": hidden},
        {"type": "assistant", "message": message},
        {"type": "assistant", "message": tool},
        {"type": "result", "is_error": True, "result": f"{secret} is wrong"},
    ]
    wrapper = Path(bench.env["HOME"]) / "wrapper"
    (Path(bench.env["HOME"]) / "said").write_text("\n".join(map(json.dumps, lines)) + "\n")
    wrapper.write_text('#!/bin/sh\ncat "$HOME/said"\nexit 1\n')
    wrapper.chmod(0o755)
    await bench.run(AgentAction(str(wrapper), "Make it"), limits=Limits(max_attempts=1))
    stored = b"".join(path.read_bytes() for path in bench.house.root.rglob("*") if path.is_file())
    assert bench.log().count("[redacted]") == 4
    for part in (secret, secret[:12], secret[-12:], hidden):
        assert part.encode() not in stored


class Watching:
    """The engine's side of one attempt, which notes what people are shown."""

    deadline_boot_s = float("inf")

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.notes: list[str] = []
        self.sessions: list[str] = []

    @property
    def lifeline(self) -> Watching:
        return self

    def attach(self, extend: Callable[[float], None]) -> Callable[[], None]:
        return lambda: None

    async def launched(self, keeper: ProcessIdentity) -> None:
        pass

    def said(self, stream: str, chunk: Redacted) -> None:
        pass

    def progressed(self, progress: Progress) -> None:
        self.notes.append(progress.note.text)

    def session_known(self, session_id: str) -> None:
        self.sessions.append(session_id)


async def test_people_see_what_the_agent_does_and_no_secrets(bench: Bench) -> None:
    secret = "hush" + secrets.token_hex(12)
    bench.house.redactor.register("TOKEN", secret)
    thread, hidden = str(uuid4()), str(uuid4())
    bench.house.redactor.register("HIDDEN", hidden)
    lines: list[dict[str, Any]] = [
        {"type": "thread.started", "thread_id": thread},
        {"type": "thread.started", "thread_id": thread},
        {"type": "thread.started", "thread_id": hidden},
        {
            "type": "item.started",
            "item": {"type": "command_execution", "command": "/bin/bash -lc 'pytest -q'"},
        },
        {"type": "item.completed", "item": {"type": "file_change", "changes": [{"path": "/w/app.py"}]}},
        {
            "type": "item.completed",
            "item": {"type": "agent_message", "text": "y" * 150 + f" {secret}\nReally."},
        },
        {"type": "turn.completed"},
    ]
    said = bench.folder / "said"
    said.write_text("\n".join(map(json.dumps, lines)))
    order = Order(
        run_id="run-1",
        step_id="fix",
        step_index=0,
        attempt=1,
        action=AgentAction(f"sh -c 'cat {said}'", "Make it"),
        cwd=str(bench.folder),
        env=bench.env,
        policy=Policy(),
    )
    hooks = Watching()
    outcome = await AgentRuntime(LinuxKeeper(), bench.open_log).perform(order, hooks)
    assert hooks.notes[:2] == ["runs: pytest -q", "edits app.py"]
    assert hooks.notes[2].startswith("yyy") and secret[:4] not in hooks.notes[2]
    assert outcome.kind is None and outcome.stdout.text().endswith("Really.")
    assert hooks.sessions == [thread]
