"""What an agent is told: the objective and the step, and on a retry what went wrong, in few words. Never logs, never a
transcript."""

from __future__ import annotations

from typing import Any, Final

from recoup.model.outcome import Order
from recoup.model.plan import AgentAction
from recoup.runtimes.agent.story import text

OBJECTIVE_CHARS_MAX: Final = 4_000
FILES_MAX: Final = 50
_FILE_CHARS_MAX: Final = 200


def prompt_for(order: Order) -> str:
    action = order.action
    assert isinstance(action, AgentAction), "agents perform agent steps only"
    told = action.prompt if order.retry_context is None else _envelope(action.prompt, order.retry_context)
    parts = (_labelled("Objective: ", order.objective[:OBJECTIVE_CHARS_MAX]), _heading(order), told)
    return _carried("\n\n".join(part for part in parts if part))


def _heading(order: Order) -> str:
    """Nothing before a prompt that stands alone: it may be a command of the agent's own."""
    if order.retry_context is not None:
        return f"Step {order.step_id}, attempt {order.attempt}: {order.title}".rstrip(": ")
    return _labelled(f"Step {order.step_id}: ", order.title)


def _envelope(prompt: str, context: dict[str, Any]) -> str:
    """The instructions are the step's own: those in the context are cut."""
    command = text(context, "lastCommand")
    facts = (
        _labelled("The attempt before this one failed: ", text(context, "failureSummary")),
        _labelled("Failure signature: ", text(context, "failureSignature")),
        _labelled("Last command: ", "" if command == text(context, "instructions") else command),
        _changes(context),
    )
    rules = [f"- {rule}" for rule in _texts(context, "constraints")]
    parts = (
        f"Instructions:\n{prompt}",
        "\n".join(fact for fact in facts if fact),
        "\n".join(["Constraints:", *rules]) if rules else "",
    )
    return "\n\n".join(part for part in parts if part)


def _changes(context: dict[str, Any]) -> str:
    """Without a workspace nothing is known about changes, and nothing is said."""
    files, diff_hash = _texts(context, "changedFiles"), text(context, "diffHash")
    named = ", ".join(name[:_FILE_CHARS_MAX] for name in files[:FILES_MAX])
    more = f" and {len(files) - FILES_MAX} more" if len(files) > FILES_MAX else ""
    parts = (_labelled("Changed files: ", named + more), _labelled("Diff hash: ", diff_hash))
    return "\n".join(part for part in parts if part)


def _labelled(label: str, words: str) -> str:
    return f"{label}{words}" if words else ""


def _texts(context: dict[str, Any], key: str) -> list[str]:
    value = context.get(key)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _carried(prompt: str) -> str:
    """What an argument of a process can hold."""
    return prompt.replace("\0", "").encode("utf-8", "replace").decode()
