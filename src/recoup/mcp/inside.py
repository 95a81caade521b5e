"""For an agent inside a step: how far it is, what failed before, and that it gets no further.

Everything goes through the files and pipes that its attempt was given, so it needs no database and cannot speak for
another run. Where it asks for something, others decide.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from recoup import __version__
from recoup.errors import UsageError
from recoup.inside import NOTE_CHARS_MAX, progress
from recoup.reports.plain import Plain

REASON_CHARS_MAX: Final = 1_000
CONTEXT_BYTES_MAX: Final = 64 << 10
NEEDED: Final = ("RECOUP_RUN_ID", "RECOUP_STEP_ID", "RECOUP_ATTEMPT")
FIRST_ATTEMPT: Final = "This is the first attempt of this step: nothing has failed yet."
_RESET_LINE_BYTES_MAX: Final = 4_096
"""So much a pipe takes in one piece."""
_ABOUT: Final = (
    "You work inside a step that Recoup runs and watches. Call report_progress while something takes long, so that "
    "you are not taken for hung. get_failure_context says what went wrong in the attempt before this one. If your "
    "workspace or your own context is broken beyond repair, call request_reset and stop: this attempt ends then."
)
_WHAT_FOLLOWS: Final = {
    "soft": "If another attempt is allowed, it begins with a fresh process in the same workspace.",
    "hard": "If another attempt is allowed, it begins in the workspace as it was before this step, where the step has "
    "one and resets are left; otherwise with a fresh process in this one.",
}


def is_inside() -> bool:
    """Whether this process belongs to an attempt."""
    return all(os.environ.get(name) for name in NEEDED)


def build() -> MCPServer[Any]:
    if not is_inside():
        raise UsageError(
            "this is not inside a step: RECOUP_RUN_ID and its like are not set",
            hint="An `agent:` step starts this by itself. From outside: recoup mcp --outside",
        )
    server: MCPServer[Any] = MCPServer(
        "recoup-step", instructions=_ABOUT, version=__version__, log_level="ERROR", subscriptions=False
    )
    for tool, hints in _TOOLS.items():
        server.add_tool(tool, annotations=hints, structured_output=False)
    return server


def main() -> None:
    build().run("stdio")


def report_progress(
    message: Annotated[str, Field(max_length=10_000, description="What you do now, in a few words.")],
    percent: Annotated[float | None, Field(ge=0, le=100, description="How much is done.")] = None,
) -> str:
    """Tell the people who watch how far you are, and keep the idle timer of this step from running out.

    Call it before and during anything that takes minutes. It never fails; what comes too often is dropped.
    """
    progress(message, percent, None if percent is None else 100.0)
    return (
        "told"
        if len(message) <= NOTE_CHARS_MAX
        else f"told; only its first {NOTE_CHARS_MAX} characters are shown"
    )


def get_failure_context() -> str:
    """What went wrong in the attempt before this one, as JSON: summary, class, signature, last command, changed files,
    and rules for this attempt. In a first attempt there is nothing to tell."""
    path = os.environ.get("RECOUP_RETRY_CONTEXT")
    if not path:
        return FIRST_ATTEMPT
    try:
        with Path(path).open("rb") as file:
            return Plain().text(file.read(CONTEXT_BYTES_MAX).decode("utf-8", "replace"))
    except OSError as error:
        raise ToolError(f"what failed before cannot be read: {error.strerror}; go by your prompt") from None


def request_reset(
    kind: Annotated[
        Literal["soft", "hard"],
        Field(
            description="soft: a fresh start in this workspace. hard: in the workspace as it was before this step."
        ),
    ],
    reason: Annotated[
        str,
        Field(
            min_length=1, max_length=10_000, pattern=r"\S", description="What is broken, and how you know."
        ),
    ],
) -> str:
    """Say that your workspace or your context is broken and that you get no further. This attempt ends at once, as one
    that failed; whether and how the step is tried again is decided by the run's own limits, not by you.

    Do not call it because the work is hard: an attempt is used up.
    """
    if not _ask(msgspec.json.encode({"kind": kind, "reason": _cut(reason)})):
        raise ToolError(
            "nobody heard it: there is no way to ask for a reset here. "
            "Stop, and say in your last message what is broken."
        )
    return f"Heard. This attempt ends now, as one that failed. {_WHAT_FOLLOWS[kind]} Do nothing more."


def _ask(line: bytes) -> bool:
    """In one piece, and without waiting."""
    try:
        pipe = os.open(os.environ.get("RECOUP_RESET", ""), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return stat.S_ISFIFO(os.fstat(pipe).st_mode) and os.write(pipe, line + b"\n") == len(line) + 1
    except OSError:
        return False
    finally:
        os.close(pipe)


def _cut(reason: str) -> str:
    """Between words: half a secret could not be recognised as one. However it is written, it fits into the pipe."""
    while len(reason) > REASON_CHARS_MAX or len(msgspec.json.encode(reason)) > _RESET_LINE_BYTES_MAX - 64:
        reason = reason[: min(len(reason) - 1, REASON_CHARS_MAX)].rpartition(" ")[0]
    return reason


_TOOLS: Final[dict[Callable[..., str], ToolAnnotations]] = {
    report_progress: ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True),
    get_failure_context: ToolAnnotations(read_only_hint=True),
    request_reset: ToolAnnotations(read_only_hint=False, destructive_hint=True),
}
