"""The MCP server for agents inside a step."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def tool_server() -> tuple[str, ...] | None:
    """What starts it. `-P`, and the place of this package: nothing in the step's folder may take the place of a module.
    None: its package is not installed."""
    if importlib.util.find_spec("mcp") is None:
        return None
    boot = "import sys; sys.path.insert(0, sys.argv.pop(1)); from recoup.mcp.inside import main; main()"
    return (sys.executable, "-P", "-c", boot, str(Path(__file__).parents[2]))
