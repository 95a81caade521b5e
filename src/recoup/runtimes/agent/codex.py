"""Codex: `exec --json`. While its provider is down it says "Reconnecting..." for ever, which is no progress."""

from __future__ import annotations

import shlex
from pathlib import PurePath

import msgspec

from recoup.runtimes.agent.dialect import Call, Dialect
from recoup.runtimes.agent.story import Event, Heard, Story, Trouble, first_line, rows, table, text
from recoup.runtimes.agent.tools import FORWARDED, SERVER, START_S_MAX, Offer
from recoup.runtimes.agent.trouble import SESSION_NOT_FOUND, deciding, fact_in

_RETRIES = "Reconnecting"
_SHELLS = frozenset({"bash", "sh", "zsh"})


def _argv(call: Call) -> tuple[str, ...]:
    """Behind the dashes a prompt is a prompt, even one that reads like an option or a command of its own."""
    resumed = ("resume", call.session_id) if call.session_id else ()
    return (*call.words, "exec", "--json", *call.args, *resumed, "--", call.prompt)


def _offer(server: tuple[str, ...]) -> Offer:
    """As TOML; JSON writes texts and lists of texts the same way. A server gets no variables but those named."""
    table = {
        "command": server[0],
        "args": list(server[1:]),
        "env_vars": list(FORWARDED),
        "startup_timeout_sec": START_S_MAX,
        # Nobody is there to be asked; without it every call is refused.
        "default_tools_approval_mode": "approve",
    }
    written = ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in table.items())
    return Offer(("-c", f"mcp_servers.{SERVER}={{{written}}}"))


def _opens(event: Event) -> bool:
    return event.get("type") == "thread.started"


def _hear(event: Event, story: Story) -> Heard | None:
    match event.get("type"):
        case "thread.started":
            story.has_session(event.get("thread_id"))
            return Heard(True)
        case "turn.started":
            story.ended = False
            return Heard(True)
        case "turn.completed":
            return _completed(story)
        case "turn.failed":
            return _failed("turn.failed", text(event, "error", "message"), story)
        case "error":
            return _error(text(event, "message"), story)
        case "item.started" | "item.updated" | "item.completed":
            return _item(table(event, "item"), story)
        case "item.plan.delta":
            return Heard(True)
    return None


def _completed(story: Story) -> Heard:
    story.turns = (story.turns or 0) + 1
    story.trouble = story.waiting = None
    story.ended = True
    return Heard(True)


def _failed(event: str, words: str, story: Story) -> Heard:
    story.ended = True
    story.trouble = Trouble(event, deciding(fact_in(words), event), words)
    return Heard(False, first_line(words))


def _error(words: str, story: Story) -> Heard:
    if not words.startswith(_RETRIES):
        return _failed("error", words, story)
    story.waiting = Trouble("waiting", deciding(fact_in(words), "connection_error"), words)
    return Heard(False, first_line(words))


def _item(item: Event, story: Story) -> Heard:
    if item.get("type") == "error":
        return Heard(False, first_line(text(item, "message")))
    story.waiting = None
    if item.get("status") == "declined":
        story.denied(_denied(item))
    match item.get("type"):
        case "agent_message":
            return story.said(text(item, "text"))
        case "command_execution" if text(item, "command"):
            return story.ran(_script(text(item, "command")))
        case "file_change":
            names = [PurePath(text(change, "path")).name for change in rows(item, "changes")]
            return Heard(True, f"edits {', '.join(names[:3])}")
        case "mcp_tool_call":
            return Heard(True, f"uses {text(item, 'tool')}")
        case "reasoning":
            return Heard(True, first_line(text(item, "text")))
    return Heard(True)


def _denied(item: Event) -> str:
    command = text(item, "command")
    return f"{text(item, 'type')}: {_script(command)}" if command else text(item, "type")


def _script(command: str) -> str:
    """Without the shell that Codex wraps around it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    wrapped = len(words) == 3 and PurePath(words[0]).name in _SHELLS and words[1] in ("-lc", "-c")
    return words[2] if wrapped else command


CODEX = Dialect(
    name="codex",
    argv=_argv,
    opens=_opens,
    hear=_hear,
    offer=_offer,
    install="npm install -g @openai/codex",
    exits={2: "usage_error"},
    refusals=(
        ("no rollout found for thread", SESSION_NOT_FOUND),
        ("Not inside a trusted directory", "untrusted_folder"),
    ),
)
