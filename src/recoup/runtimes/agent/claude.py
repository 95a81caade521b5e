"""Claude Code: `-p` with `stream-json`. Its exit code and `subtype` say success when its service is down or a tool was
denied; `is_error` and `permission_denials` are what counts."""

from __future__ import annotations

from pathlib import PurePath

import msgspec

from recoup.runtimes.agent.dialect import Call, Dialect
from recoup.runtimes.agent.story import (
    Event,
    Heard,
    Story,
    Trouble,
    amount,
    count,
    first_line,
    rows,
    table,
    text,
)
from recoup.runtimes.agent.tools import SERVER, TOOLS, Offer
from recoup.runtimes.agent.trouble import SESSION_NOT_FOUND, deciding, fact_in, status_fact

_SESSION_LOST = "No conversation found with session ID"
_NO_PROGRESS = frozenset({"api_retry", "status"})
_EDITS = {"Edit": "edits", "MultiEdit": "edits", "Write": "writes", "NotebookEdit": "edits", "Read": "reads"}
_WAIT_IS_TOLD = frozenset({429, 503, 529})


def _argv(call: Call) -> tuple[str, ...]:
    # A prompt is a plain argument here: a space keeps one that begins with a dash from being read as an option.
    prompt = f" {call.prompt}" if call.prompt.startswith("-") else call.prompt
    resumed = ("--resume", call.session_id) if call.session_id else ()
    return (*call.words, "-p", prompt, "--output-format", "stream-json", "--verbose", *resumed, *call.args)


def _offer(server: tuple[str, ...]) -> Offer:
    """Beside the servers that the user has. With `=`, so that no argument that follows is taken for one more of them.
    A first turn that did not wait for the server would not know its tools."""
    config = {"mcpServers": {SERVER: {"command": server[0], "args": list(server[1:])}}}
    allowed = ",".join(f"mcp__{SERVER}__{tool}" for tool in TOOLS)
    words = (f"--mcp-config={msgspec.json.encode(config).decode()}", f"--allowedTools={allowed}")
    return Offer(words, {"MCP_CONNECTION_NONBLOCKING": "0"})


def _opens(event: Event) -> bool:
    return event.get("type") == "system" and event.get("subtype") == "init"


def _hear(event: Event, story: Story) -> Heard | None:
    story.has_session(event.get("session_id"))
    match event.get("type"):
        case "system":
            return _system(event, story)
        case "assistant":
            return _assistant(event, story)
        case "user":
            story.waiting = None
            return Heard(True)
        case "result":
            return _result(event, story)
        case "stream_event":
            return _stream_event(event, story)
        case "rate_limit_event":
            return _rate_limit(event, story)
        case "tool_progress" | "keep_alive":
            # They tell that time passes.
            return Heard(False)
    return None


def _system(event: Event, story: Story) -> Heard | None:
    subtype = text(event, "subtype")
    if subtype == "api_retry":
        status = count(event, "error_status")
        fact = deciding(text(event, "error").replace("unknown", ""), status_fact(status), "connection_error")
        words = f"{text(event, 'error') or 'error'} (status {status}), attempt {count(event, 'attempt')}"
        story.waiting = Trouble("waiting", fact, words, _wait_s(event))
        return Heard(False, f"waits for its service: {fact}")
    if subtype == "init":
        return Heard(True)
    return Heard(False) if subtype in _NO_PROGRESS else None


def _wait_s(event: Event) -> float | None:
    """A whole number of seconds is what the service asked for: the command line's own waits have a random part."""
    delay_ms = amount(event, "retry_delay_ms")
    told = delay_ms and delay_ms % 1000 == 0 and count(event, "error_status") in _WAIT_IS_TOLD
    return delay_ms / 1000 if told and delay_ms else None


def _assistant(event: Event, story: Story) -> Heard:
    if text(event, "error") or text(event, "message", "model") == "<synthetic>":
        # Not the model speaks here but the command line, about an error.
        words = "\n".join(text(block, "text") for block in rows(event, "message", "content"))
        story.trouble = Trouble("assistant", text(event, "error"), words)
        return Heard(False, first_line(words))
    story.waiting = None
    heard = [_block(block, story) for block in rows(event, "message", "content")]
    return Heard(True, next((one.note for one in reversed(heard) if one.note), ""))


def _block(block: Event, story: Story) -> Heard:
    if block.get("type") == "text":
        return story.said(text(block, "text"))
    if block.get("type") != "tool_use":
        return Heard(True)
    tool, given = text(block, "name"), table(block, "input")
    if tool == "Bash" and text(given, "command"):
        return story.ran(text(given, "command"))
    file = PurePath(text(given, "file_path") or text(given, "notebook_path")).name
    return Heard(True, f"{_EDITS[tool]} {file}" if tool in _EDITS and file else f"uses {tool}")


def _stream_event(event: Event, story: Story) -> Heard:
    """With --include-partial-messages; `ping` keeps a connection alive and is nothing else."""
    progress = text(event, "event", "type") == "content_block_delta"
    story.waiting = None if progress else story.waiting
    return Heard(progress)


def _rate_limit(event: Event, story: Story) -> Heard:
    status = text(event, "rate_limit_info", "status")
    if status == "rejected":
        story.waiting = Trouble("waiting", "rate_limit", "the service's limit is reached")
    return Heard(False)


def _result(event: Event, story: Story) -> Heard:
    story.ended = True
    story.turns = count(event, "num_turns")
    story.cost_usd = amount(event, "total_cost_usd")
    for denial in rows(event, "permission_denials"):
        story.denied(_denied(denial))
    if not _failed(event):
        story.trouble = story.waiting = None
        if text(event, "result"):
            story.said(text(event, "result"))
        return Heard(True, "")
    story.trouble = _why(event, story)
    return Heard(False, first_line(story.trouble.words))


def _failed(event: Event) -> bool:
    told = event.get("is_error")
    return told if isinstance(told, bool) else text(event, "subtype").startswith("error")


def _denied(denial: Event) -> str:
    tool, command = text(denial, "tool_name") or "a tool", text(denial, "tool_input", "command")
    return f"{tool}: {command}" if command else tool


def _why(event: Event, story: Story) -> Trouble:
    errors = event.get("errors")
    listed = [one for one in errors if isinstance(one, str)] if isinstance(errors, list) else []
    words = text(event, "result") or "\n".join(listed)
    if _SESSION_LOST in words:
        return Trouble("result", SESSION_NOT_FOUND, words)
    said = story.trouble.fact if story.trouble else ""
    subtype = text(event, "subtype").replace("success", "")
    named = "" if said == "unknown" else said
    waited = story.waiting
    fact = deciding(
        named,
        status_fact(event.get("api_error_status")),
        fact_in(words),
        subtype,
        waited.fact if waited else "",
    )
    return Trouble("result", fact, words, waited.retry_after_s if waited else None)


CLAUDE = Dialect(
    name="claude",
    argv=_argv,
    opens=_opens,
    hear=_hear,
    offer=_offer,
    install="npm install -g @anthropic-ai/claude-code",
    refusals=((_SESSION_LOST, SESSION_NOT_FOUND),),
)
