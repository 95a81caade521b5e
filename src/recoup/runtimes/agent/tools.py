"""Recoup's own MCP server, given to an agent when it is started. A command line that is not known to take one works as
before."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

SERVER: Final = "recoup"
TOOLS: Final = ("report_progress", "get_failure_context", "request_reset")
FORWARDED: Final = (
    *("RECOUP_RUN_ID", "RECOUP_STEP_ID", "RECOUP_ATTEMPT", "RECOUP_IDEMPOTENCY_KEY"),
    *("RECOUP_PROGRESS", "RECOUP_RESET", "RECOUP_RETRY_CONTEXT"),
)
"""What the server needs to know about its attempt, and all that it is told: it can speak for no other."""
START_S_MAX: Final = 30
MISSING: Final = (
    "[the agent is given no tools of Recoup: the package mcp is not installed (pip install 'recoup[mcp]'); "
    "`mcp: false` in the step says that none are wanted]"
)


class Offer(NamedTuple):
    """How one command line is told about the server."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = MappingProxyType({})
    note: str = ""
    """For the log: why there is none."""
