"""Commands that a message tells a person to run: whole lines, to be pasted as they are."""

from __future__ import annotations

import shlex

from recoup.kernel.controls.gates import APPROVE, REJECT
from recoup.kernel.controls.settlement import DONE, NOT_DONE, SETTLE

_REASON = "--reason '...'"


def control_command(run_id: str, words: str) -> str:
    return f"recoup control {run_id} {words} {_REASON}"


def gate_commands(run_id: str) -> tuple[str, str]:
    """To open a gate, and to refuse."""
    return control_command(run_id, APPROVE.name), control_command(run_id, REJECT.name)


def settle_commands(run_id: str, step_id: str) -> tuple[str, str]:
    """To say that a step was done, and that it was not."""
    settle = f"{SETTLE.name} --step {shlex.quote(step_id)}"
    return control_command(run_id, f"{settle} --as {DONE}"), control_command(
        run_id, f"{settle} --as {NOT_DONE}"
    )
