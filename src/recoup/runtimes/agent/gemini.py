"""Gemini CLI: `--output-format stream-json`, and exit codes that mean something.

While its service is down it tries again for minutes and says so on stderr alone. What needs an approval is not offered
to the model at all when nobody can approve: it is "not found", and the agent may claim success all the same.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

from recoup.runtimes.agent.dialect import Call, Dialect
from recoup.runtimes.agent.story import Event, Heard, Story, Trouble, first_line, table, text
from recoup.runtimes.agent.trouble import SESSION_NOT_FOUND, deciding, fact_in, status_fact

_EDITS = {"write_file": "writes", "replace": "edits", "edit": "edits", "read_file": "reads"}
_DENIALS = frozenset({"policy_violation", "permission_denied", "tool_not_registered"})
_FATAL = {
    "FatalAuthenticationError": "authentication_failed",
    "FatalInputError": "input_error",
    "FatalConfigError": "invalid_config",
    "FatalTurnLimitedError": "turn_limit",
}
_NO_KEY: Final = ("API key not valid", "API_KEY_INVALID")
_NOT_FOUND: Final = re.compile(r'Tool "([^"]{1,200})" not found')
_RETRIES: Final = re.compile(r"Attempt [0-9]+ failed(?: with status ([0-9]{3}))?[.:].* Retrying ")
_STATUSES: Final = {status - 256: f"http_{status}" for status in range(400, 512)}
"""It exits with the status of the service's answer, of which a process can only give the lower eight bits."""


def _argv(call: Call) -> tuple[str, ...]:
    resumed = ("--resume", call.session_id) if call.session_id else ()
    return (*call.words, f"--prompt={call.prompt}", "--output-format", "stream-json", *resumed, *call.args)


def _opens(event: Event) -> bool:
    return event.get("type") == "init" and bool(text(event, "session_id"))


def _hear(event: Event, story: Story) -> Heard | None:
    match event.get("type"):
        case "init":
            story.has_session(event.get("session_id"))
            return Heard(True)
        case "message":
            return _message(event, story)
        case "tool_use":
            return _tool(text(event, "tool_name"), table(event, "parameters"), story)
        case "tool_result":
            return _tool_result(event, story)
        case "error":
            return Heard(False, first_line(text(event, "message")))
        case "result":
            return _result(event, story)
    return None


def _message(event: Event, story: Story) -> Heard:
    if event.get("role") != "assistant":
        return Heard(False)
    story.waiting = None
    said, earlier = text(event, "content"), story.message if event.get("delta") is True else ""
    story.said(earlier + said)
    return Heard(bool(said), first_line(said))


def _tool(tool: str, given: Event, story: Story) -> Heard:
    story.message, story.waiting = "", None
    if tool == "run_shell_command" and text(given, "command"):
        return story.ran(text(given, "command"))
    file = PurePath(text(given, "file_path") or text(given, "path")).name
    return Heard(True, f"{_EDITS[tool]} {file}" if tool in _EDITS and file else f"uses {tool}")


def _tool_result(event: Event, story: Story) -> Heard:
    kind = text(event, "error", "type")
    if kind in _DENIALS:
        story.denied(_denied(text(event, "error", "message")) or kind)
    return Heard(True)


def _denied(words: str) -> str:
    unknown = _NOT_FOUND.match(words)
    return f"{unknown[1]}: not offered to the agent" if unknown else first_line(words)


def _result(event: Event, story: Story) -> Heard:
    story.ended = True
    story.waiting = None
    if event.get("status") != "error":
        return Heard(True)
    kind, words = text(event, "error", "type"), text(event, "error", "message")
    login = "authentication_failed" if any(phrase in words for phrase in _NO_KEY) else ""
    story.trouble = Trouble("result", deciding(login, _FATAL.get(kind, ""), fact_in(words), kind), words)
    return Heard(False, first_line(words))


def _aside(line: str, story: Story) -> str:
    found = _RETRIES.match(line)
    if not found:
        return ""
    told = status_fact(int(found[1])) if found[1] else ""
    story.waiting = Trouble("waiting", deciding(fact_in(line), told, "connection_error"), line)
    return line


GEMINI = Dialect(
    name="gemini",
    argv=_argv,
    opens=_opens,
    hear=_hear,
    install="npm install -g @google/gemini-cli",
    aside=_aside,
    exits={
        **_STATUSES,
        41: "authentication_failed",
        42: "input_error",
        44: "sandbox_error",
        52: "invalid_config",
        53: "turn_limit",
        55: "untrusted_folder",
    },
    refusals=(
        ("Error resuming session", SESSION_NOT_FOUND),
        ("Invalid session identifier", SESSION_NOT_FOUND),
    ),
)
