"""`agent:` steps: a coding agent's command line in a process tree that a keeper keeps."""

from __future__ import annotations

from collections.abc import Callable

from recoup.model.failure import FailureKind
from recoup.model.outcome import Order, Outcome
from recoup.model.plan import AgentAction
from recoup.ports import Hooks, Keeper
from recoup.runtimes.agent.clis import argv_of, call_of, cli_name, dialect_of
from recoup.runtimes.agent.conclusion import concluded
from recoup.runtimes.agent.listener import Listener
from recoup.runtimes.process_attempt import perform_process
from recoup.runtimes.step_log import StepLog


class AgentRuntime:
    """Claude Code, Codex, Gemini, and any command that takes a prompt."""

    inline = False

    def __init__(self, keeper: Keeper, open_log: Callable[[Order], StepLog]) -> None:
        self._keeper = keeper
        self._open_log = open_log

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        assert isinstance(order.action, AgentAction), "agents perform agent steps only"
        call, dialect = call_of(order), dialect_of(order.action)
        if not any(call.words[:1]):
            # Otherwise the prompt would be the first word, and be executed.
            return Outcome(kind=FailureKind.SPAWN_FAILED, detail="the step names no command in `cli`")
        listener = Listener(dialect, hooks)
        outcome = await perform_process(
            self._keeper, self._open_log, order, hooks, argv_of(call, dialect), listen=listener.open
        )
        listener.close()
        return concluded(outcome, listener, cli_name(order.action), call)
