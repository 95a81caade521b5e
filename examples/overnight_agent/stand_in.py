#!/usr/bin/env -S python3 -ISB
"""Stands in for `claude` where a story has only seconds: prints the same events, and does what `script.json` says.

Recoup cannot tell it from the real one, which is asked in the whole story.
"""

import json
import os
import subprocess
import time

WANDERS_S_MAX = 60
HANGS_S_MAX = 600


def main() -> None:
    with open(os.environ["NIGHT_SCRIPT"]) as file:  # noqa: PTH123  # It begins sooner without pathlib.
        script = json.load(file)[os.environ["RECOUP_STEP_ID"]]
    wanted = script[min(int(os.environ["RECOUP_ATTEMPT"]), len(script)) - 1]
    tell(type="system", subtype="init", session_id=f"stand-in-{os.getpid()}")
    if wanted == "hang":
        time.sleep(HANGS_S_MAX)
    elif wanted == "wander":
        wander()
    else:
        use(wanted)
    tell(type="result", subtype="success", is_error=False, num_turns=2, result="It is fixed.")


def wander() -> None:
    """Look at the same file again and again; that is work, as far as anybody can see."""
    last = time.monotonic() + WANDERS_S_MAX
    while time.monotonic() < last:
        use("cat till.py")
        time.sleep(0.1)


def use(command: str) -> None:
    tool = {"type": "tool_use", "id": "tool", "name": "Bash", "input": {"command": command}}
    tell(type="assistant", message={"content": [tool]})
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    tell(type="user", message={"content": [{"type": "tool_result", "content": done.stdout[-2_000:]}]})


def tell(**event: object) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    main()
