"""Who plays the agent: the real Claude Code with a scripted model on loopback, or a stand-in where seconds count."""

import os
import re
import secrets
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from examples.stage import Stage
from recoup.testing.model_server import Asked, Hang, ModelServer, Reply, Say, Use

HERE = Path(__file__).parent
INSTALLED = HERE.parents[1] / ".agents" / "node_modules" / ".bin"
_STEP = re.compile(r"Step (\w+)(?:, attempt (\d+))?: ")
Script = dict[str, list[str]]


def claude() -> Path | None:
    """The real one, as `make agents` installs it or as it is on the PATH."""
    found = shutil.which("claude", path=f"{INSTALLED}:{os.environ['PATH']}")
    return Path(found) if found and shutil.which("node") else None


@asynccontextmanager
async def agent(stage: Stage) -> AsyncIterator[str]:
    """Let `claude` be found by the steps; says who it is."""
    real = None if stage.short else claude()
    if real is None:
        stage.env |= _stand_in(stage.folder)
        yield "a stand-in that speaks as Claude Code does"
        return
    script = msgspec.json.decode((stage.folder / "script.json").read_bytes(), type=Script)
    async with ModelServer(choose=lambda asked, turn: reply(script, asked, turn)) as model:
        stage.env |= _alone(stage.folder, real, model.url)
        yield "the real Claude Code, whose model is scripted"


def reply(script: Script, asked: Asked, turn: int) -> Reply:
    """What the model says, by the step and the attempt that its first message names."""
    named = _STEP.search(str(asked.body.get("messages", [{}])[0].get("content")))
    if named is None:
        return Say("nothing to do")
    wants = script[named[1]]
    wanted = wants[min(int(named[2] or 1), len(wants)) - 1]
    if wanted == "hang":
        return Hang()
    if wanted == "wander":
        return _bash("cat till.py; sleep 0.5")
    return Say("It is fixed.") if turn else _bash(wanted)


def _bash(command: str) -> Use:
    return Use("Bash", {"command": command, "description": "as the script says"})


def _stand_in(folder: Path) -> dict[str, str]:
    place = folder / "bin" / "claude"
    place.parent.mkdir()
    shutil.copy(HERE / "stand_in.py", place)
    place.chmod(0o755)
    return {"PATH": _path(place.parent), "NIGHT_SCRIPT": str(folder / "script.json")}


def _alone(folder: Path, real: Path, url: str) -> dict[str, str]:
    """A home of its own, and no way out: the agent talks to its scripted model and to nobody else."""
    home = folder / "agent-home"
    home.mkdir()
    nowhere = "http://127.0.0.1:9"
    return {
        "HOME": str(home),
        "PATH": _path(real.parent),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "-".join(("not", "a", "key", secrets.token_hex(4))),
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


def _path(first: Path) -> str:
    """With this interpreter before any other `python3`: there are machines where that is a slow shim."""
    return f"{first}:{Path(sys.executable).parent}:{os.environ['PATH']}"
